// Package oauthtest starts a real authorization server for tests, and guards servers by its tokens.
package oauthtest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// Server is an authorization server. It knows the clients gateway (with the Secret) and robot (with a key), and the users ann and bob, who
// are clients as well: their secrets are ann-secret and bob-secret. Its tokens are JWTs.
type Server struct {
	Issuer, TokenURL string

	storage *authStorage
	robot   *ecdsa.PrivateKey

	mu       sync.Mutex
	life     time.Duration
	requests []url.Values
	instead  func(w http.ResponseWriter, r *http.Request) bool
}

// Secret is that of the client gateway.
const Secret = "gateway:secret"

// Audience is that of the tokens of gateway and robot if no request names another, UserAudience that of users.
const (
	Audience     = "https://stock.example.com"
	UserAudience = "https://tools.example.com/mcp"
)

// Scope is that of the tokens of users.
const Scope = "tools"

// Start starts a server until the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{robot: key, life: 5 * time.Minute}
	s.storage = &authStorage{server: s}
	clients := map[string]*storage.Client{}
	for id, secret := range map[string]string{"gateway": Secret, "robot": "", "ann": "ann-secret", "bob": "bob-secret"} {
		clients[id] = storage.WebClient(id, secret)
	}
	s.storage.Storage = storage.NewStorageWithClients(users{}, clients)
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == tokenPath && s.answered(t, w, r) {
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.Issuer, s.TokenURL = server.URL, server.URL+tokenPath
	provider, err := op.NewProvider(&op.Config{CryptoKey: sha256.Sum256([]byte("test")), AuthMethodPrivateKeyJWT: true}, s.storage,
		op.StaticIssuer(server.URL), op.WithAllowInsecure(), op.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	legacy := &assertedServer{op.NewLegacyServer(provider, *op.DefaultEndpoints), s}
	handler = op.RegisterLegacyServer(legacy, op.AuthorizeCallbackHandler(provider))
	return s
}

const tokenPath = "/oauth/token"

// answered counts a request for a token, and answers it if the test says how.
func (s *Server) answered(t testing.TB, w http.ResponseWriter, r *http.Request) bool {
	if err := r.ParseForm(); err != nil {
		t.Error(err)
	}
	s.mu.Lock()
	s.requests = append(s.requests, r.PostForm)
	instead := s.instead
	s.mu.Unlock()
	return instead != nil && instead(w, r)
}

// Requests returns the requests for tokens so far.
func (s *Server) Requests() []url.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Answer sets what answers requests for tokens, unless it returns false; nil: the server does.
func (s *Server) Answer(instead func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.instead = instead
}

// SetLife sets how long new tokens live; at first five minutes.
func (s *Server) SetLife(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life = d
}

// Key returns the private key of the client robot, in PEM.
func (s *Server) Key(t testing.TB) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(s.robot)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// UserToken returns a new token of a user.
func (s *Server) UserToken(t testing.TB, user string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.TokenURL, strings.NewReader("grant_type=client_credentials"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(user, user+"-secret")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var token oidc.AccessTokenResponse
	if err := json.NewDecoder(response.Body).Decode(&token); err != nil || token.AccessToken == "" {
		t.Fatalf("no token for %s: status %d, %v", user, response.StatusCode, err)
	}
	return token.AccessToken
}

// Guard passes on requests with a token of the server for an audience, and tells the handler whose token it is. It refuses others with 401.
func (s *Server) Guard(audience string, next func(subject string) http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		subject, err := s.subject(r.Context(), r.Header.Get("Authorization"), audience)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		next(subject).ServeHTTP(w, r)
	})
}

// subject returns whose token a header carries. It fails unless the server has signed the token for the audience, and it has not ended.
func (s *Server) subject(ctx context.Context, header, audience string) (string, error) {
	token, ok := strings.CutPrefix(header, "Bearer ")
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil || !ok {
		return "", errors.New("no bearer token")
	}
	keys, err := s.storage.KeySet(ctx)
	if err != nil {
		return "", err
	}
	var claims jwt.Claims
	if err := parsed.Claims(keys[0].Key(), &claims); err != nil {
		return "", err
	}
	return claims.Subject, claims.ValidateWithLeeway(jwt.Expected{Issuer: s.Issuer, AnyAudience: jwt.Audience{audience}, Time: time.Now()}, 0)
}

// assertedServer also knows clients that sign (RFC 7523), for each grant.
type assertedServer struct {
	*op.LegacyServer
	server *Server
}

// VerifyClient implements op.Server.
func (s *assertedServer) VerifyClient(ctx context.Context, r *op.Request[op.ClientCredentials]) (op.Client, error) {
	if r.Data.ClientAssertion == "" {
		return s.LegacyServer.VerifyClient(ctx, r)
	}
	if r.Data.ClientAssertionType != oidc.ClientAssertionTypeJWTAssertion {
		return nil, oidc.ErrInvalidClient()
	}
	verifier := op.NewJWTProfileVerifier(s.server.storage, s.server.TokenURL, time.Minute, time.Second)
	request, err := op.VerifyJWTAssertion(ctx, r.Data.ClientAssertion, verifier)
	if err != nil {
		return nil, oidc.ErrInvalidClient().WithParent(err)
	}
	return s.server.storage.GetClientByClientID(ctx, request.Issuer)
}

// authStorage changes the storage of the library's example.
type authStorage struct {
	*storage.Storage
	server *Server
}

// jwtClient is a client whose tokens are JWTs.
type jwtClient struct{ op.Client }

// AccessTokenType implements op.Client.
func (jwtClient) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }

// GrantTypes implements op.Client.
func (jwtClient) GrantTypes() []oidc.GrantType {
	return []oidc.GrantType{oidc.GrantTypeClientCredentials, oidc.GrantTypeTokenExchange}
}

// GetClientByClientID implements op.Storage.
func (s *authStorage) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	client, err := s.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return jwtClient{client}, nil
}

// ClientCredentials implements op.ClientCredentialsStorage.
func (s *authStorage) ClientCredentials(ctx context.Context, id, secret string) (op.Client, error) {
	if err := s.AuthorizeClientIDSecret(ctx, id, secret); err != nil || secret == "" {
		return nil, oidc.ErrInvalidClient().WithParent(err)
	}
	return s.GetClientByClientID(ctx, id)
}

// ClientCredentialsTokenRequest implements op.ClientCredentialsStorage.
func (s *authStorage) ClientCredentialsTokenRequest(_ context.Context, id string, scopes []string) (op.TokenRequest, error) {
	audience := Audience
	if id == "ann" || id == "bob" {
		audience = UserAudience
	}
	return &oidc.JWTTokenRequest{Subject: id, Audience: []string{audience}, Scopes: scopes}, nil
}

// GetPrivateClaimsFromScopes implements op.Storage.
func (s *authStorage) GetPrivateClaimsFromScopes(context.Context, string, string, []string) (map[string]any, error) {
	return map[string]any{"scope": Scope}, nil
}

// GetKeyByIDAndClientID implements op.Storage.
func (s *authStorage) GetKeyByIDAndClientID(_ context.Context, id, client string) (*jose.JSONWebKey, error) {
	if client != "robot" {
		return nil, errors.New("only robot has a key")
	}
	return &jose.JSONWebKey{KeyID: id, Use: "sig", Key: &s.server.robot.PublicKey}, nil
}

// CreateAccessToken implements op.Storage.
func (s *authStorage) CreateAccessToken(ctx context.Context, request op.TokenRequest) (string, time.Time, error) {
	id, _, err := s.Storage.CreateAccessToken(ctx, request)
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	return id, time.Now().Add(s.server.life), err
}

// users are those of the server. All may exchange their tokens.
type users struct{}

// GetUserByID implements storage.UserStore.
func (users) GetUserByID(id string) *storage.User {
	return &storage.User{ID: id, Username: id, IsAdmin: true}
}

// GetUserByUsername implements storage.UserStore.
func (users) GetUserByUsername(name string) *storage.User { return users{}.GetUserByID(name) }

// ExampleClientID implements storage.UserStore.
func (users) ExampleClientID() string { return "service" }
