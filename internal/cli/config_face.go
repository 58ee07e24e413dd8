package cli

import (
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/auth"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/groups"
)

// face reads what the configuration says of dispatchers, hoisted names and callers, and gives all that is wrong with it. before
// is as in openAfter.
func (a *app) face(c *configFile, before *app) (faults []*fault.Error) {
	config := &groups.Config{Autodispatch: valueOr(c.Autodispatch, false), Hide: valueOr(c.Ungrouped, "") == "hide", Hoist: c.Hoist}
	for _, group := range c.Groups {
		config.Groups = append(config.Groups, groups.Group{
			Name: group.Name, Description: valueOr(group.Config.Description, ""), Resources: group.Config.Resources,
		})
	}
	told := map[string]bool{} // places whose fault a chain has told already
	for i, name := range c.Hoist {
		if _, err := chain.New(&chain.Options{Functions: a.catalog, Counter: a.counter, Hoist: []string{name}}); err != nil {
			at := fault.Index("/hoist", i)
			told[at] = true
			faults = append(faults, c.under(at, err))
		}
	}
	var wrong []*fault.Error
	a.dispatch, wrong = groups.New(config)
	for _, f := range wrong {
		if !told[f.At] {
			faults = append(faults, c.under("", f))
		}
	}
	return append(faults, a.access(c, before)...)
}

// surfaceOf is the configured one. Its word is checked when it is read.
func surfaceOf(c *config) mcp.Surface {
	surface, err := mcp.ParseSurface(valueOr(c.Surface, mcp.SurfaceChain.String()))
	if err != nil {
		return mcp.SurfaceChain
	}
	return surface
}

// idleGroups is a warning where dispatchers are configured which a surface does not show; else nil.
func idleGroups(c *configFile, surface mcp.Surface) *fault.Error {
	if surface == mcp.SurfaceDispatch || surface == mcp.SurfaceHybrid {
		return nil
	}
	for _, key := range []string{"/groups", "/autodispatch", "/ungrouped"} {
		if c.says(key) {
			return c.under(key, fault.New(fault.BadRequest, "the surface %s has no dispatchers: this is for dispatch and hybrid", surface))
		}
	}
	return nil
}

// idleSession is a warning where what sessions may have is configured and no client has one; else nil.
func idleSession(c *configFile, stateless bool) *fault.Error {
	if !stateless || valueOr(c.Session.MaxTokens, 0) == 0 {
		return nil
	}
	return c.under("/session/maxTokens", fault.New(fault.BadRequest, "with --stateless no client has a session: nothing is added up"))
}

// processed tells whether the configuration has the results of flat tools bounded.
func processed(c *config) bool {
	return valueOr(c.Budget.MaxTotalTokens, 0) > 0 || valueOr(c.Results.ProbeAbove, 0) > 0 || valueOr(c.Results.LeanAbove, 0) > 0
}

// leanAbove is the configured bound as package chain takes it: 0 is its default, -1 is off.
func leanAbove(c *config) int {
	switch above := c.Results.LeanAbove; {
	case above == nil:
		return 0
	case *above == 0:
		return -1
	default:
		return *above
	}
}

// perCaller are the limits of one caller.
func perCaller(c *accessConfig) mcp.Limits {
	return mcp.Limits{
		Sessions: valueOr(c.Limits.Sessions, 0), Calls: valueOr(c.Limits.Calls, 0),
		PerSecond: valueOr(c.Limits.PerSecond, 0), Burst: valueOr(c.Limits.Burst, 0),
	}
}

// tokenTable is the table of tokens as package rights takes it. Its words are checked when it is read.
func tokenTable(c *accessConfig) []auth.Token {
	var list []auth.Token
	for i := range c.Tokens {
		t := &c.Tokens[i]
		functions, _ := auth.Patterns(t.Functions)
		list = append(list, auth.Token{Name: valueOr(t.Name, ""), SHA256: valueOr(t.SHA256, ""),
			Rights: auth.Rights{Tier: tierOf(t.Tier, steps.TierRead), Functions: functions}})
	}
	return list
}

// acceptedTokens are the tokens of the authorization server that are accepted.
func acceptedTokens(c *jwtConfig) *auth.JWT {
	scopes := map[string]steps.Tier{}
	for scope, word := range c.Scopes {
		scopes[scope] = tierOf(&word, steps.TierRead)
	}
	return &auth.JWT{Issuer: valueOr(c.Issuer, ""), Audience: valueOr(c.Audience, ""), Keys: valueOr(c.Keys, ""),
		Scopes: scopes, Algorithms: append([]string(nil), c.Algorithms...)}
}
