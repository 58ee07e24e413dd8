package app

import (
	"net/http"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/credential"
	"github.com/onecall-mcp/onecall/internal/egress"
	"github.com/onecall-mcp/onecall/steps"
)

// openCredentials creates the table of what callers bring. There is none if no source is called as its caller.
func (o *sourceOpener) openCredentials() steps.Credentials {
	rules := o.credentialRules()
	if len(rules) == 0 {
		return nil
	}
	var before *credential.Table
	if o.before != nil {
		before = o.before.credentials
	}
	o.credentials = credential.New(rules, before)
	if !o.process.serve {
		return atCommand{o.credentials, rules}
	}
	return o.credentials
}

// atCommand are the credentials of a command, which has no request that could bring one.
type atCommand struct {
	*credential.Table
	rules []credential.Rule
}

// Missing implements steps.Credentials. It says who has what a command lacks.
func (c atCommand) Missing(name string) *fault.Error {
	for i := range c.rules {
		r, brings := &c.rules[i], ""
		switch {
		case r.Name != name:
			continue
		case r.Exchange != nil:
			brings = "come with a token of the authorization server"
		case len(r.Pass) > 0:
			brings = "send " + credential.HeadersInWords(r.Pass)
		default:
			return c.Table.Missing(name)
		}
		return fault.New(fault.Denied, "%s is called with each caller's own credential, and a command has none: callers of onecall serve that "+
			"%s can call it", name, brings)
	}
	return nil
}

// credentialRules returns what callers bring for the sources of the configuration.
func (o *sourceOpener) credentialRules() (rules []credential.Rule) {
	add := func(name, pointer, serverURL string, a *config.Auth) {
		if !a.CallersOwn() || o.config.Unset[pointer] != nil {
			return
		}
		rule := credential.Rule{Name: name, Pass: a.Pass}
		if a.LogsIn() {
			rule.Login = o.logins(name, pointer, serverURL, a)
		}
		if a.Exchanges() {
			rule.Exchange = o.tokenEndpoint(pointer+"/auth", &config.ClientCredentials{TokenURL: a.TokenURL, ClientID: a.ClientID, Secret: a.Secret,
				PrivateKey: a.PrivateKey, Scope: a.Scope, Audience: a.Audience})
		}
		rules = append(rules, rule)
	}
	for i := range o.config.MCPServers {
		if entry := &o.config.MCPServers[i]; !entry.Config.Off() {
			add(entry.Source(), fault.Key("/mcpServers", entry.Name), config.Or(entry.Config.URL, ""), entry.Config.Auth)
		}
	}
	for i := range o.config.OpenAPI {
		entry := &o.config.OpenAPI[i]
		add(entry.Source(), fault.Key("/openapi", entry.Name), "", entry.Config.Own)
	}
	for i := range o.config.HTTP.Endpoints {
		entry := &o.config.HTTP.Endpoints[i]
		add("http."+entry.Name, fault.Key("/http/endpoints", entry.Name), "", entry.Config.Auth)
	}
	return rules
}

// gatewayCredential returns the credential of onecall itself that calls of a source carry; nil: they carry none.
func (o *sourceOpener) gatewayCredential(name, pointer string, a *config.Auth) *steps.Credential {
	if a == nil || a.ClientCredentials == nil {
		return nil
	}
	return credential.Gateway(name, o.tokenEndpoint(pointer+"/auth/clientCredentials", a.ClientCredentials))
}

// tokenEndpoint returns a token endpoint. What is wrong with it is added to o.faults.
func (o *sourceOpener) tokenEndpoint(pointer string, c *config.ClientCredentials) *credential.Endpoint {
	e := &credential.Endpoint{URL: config.Or(c.TokenURL, ""), ClientID: config.Or(c.ClientID, ""), Secret: config.Or(c.Secret, ""),
		Scope: config.Or(c.Scope, ""), Audience: config.Or(c.Audience, "")}
	if c.PrivateKey != nil {
		key, f := credential.ParseKey(*c.PrivateKey)
		if f != nil {
			o.faults = append(o.faults, o.config.FaultAt(pointer+"/privateKey", f))
		}
		e.Key = key
	}
	rules, err := egress.AnyPublic().WithURLs(e.URL)
	if err != nil {
		o.faults = append(o.faults, o.config.FaultAt(pointer+"/tokenUrl", err))
		return e
	}
	e.Client = rules.Client(nil)
	e.Client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // secrets go to this URL alone
	return e
}
