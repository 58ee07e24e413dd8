package config

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/loopback"
)

// Auth says whose credentials the calls of a source carry: those of each caller (Caller), or of onecall itself (ClientCredentials).
type Auth struct {
	// headers: each call carries headers of its caller's own request. exchange: each call carries a token for which that of its caller is
	// exchanged (RFC 8693). login: each caller logs in once, and each call carries a token of that login. A caller without what is needed sees
	// no function of the source.
	Caller *string `yaml:"caller" validate:"oneof=headers exchange login"`
	// For caller: headers, their names. Authorization is passed on only if it is named here.
	Pass []string `yaml:"pass" secret:"yes"`

	// For caller: exchange, the token endpoint of the authorization server.
	TokenURL *string `yaml:"tokenUrl" expand:"text" validate:"min=1"`
	// For caller: exchange, the service for which the tokens are.
	Audience *string `yaml:"audience" expand:"text" validate:"min=1"`
	// For caller: exchange or login, the scopes of the tokens, separated by blanks.
	Scope *string `yaml:"scope" validate:"min=1"`
	// For caller: exchange or login, onecall's name at the authorization server, if that asks for it.
	ClientID *string `yaml:"clientId" expand:"text" validate:"min=1"`
	// The secret of clientId. It must be given as ${VAR}.
	Secret *string `yaml:"secret" expand:"credential"`
	// In place of a secret: the private key with which onecall signs (RFC 7523), as PEM or JWK. It must be given as ${VAR}.
	PrivateKey *string `yaml:"privateKey" expand:"credential"`
	// For caller: login, the issuer at which callers log in. Without it, the one that an MCP server names.
	AuthServer *string `yaml:"authServer" expand:"text" validate:"min=1"`

	// Each call carries a token that onecall gets for itself.
	ClientCredentials *ClientCredentials `yaml:"clientCredentials"`
}

// ClientCredentials are those of onecall at an authorization server (RFC 6749, section 4.4). Exactly one of Secret and PrivateKey is given.
type ClientCredentials struct {
	// The token endpoint.
	TokenURL *string `yaml:"tokenUrl" expand:"text" needed:"yes"`
	ClientID *string `yaml:"clientId" expand:"text" needed:"yes"`
	// It must be given as ${VAR}.
	Secret *string `yaml:"secret" expand:"credential"`
	// In place of a secret: the private key with which onecall signs (RFC 7523), as PEM or JWK. It must be given as ${VAR}.
	PrivateKey *string `yaml:"privateKey" expand:"credential"`
	// The scopes of the tokens, separated by blanks.
	Scope *string `yaml:"scope" validate:"min=1"`
	// The service for which the tokens are.
	Audience *string `yaml:"audience" expand:"text" validate:"min=1"`
}

// CallersOwn reports whether calls carry their callers' own credentials. a may be nil.
func (a *Auth) CallersOwn() bool { return a != nil && a.Caller != nil }

// Exchanges reports whether tokens of callers are exchanged. a may be nil.
func (a *Auth) Exchanges() bool { return a.CallersOwn() && *a.Caller == "exchange" }

// LogsIn reports whether each caller logs in. a may be nil.
func (a *Auth) LogsIn() bool { return a.CallersOwn() && *a.Caller == "login" }

// Carries returns the names of the headers that calls carry besides the configured ones. a may be nil.
func (a *Auth) Carries() []string {
	switch {
	case a == nil:
		return nil
	case a.Caller != nil && *a.Caller == "headers":
		return a.Pass
	}
	return []string{"Authorization"}
}

// TokenURLs returns the token endpoints. a may be nil.
func (a *Auth) TokenURLs() (urls []string) {
	if a != nil && a.TokenURL != nil {
		urls = append(urls, *a.TokenURL)
	}
	if a != nil && a.ClientCredentials != nil && a.ClientCredentials.TokenURL != nil {
		urls = append(urls, *a.ClientCredentials.TokenURL)
	}
	return urls
}

// neverPassed are headers that belong to the connection, to the message, or to what proxies say of it. Names that end in - are prefixes.
var neverPassed = []string{"Host", "Cookie", "Connection", "Keep-Alive", "Te", "Trailer", "Upgrade", "Content-", "Transfer-Encoding",
	"Mcp-", "Proxy-", "Forwarded", "X-Forwarded-", "Onecall-", "Accept", "Expect", "Last-Event-Id"}

// isNeverPassed reports whether a header in canonical form is one of neverPassed.
func isNeverPassed(name string) bool {
	return slices.ContainsFunc(neverPassed, func(never string) bool {
		return name == never || strings.HasSuffix(never, "-") && strings.HasPrefix(name, never)
	})
}

// checkOwn checks whose credentials the calls of a source carry. headers are the configured ones, which calls carry besides.
func (d *decoder) checkOwn(at string, a *Auth, headers map[string]string) {
	if a == nil || d.hasFault(at+"/caller") {
		return
	}
	kind := Or(a.Caller, "")
	d.checkOwnKeys(at, a, kind)
	taken := map[string]bool{}
	for header := range headers {
		taken[http.CanonicalHeaderKey(header)] = true
	}
	if kind != "headers" {
		if taken["Authorization"] {
			d.faultAt(at, fault.BadRequest, "headers has Authorization, which auth gives: keep one of the two")
		}
		return
	}
	for i, written := range a.Pass {
		name, pointer := http.CanonicalHeaderKey(written), fault.Index(at+"/pass", i)
		switch {
		case !httpguts.ValidHeaderFieldName(written):
			d.faultAt(pointer, fault.BadRequest, "this is not the name of a header")
		case isNeverPassed(name):
			d.faultAt(pointer, fault.BadRequest, "%s belongs to the caller's connection to onecall and is never passed on: leave it out", name)
		case taken[name]:
			d.faultAt(pointer, fault.BadRequest, "%s is given twice, here or in headers: keep one of the two", name)
		}
		taken[name] = true
	}
}

// checkAuthServer checks that it is known where callers log in to a source that is no MCP server, and so does not say it.
func (d *decoder) checkAuthServer(at string, a *Auth) {
	if a.LogsIn() && a.AuthServer == nil {
		d.faultAt(at, fault.BadRequest, "authServer is missing: the issuer at which callers log in")
	}
}

// checkOwnKeys checks which keys of auth are given.
func (d *decoder) checkOwnKeys(at string, a *Auth, kind string) {
	client := a.AuthServer != nil || a.TokenURL != nil ||
		a.Audience != nil || a.Scope != nil || a.ClientID != nil || a.Secret != nil || a.PrivateKey != nil
	bad := func(why string) { d.faultAt(at, fault.BadRequest, "%s", why) }
	switch {
	case kind != "" && a.ClientCredentials != nil:
		bad("caller and clientCredentials exclude each other: calls carry the credentials of each caller, or those of onecall")
	case kind == "headers" && client:
		bad("caller: headers takes pass alone; tokenUrl and what goes with it are for caller: exchange")
	case kind == "headers" && len(a.Pass) == 0:
		bad("pass is missing: the names of the headers of the caller's request that calls carry")
	case kind == "exchange" && a.Pass != nil:
		bad("pass is for caller: headers")
	case kind == "exchange" && a.AuthServer != nil:
		bad("authServer is for caller: login")
	case kind == "login" && (a.Pass != nil || a.TokenURL != nil || a.Audience != nil || a.PrivateKey != nil):
		bad("caller: login takes authServer, scope, and clientId with secret alone")
	case kind == "login" && a.Secret != nil && a.ClientID == nil:
		bad("clientId is missing")
	case kind == "exchange" && a.TokenURL == nil:
		bad("tokenUrl is missing: the token endpoint at which tokens of callers are exchanged")
	case kind == "exchange":
		d.checkClient(at, a.ClientID, a.Secret, a.PrivateKey, false)
	case kind != "":
	case client || a.Pass != nil:
		bad("these keys are for caller: headers, exchange or login; those of onecall itself stand under clientCredentials")
	case a.ClientCredentials != nil:
		c := a.ClientCredentials
		d.requireKeys(at+"/clientCredentials", c)
		d.checkClient(at+"/clientCredentials", c.ClientID, c.Secret, c.PrivateKey, true)
	}
}

// checkClient checks how a client authenticates itself. required: it must.
func (d *decoder) checkClient(at string, id, secret, key *string, required bool) {
	switch {
	case secret != nil && key != nil:
		d.faultAt(at, fault.BadRequest, "secret and privateKey exclude each other: keep one of the two")
	case (required || id != nil) && secret == nil && key == nil:
		d.faultAt(at, fault.BadRequest, "clientId needs secret or privateKey")
	case id == nil && (secret != nil || key != nil) && !required:
		d.faultAt(at, fault.BadRequest, "clientId is missing")
	}
}

// checkExpandedOwn checks the token endpoints of auth: secrets and tokens of callers go there.
func (d *decoder) checkExpandedOwn(at string, a *Auth, c *Config) {
	if a == nil {
		return
	}
	if store := Or(c.Journal.Store, ""); a.LogsIn() && (store == "memory" || store == "off") {
		d.faultAt(at+"/caller", fault.BadRequest, "logins are kept in the journal's database, and the configuration says journal: {store: %s}: "+
			"leave that out, or name a PostgreSQL server there", store)
	}
	d.checkTokenURL(at+"/authServer", a.AuthServer)
	if a.Exchanges() && c.Access.JWT == nil {
		d.faultAt(at+"/caller", fault.BadRequest, "only tokens of an authorization server can be exchanged, and callers have none: set access.jwt")
	}
	d.checkTokenURL(at+"/tokenUrl", a.TokenURL)
	if a.ClientCredentials != nil {
		d.checkTokenURL(at+"/clientCredentials/tokenUrl", a.ClientCredentials.TokenURL)
	}
}

func (d *decoder) checkTokenURL(at string, text *string) {
	if text == nil || d.hasFault(at) {
		return
	}
	u, err := url.Parse(*text)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && !(u.Scheme == "http" && loopback.Is(u.Hostname())) {
		d.faultAt(at, fault.BadRequest, "must be a URL that begins with https:// and a host (http:// on this machine): secrets go there")
	}
}
