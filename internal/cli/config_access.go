package cli

import (
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/auth"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// accessConfig says who the clients of serve are, and what they may use.
type accessConfig struct {
	Stdio  *string        `yaml:"stdio" validate:"omitnil,oneof=read read_write admin"`
	HTTP   *string        `yaml:"http" validate:"omitnil,oneof=read read_write admin"` // of clients without a token, where there are no tokens
	Tokens []bearerConfig `yaml:"tokens"`
	JWT    *jwtConfig     `yaml:"jwt"`
	URL    *string        `yaml:"url" expand:"text" validate:"omitnil,min=1"` // where clients find the server
	Hosts  []string       `yaml:"hosts" expand:"text"`
	Limits callerLimits   `yaml:"limits"` // of each caller
}

// bearerConfig is a token that a client may have, known by its hash.
type bearerConfig struct {
	Name      *string  `yaml:"name"`
	SHA256    *string  `yaml:"sha256" expand:"text"` // of the token's text, in hex
	Tier      *string  `yaml:"tier" validate:"omitnil,oneof=read read_write admin"`
	Functions []string `yaml:"functions"` // patterns; nil: all that the tier may use
}

// jwtConfig says which tokens of an authorization server are accepted.
type jwtConfig struct {
	Issuer     *string           `yaml:"issuer" expand:"text"`
	Audience   *string           `yaml:"audience" expand:"text"`
	Keys       *string           `yaml:"keys" expand:"text" validate:"omitnil,min=1"` // a URL, or a path relative to the configuration's file; nil: what the issuer says
	Scopes     map[string]string `yaml:"scopes"`                                      // tiers by scope
	Algorithms []string          `yaml:"algorithms"`
}

// callerLimits bound what one caller may take.
type callerLimits struct {
	Sessions  *int     `yaml:"sessions" validate:"omitnil,min=1"`
	Calls     *int     `yaml:"calls" validate:"omitnil,min=1"`     // at once
	PerSecond *float64 `yaml:"perSecond" validate:"omitnil,min=0"` // 0: no rate
	Burst     *int     `yaml:"burst" validate:"omitnil,min=0"`     // 0: perSecond, at least 1
}

// byToken tells whether clients over HTTP need a token.
func (c *accessConfig) byToken() bool { return len(c.Tokens) > 0 || c.JWT != nil }

// tiers are the words for tiers, in their order.
var tiers = []string{steps.TierRead.String(), steps.TierReadWrite.String(), steps.TierAdmin.String()}

// checkAccess checks what no tag and no package does.
func (d *configDecoder) checkAccess(c *accessConfig) {
	d.saysNothing("/access/tokens", "an empty list would let nobody in, or everybody: leave tokens out where no client has one", len(c.Tokens) > 0)
	d.saysNothing("/access/jwt", "nothing is written under jwt, which would let everybody in: leave jwt out where no client has such a token", c.JWT != nil)
	for i := range c.Tokens {
		token, at := &c.Tokens[i], fault.Index("/access/tokens", i)
		d.tags(at, token)
		d.needs(at, []string{"name", "sha256"}, token.Name != nil, token.SHA256 != nil)
		_, faults := steps.Patterns(token.Functions)
		for _, f := range faults {
			f = f.Under(at + "/functions")
			d.add(d.places[f.At], f.At, f)
		}
	}
	if c.JWT != nil {
		d.needs("/access/jwt", []string{"issuer", "audience", "scopes"}, c.JWT.Issuer != nil, c.JWT.Audience != nil, len(c.JWT.Scopes) > 0)
		for _, scope := range slices.Sorted(maps.Keys(c.JWT.Scopes)) {
			if word := c.JWT.Scopes[scope]; !slices.Contains(tiers, word) {
				d.unknownWord(fault.Key("/access/jwt/scopes", scope), word, tiers)
			}
		}
	}
	if c.Limits.Burst != nil && *c.Limits.Burst > 0 && valueOr(c.Limits.PerSecond, 0) == 0 {
		d.at("/access/limits/burst", fault.BadRequest, "burst needs perSecond")
	}
	if valueOr(c.Limits.Sessions, 0) > 0 && !c.byToken() {
		d.note("/access/limits/sessions", "it is not used: without tokens or jwt no caller is known from another; limits.maxSessions bounds all of them together")
	}
	if c.HTTP != nil && c.byToken() {
		d.note("/access/http", "it is not used: with tokens or jwt nobody comes in over HTTP without a token")
	}
}

// hidesAccess tells whether by a fault of a configuration what it says of access may not be known: it is there, or about all of
// it, or a key of the outermost object is not known, which may be access in other letters.
func hidesAccess(f *fault.Error) bool {
	return f.At == "" || f.At == "/access" || strings.HasPrefix(f.At, "/access/") || f.Code == fault.UnknownField && strings.Count(f.At, "/") == 1
}

// saysNothing reports a key that is there, and has nothing under it but perhaps comments.
func (d *configDecoder) saysNothing(at, why string, says bool) {
	if _, there := d.places[at]; !there || says || slices.ContainsFunc(d.faults, func(f *fault.Error) bool { return f.At == at }) {
		return
	}
	d.at(at, fault.BadRequest, "%s", why)
}

// needs reports the keys that are not given, once for an object that could be read.
func (d *configDecoder) needs(at string, keys []string, given ...bool) {
	wrong := func(at string) bool {
		return slices.ContainsFunc(d.faults, func(f *fault.Error) bool { return f.At == at })
	}
	if wrong(at) {
		return
	}
	var lacking []string
	for i, key := range keys {
		if !given[i] && !wrong(fault.Key(at, key)) {
			lacking = append(lacking, key)
		}
	}
	switch len(lacking) {
	case 0:
	case 1:
		d.at(at, fault.BadRequest, "%s is missing", lacking[0])
	default:
		d.at(at, fault.BadRequest, "%s are missing", strings.Join(lacking, ", "))
	}
}

// access fills in the variables of who has access, and checks what they make.
func (e *expander) access(c *accessConfig) {
	e.entry("/access", c)
	for i := range c.Tokens {
		e.entry(fault.Index("/access/tokens", i), &c.Tokens[i])
	}
	if c.URL != nil {
		e.checkURL("/access/url", c.URL)
		if u, err := url.Parse(*c.URL); err == nil && (u.User != nil || u.RawQuery != "" || u.Fragment != "") {
			e.at("/access/url", fault.BadRequest, "must be the plain URL that clients are given, without a user, a query or a fragment")
		}
	}
	for i, host := range c.Hosts {
		if !isHost(host) {
			e.at(fault.Index("/access/hosts", i), fault.BadRequest, "must be a host as clients name it, such as tools.example.com or 192.0.2.7:8080")
		}
	}
}

// hostName is a name of the DNS, or one that looks like it.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?$`)

// isHost tells whether a text is a host, with or without a port.
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

// perCaller are the limits of one caller.
func (c *accessConfig) perCaller() transport.Limits {
	return transport.Limits{
		Sessions: valueOr(c.Limits.Sessions, 0), Calls: valueOr(c.Limits.Calls, 0),
		PerSecond: valueOr(c.Limits.PerSecond, 0), Burst: valueOr(c.Limits.Burst, 0),
	}
}

// highest is the highest tier that a client of serve may have, over HTTP or stdio.
func (c *accessConfig) highest(http bool) steps.Tier {
	switch {
	case !http:
		return tierOf(c.Stdio, steps.TierReadWrite)
	case !c.byToken():
		return tierOf(c.HTTP, steps.TierRead)
	}
	tier := steps.TierRead
	for _, token := range c.table() {
		tier = max(tier, token.Tier)
	}
	if c.JWT != nil {
		for _, given := range c.JWT.accepted().Scopes {
			tier = max(tier, given)
		}
	}
	return tier
}

// table is the table of tokens as package rights takes it. Its words are checked when it is read.
func (c *accessConfig) table() []auth.Token {
	var list []auth.Token
	for i := range c.Tokens {
		t := &c.Tokens[i]
		functions, _ := steps.Patterns(t.Functions)
		list = append(list, auth.Token{Name: valueOr(t.Name, ""), SHA256: valueOr(t.SHA256, ""),
			Rights: auth.Rights{Tier: tierOf(t.Tier, steps.TierRead), Functions: functions}})
	}
	return list
}

// accepted are the tokens of the authorization server that are accepted.
func (c *jwtConfig) accepted() *auth.JWT {
	scopes := map[string]steps.Tier{}
	for scope, word := range c.Scopes {
		scopes[scope] = tierOf(&word, steps.TierRead)
	}
	return &auth.JWT{Issuer: valueOr(c.Issuer, ""), Audience: valueOr(c.Audience, ""), Keys: valueOr(c.Keys, ""),
		Scopes: scopes, Algorithms: append([]string(nil), c.Algorithms...)}
}
