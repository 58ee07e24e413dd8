package app

import (
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/auth"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/groups"
)

// surface reads what the configuration says of dispatchers, hoisted names and callers, and gives all that is wrong with it. before
// is the app that it replaces; nil: there is none.
func (a *App) surface(c *config.File, before *App) (faults []*fault.Error) {
	cfg := &groups.Config{Autodispatch: config.Or(c.Autodispatch, false), Hide: config.Or(c.Ungrouped, "") == "hide", Hoist: c.Hoist}
	for _, group := range c.Groups {
		cfg.Groups = append(cfg.Groups, groups.Group{
			Name: group.Name, Description: config.Or(group.Config.Description, ""), Resources: group.Config.Resources,
		})
	}
	told := map[string]bool{} // places whose fault a chain has told already
	for i, name := range c.Hoist {
		if _, err := chain.New(&chain.Options{Functions: a.Catalog, Counter: a.Counter, Hoist: []string{name}}); err != nil {
			at := fault.Index("/hoist", i)
			told[at] = true
			faults = append(faults, c.Under(at, err))
		}
	}
	var wrong []*fault.Error
	a.dispatch, wrong = groups.New(cfg)
	for _, f := range wrong {
		if !told[f.At] {
			faults = append(faults, c.Under("", f))
		}
	}
	return append(faults, a.access(c, before)...)
}

// Listing is the result of tools/list as a client over stdio reads it on a surface.
func (a *App) Listing(surface mcp.Surface) ([]byte, error) {
	return mcp.Listing(&mcp.Options{Engine: a.Engine, Catalog: a.Catalog, Counter: a.Counter, Scrubber: a.scrubber, Dispatch: a.dispatch,
		Hoist: a.config.Hoist, ReadTool: config.Or(a.config.ReadTool, false)}, a.stdioRights(), surface)
}

// surfaceOf is the configured one. Its word is checked when it is read.
func surfaceOf(c *config.Config) mcp.Surface {
	surface, err := mcp.ParseSurface(config.Or(c.Surface, mcp.SurfaceChain.String()))
	if err != nil {
		return mcp.SurfaceChain
	}
	return surface
}

// idleGroups is a warning where dispatchers are configured which a surface does not show; else nil.
func idleGroups(c *config.File, surface mcp.Surface) *fault.Error {
	if surface == mcp.SurfaceDispatch || surface == mcp.SurfaceHybrid {
		return nil
	}
	for _, key := range []string{"/groups", "/autodispatch", "/ungrouped"} {
		if c.Says(key) {
			return c.Under(key, fault.New(fault.BadRequest, "the surface %s has no dispatchers: this is for dispatch and hybrid", surface))
		}
	}
	return nil
}

// idleSession is a warning where what sessions may have is configured and no client has one; else nil.
func idleSession(c *config.File, stateless bool) *fault.Error {
	if !stateless || config.Or(c.Session.MaxTokens, 0) == 0 {
		return nil
	}
	return c.Under("/session/maxTokens", fault.New(fault.BadRequest, "with --stateless no client has a session: nothing is added up"))
}

// processed reports whether the configuration has the results of flat tools bounded.
func processed(c *config.Config) bool {
	return config.Or(c.Budget.MaxTotalTokens, 0) > 0 || config.Or(c.Results.ProbeAbove, 0) > 0 || config.Or(c.Results.LeanAbove, 0) > 0
}

// leanAbove is the configured bound as package chain takes it: 0 is its default, -1 is off.
func leanAbove(c *config.Config) int {
	switch above := c.Results.LeanAbove; {
	case above == nil:
		return 0
	case *above == 0:
		return -1
	default:
		return *above
	}
}

// tokenTable is the table of tokens as package auth takes it. Its words are checked when it is read.
func tokenTable(c *config.Access) []auth.Token {
	var list []auth.Token
	for i := range c.Tokens {
		t := &c.Tokens[i]
		functions, _ := steps.Patterns(t.Functions)
		list = append(list, auth.Token{Name: config.Or(t.Name, ""), SHA256: config.Or(t.SHA256, ""),
			Rights: steps.Rights{Tier: config.TierOf(t.Tier, steps.TierRead), Functions: functions}})
	}
	return list
}

// acceptedTokens are the tokens of the authorization server that are accepted.
func acceptedTokens(c *config.JWT) *auth.JWT {
	scopes := map[string]steps.Tier{}
	for scope, word := range c.Scopes {
		scopes[scope] = config.TierOf(&word, steps.TierRead)
	}
	return &auth.JWT{Issuer: config.Or(c.Issuer, ""), Audience: config.Or(c.Audience, ""), Keys: config.Or(c.Keys, ""), Scopes: scopes}
}
