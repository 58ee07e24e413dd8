package credential

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// authServer is a real authorization server. It knows the clients gateway (with a secret), robot (with a key), and the users ann and bob.
type authServer struct {
	*authStorage
	url string

	mu       sync.Mutex
	requests []url.Values                                      // for tokens
	instead  func(w http.ResponseWriter, r *http.Request) bool // answers a request for a token; false: the server does
}

const serviceAudience = "https://stock.example.com"

// startAuthServer starts the server.
func startAuthServer(t *testing.T) *authServer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	web := func(id, secret string) *storage.Client { return storage.WebClient(id, secret) }
	s := &authServer{authStorage: &authStorage{key: key, life: 5 * time.Minute}}
	s.Storage = storage.NewStorageWithClients(users{}, map[string]*storage.Client{"gateway": web("gateway", "gateway:secret"), "robot": web("robot", ""),
		"ann": web("ann", "ann-secret"), "bob": web("bob", "bob-secret")})
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/oauth/token" {
			if err := r.ParseForm(); err != nil {
				t.Error(err)
			}
			s.mu.Lock()
			s.requests = append(s.requests, r.PostForm)
			instead := s.instead
			s.mu.Unlock()
			if instead != nil && instead(w, r) {
				return
			}
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL + "/oauth/token"
	provider, err := op.NewProvider(&op.Config{CryptoKey: sha256.Sum256([]byte("test")), AuthMethodPrivateKeyJWT: true}, s.authStorage,
		op.StaticIssuer(server.URL), op.WithAllowInsecure())
	if err != nil {
		t.Fatal(err)
	}
	handler = op.RegisterLegacyServer(&assertedServer{op.NewLegacyServer(provider, *op.DefaultEndpoints), s}, op.AuthorizeCallbackHandler(provider))
	return s
}

// count returns how many tokens were asked for.
func (s *authServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

// answer sets what answers requests for tokens; nil: the server.
func (s *authServer) answer(instead func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.instead = instead
}

// endpoint is that of the client gateway.
func (s *authServer) endpoint() *Endpoint {
	return &Endpoint{URL: s.url, ClientID: "gateway", Secret: "gateway:secret", Client: http.DefaultClient}
}

// pem returns the key of the client robot.
func (s *authServer) pem(t *testing.T) string {
	der, err := x509.MarshalPKCS8PrivateKey(s.key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// userToken returns a token of a user, a JWT.
func (s *authServer) userToken(t *testing.T, user string) string {
	t.Helper()
	token, err := (&Endpoint{URL: s.url, ClientID: user, Secret: user + "-secret", Client: http.DefaultClient}).fetch(t.Context(), "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	return token.AccessToken
}

// assertedServer also knows clients that sign (RFC 7523), for each grant.
type assertedServer struct {
	*op.LegacyServer
	server *authServer
}

func (s *assertedServer) VerifyClient(ctx context.Context, r *op.Request[op.ClientCredentials]) (op.Client, error) {
	if r.Data.ClientAssertion == "" {
		return s.LegacyServer.VerifyClient(ctx, r)
	}
	if r.Data.ClientAssertionType != oidc.ClientAssertionTypeJWTAssertion {
		return nil, oidc.ErrInvalidClient()
	}
	verifier := op.NewJWTProfileVerifier(s.server, s.server.url, time.Minute, time.Second)
	request, err := op.VerifyJWTAssertion(ctx, r.Data.ClientAssertion, verifier)
	if err != nil {
		return nil, oidc.ErrInvalidClient().WithParent(err)
	}
	return s.server.GetClientByClientID(ctx, request.Issuer)
}

// authStorage changes the storage of the library's example.
type authStorage struct {
	*storage.Storage
	key  *ecdsa.PrivateKey // of the client robot
	life time.Duration     // of each token
}

// jwtClient is a client whose tokens are JWTs.
type jwtClient struct{ op.Client }

func (jwtClient) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }
func (jwtClient) GrantTypes() []oidc.GrantType {
	return []oidc.GrantType{oidc.GrantTypeClientCredentials, oidc.GrantTypeTokenExchange}
}

func (s *authStorage) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	client, err := s.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return jwtClient{client}, nil
}

func (s *authStorage) ClientCredentials(ctx context.Context, id, secret string) (op.Client, error) {
	if err := s.AuthorizeClientIDSecret(ctx, id, secret); err != nil || secret == "" {
		return nil, oidc.ErrInvalidClient().WithParent(err)
	}
	return s.GetClientByClientID(ctx, id)
}

func (s *authStorage) ClientCredentialsTokenRequest(_ context.Context, id string, scopes []string) (op.TokenRequest, error) {
	return &oidc.JWTTokenRequest{Subject: id, Audience: []string{serviceAudience}, Scopes: scopes}, nil
}

func (s *authStorage) GetKeyByIDAndClientID(_ context.Context, id, client string) (*jose.JSONWebKey, error) {
	if client != "robot" {
		return nil, errors.New("only robot has a key")
	}
	return &jose.JSONWebKey{KeyID: id, Use: "sig", Key: &s.key.PublicKey}, nil
}

func (s *authStorage) CreateAccessToken(ctx context.Context, request op.TokenRequest) (string, time.Time, error) {
	id, _, err := s.Storage.CreateAccessToken(ctx, request)
	return id, time.Now().Add(s.life), err
}

// users are those of the server. All may exchange their tokens.
type users struct{}

func (users) GetUserByID(id string) *storage.User {
	return &storage.User{ID: id, Username: id, IsAdmin: true}
}
func (users) GetUserByUsername(name string) *storage.User { return users{}.GetUserByID(name) }
func (users) ExampleClientID() string                     { return "service" }

// claimsOf returns the text of a JWT's claims.
func claimsOf(t *testing.T, token string) string {
	t.Helper()
	parsed, err := jose.ParseSignedCompact(strings.TrimPrefix(token, bearer), algorithms)
	if err != nil {
		t.Fatalf("%s: %v", token, err)
	}
	return string(parsed.UnsafePayloadWithoutVerification())
}
