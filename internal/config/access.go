package config

import (
	"maps"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/loopback"
	"github.com/onecall-mcp/onecall/steps"
)

// Access configures who the clients of onecall serve are, and what they may use.
type Access struct {
	Stdio *string `yaml:"stdio" validate:"oneof=read read_write admin" default:"read_write"`
	// The tier of HTTP clients without a token. With tokens or jwt such clients are refused.
	HTTP *string `yaml:"http" validate:"oneof=read read_write admin" default:"read"`
	// The bearer tokens of clients over HTTP. onecall auth token makes one.
	Tokens []Bearer `yaml:"tokens"`
	// The public keys (Ed25519) of those who sign plans: PEM, or only its base64, as onecall sign shows it. Callers with plans: true may call
	// the saved chains that one of them has signed.
	Plans []string `yaml:"plans"`
	// Tokens of an OAuth 2.0 authorization server: onecall is a resource server that checks them by itself (RFC 9068).
	JWT *JWT `yaml:"jwt"`
	// The URL at which clients reach the server, such as https://tools.example.com/mcp. Its host is accepted, and clients are told to request
	// tokens for it.
	URL *string `yaml:"url" expand:"url" validate:"min=1"`
	// Further hosts, each with or without a port, that clients may send in the header Host, and web pages in Origin. Loopback is always
	// accepted.
	Hosts []string `yaml:"hosts" expand:"text"`
	// Limits of one caller. Without tokens all HTTP clients count as one caller.
	Limits CallerLimits `yaml:"limits"`
}

// Bearer is an accepted token, identified by its hash.
type Bearer struct {
	// The name of the caller who uses the token, which owns results and sessions and appears in logs.
	Name *string `yaml:"name" needed:"yes"`
	// The SHA-256 of the token's text, in hex or as ${VAR}.
	SHA256 *string `yaml:"sha256" expand:"text" secret:"yes" needed:"yes"`
	Tier   *string `yaml:"tier" validate:"oneof=read read_write admin" default:"read"`
	// In place of a tier: the caller may call the saved chains that a key of plans has signed, with all that they call, and nothing else.
	Plans *bool `yaml:"plans" default:"false"`
	// The functions that the caller may use: names, or patterns with *. Default: all functions of its tier.
	Functions []string `yaml:"functions"`
	// approve: the caller may approve, deny, resume and undo the runs that it sees in the console of serve --console. Without it the caller
	// only looks. With approveBy: person, or a flow rule with do: approve, such a token is a person's, and MCP clients cannot use it.
	Console *string `yaml:"console" validate:"oneof=approve"`
	// With console: approve, the names of other tokens: the caller also sees their runs in the console, and approves and denies their calls
	// of functions that it may use itself.
	Approves []string `yaml:"approves"`
}

// JWT says which tokens of an authorization server are accepted.
type JWT struct {
	// The authorization server, exactly as in the claim iss of its tokens.
	Issuer *string `yaml:"issuer" expand:"text" needed:"yes"`
	// The required value of the claim aud, usually the same as url.
	Audience *string `yaml:"audience" expand:"text" needed:"yes"`
	// The issuer's public keys (JWKS): a URL, or a file relative to this one. Without it, they are found through the issuer's metadata.
	Keys *string `yaml:"keys" expand:"text" validate:"min=1"`
	// The tier of each scope. Of several scopes the highest tier applies; a token with none of them is refused.
	Scopes map[string]string `yaml:"scopes" needed:"yes"`
	// The scope of callers who may approve, deny, resume and undo runs in the console, as console of a token. They need a scope with a tier
	// too.
	Console *string `yaml:"console" expand:"text" validate:"min=1"`
}

// CallerLimits limit what one caller may use.
type CallerLimits struct {
	// The maximum number of concurrent calls.
	Calls *int `yaml:"calls" validate:"min=1" default:"64"`
}

// ByToken reports whether HTTP clients need a token.
func (c *Access) ByToken() bool { return len(c.Tokens) > 0 || c.JWT != nil }

// tiers are the names of the tiers, lowest first.
var tiers = []string{steps.TierRead.String(), steps.TierReadWrite.String(), steps.TierAdmin.String()}

// checkAccess checks the settings of access that neither tags nor other packages check.
func (d *decoder) checkAccess(c *Access) {
	d.checkEmpty("/access/tokens", "an empty list is ambiguous: leave out tokens if no client has one",
		len(c.Tokens) > 0)
	d.checkEmpty("/access/jwt",
		"jwt is empty, which would admit everybody: leave it out if no client has such a token", c.JWT != nil)
	for i := range c.Tokens {
		token, at := &c.Tokens[i], fault.Index("/access/tokens", i)
		d.requireKeys(at, token)
		d.checkPlansOf(at, token, c)
		d.checkPatterns(at+"/functions", token.Functions)
		d.checkApproves(at+"/approves", token, c)
	}
	if c.JWT != nil {
		d.requireKeys("/access/jwt", c.JWT)
		for _, scope := range slices.Sorted(maps.Keys(c.JWT.Scopes)) {
			if word := c.JWT.Scopes[scope]; !slices.Contains(tiers, word) {
				d.unknownWord(fault.Key("/access/jwt/scopes", scope), word, tiers)
			}
		}
	}
	if c.HTTP != nil && c.ByToken() {
		d.warnAt("/access/http", "it is not used: with tokens or jwt, HTTP clients need a token")
	}
}

// checkPlansOf checks the settings of a token that may only call signed plans.
func (d *decoder) checkPlansOf(at string, token *Bearer, c *Access) {
	if !Or(token.Plans, false) {
		return
	}
	if token.Tier != nil {
		d.faultAt(at+"/tier", fault.BadRequest, "plans: true stands in place of a tier: leave out one of the two")
	}
	if token.Console != nil {
		d.faultAt(at+"/console", fault.BadRequest, "with plans: true the caller only calls signed plans, and decides about nothing: leave it out")
	}
	if len(c.Plans) == 0 { // no fault: it would keep the former configuration in force, with the key that was removed last
		d.warnAt(at+"/plans", "without access.plans, the public keys of those who sign, there is no plan to call: "+
			"onecall sign shows the entry of a key")
	}
}

// checkApproves checks whose calls a token approves. That there is no such token is no fault: it would keep the former configuration in
// force, with a token that was just removed.
func (d *decoder) checkApproves(at string, token *Bearer, c *Access) {
	if len(token.Approves) > 0 && token.Console == nil {
		d.faultAt(at, fault.BadRequest, "it needs console: approve at the same token")
	}
	names := make([]string, len(c.Tokens))
	for i := range c.Tokens {
		names[i] = Or(c.Tokens[i].Name, "")
	}
	for i, name := range token.Approves {
		if slices.Contains(names, name) {
			continue
		}
		advice := "leave it out"
		if near := fault.Nearest(name, names, 1); len(near) > 0 {
			advice = "did you mean " + near[0] + "?"
		}
		d.warnAt(fault.Index(at, i), "there is no token %s, so it approves nothing: %s", fault.Quote(name), advice)
	}
}

// checkPatterns refuses patterns that can match no function, and an empty list.
func (d *decoder) checkPatterns(at string, list []string) {
	_, faults := steps.Patterns(list)
	for _, f := range faults {
		f = f.Under(at)
		d.add(d.positions[f.At], f.At, f)
	}
}

// checkHookPatterns is checkPatterns for a list of the hook, which does not allow all functions if it is left out.
func (d *decoder) checkHookPatterns(at string, list []string) {
	if list != nil && len(list) == 0 {
		d.faultAt(at, fault.BadRequest, "the list is empty: name functions, or leave it out")
		return
	}
	d.checkPatterns(at, list)
}

// obscuresAccess reports whether a fault makes the settings of access uncertain: it is about access or the whole file, or it is an unknown
// top-level key, which may be a misspelled access.
func obscuresAccess(f *fault.Error) bool {
	return f.At == "" || f.At == "/access" || strings.HasPrefix(f.At, "/access/") ||
		f.Code == fault.UnknownField && strings.Count(f.At, "/") == 1
}

// checkEmpty reports a key that the file has without a value. given is whether its value could be decoded.
func (d *decoder) checkEmpty(at, why string, given bool) {
	if _, exists := d.positions[at]; !exists || given || slices.ContainsFunc(d.faults, func(f *fault.Error) bool { return f.At == at }) {
		return
	}
	d.faultAt(at, fault.BadRequest, "%s", why)
}

// requireKeys reports the missing keys of an object that could be decoded. structure points to its struct.
func (d *decoder) requireKeys(at string, structure any) {
	wrong := func(at string) bool {
		return slices.ContainsFunc(d.faults, func(f *fault.Error) bool { return f.At == at })
	}
	if wrong(at) {
		return
	}
	var lacking, told []string
	value := reflect.ValueOf(structure).Elem()
	for i, field := range tables[value.Type()].fields {
		empty := value.Field(i).IsZero() || value.Field(i).Kind() == reflect.Map && value.Field(i).Len() == 0
		if field.needed != "" && empty && !wrong(fault.Key(at, field.key)) {
			lacking = append(lacking, field.key)
			told = append(told, field.told())
		}
	}
	switch len(lacking) {
	case 0:
	case 1:
		if told[0] != "" {
			told[0] = ": " + told[0]
		}
		d.faultAt(at, fault.BadRequest, "%s is missing%s", lacking[0], told[0])
	default:
		for i := range lacking {
			if told[i] != "" {
				lacking[i] += " (" + told[i] + ")"
			}
		}
		d.faultAt(at, fault.BadRequest, "%s are missing", strings.Join(lacking, ", "))
	}
}

// checkExpandedAccess checks the settings of access after expansion.
func (d *decoder) checkExpandedAccess(c *Access) {
	if c.URL != nil {
		if u, err := url.Parse(*c.URL); err == nil && (u.User != nil || u.RawQuery != "" || u.Fragment != "") {
			d.faultAt("/access/url", fault.BadRequest, "must be the plain URL that clients are given, without a user, a query or a fragment")
		}
	}
	for i, host := range c.Hosts {
		if !isHost(host) {
			d.faultAt(fault.Index("/access/hosts", i), fault.BadRequest,
				"must be a host as clients name it, such as tools.example.com or 192.0.2.7:8080")
		}
	}
}

// hostName matches a DNS name or something similar.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?$`)

// isHost reports whether a text is a host, with or without a port.
func isHost(text string) bool {
	u, err := url.Parse("//" + text)
	if err != nil || u.Host != text || u.User != nil || strings.HasSuffix(text, ":") {
		return false
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return true
	}
	return hostName.MatchString(u.Hostname())
}

// MaxTier returns the highest tier that a client of serve may have, over HTTP or stdio.
func (c *Access) MaxTier(http bool) steps.Tier {
	switch {
	case !http:
		return TierOf(c.Stdio, steps.TierReadWrite)
	case !c.ByToken():
		return TierOf(c.HTTP, steps.TierRead)
	}
	tier := steps.TierRead
	for i := range c.Tokens {
		tier = max(tier, TierOf(c.Tokens[i].Tier, steps.TierRead))
	}
	if c.JWT != nil {
		for _, word := range c.JWT.Scopes {
			tier = max(tier, TierOf(&word, steps.TierRead))
		}
	}
	return tier
}

// RemoteFault returns why clients on other machines cannot be served; nil: they can.
func (c *Access) RemoteFault() *fault.Error {
	switch {
	case !c.ByToken():
		return fault.New(fault.BadRequest,
			"other machines can reach the server, and their clients need tokens: write access.tokens (onecall auth token makes one) "+
				"or access.jwt in the configuration, or serve only this machine, on 127.0.0.1 or localhost")
	case c.URL == nil && len(c.Hosts) == 0:
		return fault.New(fault.BadRequest, "other machines can reach the server, and requests are answered only for hosts that are known: "+
			"write access.url (where clients find it, such as https://tools.example.com/mcp), or access.hosts, in the configuration")
	}
	return nil
}

// RemoteSetting returns the pointer, relative to /access, of a setting that only clients on other machines need; "": there is none.
func (c *Access) RemoteSetting() string {
	if c.URL != nil {
		if u, err := url.Parse(*c.URL); err == nil && u.Host != "" && !loopback.Is(u.Hostname()) {
			return "/url"
		}
	}
	for i, host := range c.Hosts {
		if u, err := url.Parse("//" + host); err == nil && !loopback.Is(u.Hostname()) {
			return fault.Index("/hosts", i)
		}
	}
	return ""
}

// TierOf returns the tier that a setting names, or otherwise if the setting is not given. For a wrong name, which decoding has reported, it
// returns TierRead.
func TierOf(word *string, otherwise steps.Tier) steps.Tier {
	tier, err := steps.ParseTier(Or(word, otherwise.String()))
	if err != nil {
		return steps.TierRead
	}
	return tier
}
