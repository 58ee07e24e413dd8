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

// openSurface creates the dispatchers, checks the hoisted names, and opens access. It returns the faults of all three. before is as in
// process.open.
func (a *App) openSurface(c *config.File, before *App) (faults []*fault.Error) {
	cfg := &groups.Config{Autodispatch: config.Or(c.Autodispatch, false), Hide: config.Or(c.Ungrouped, "") == "hide", Hoist: c.Hoist}
	for _, group := range c.Groups {
		cfg.Groups = append(cfg.Groups, groups.Group{
			Name: group.Name, Description: config.Or(group.Config.Description, ""), Resources: group.Config.Resources,
		})
	}
	reported := map[string]bool{} // pointers of hoisted names that package chain refuses; package groups would report them again
	for i, name := range c.Hoist {
		if _, err := chain.New(&chain.Options{Functions: a.Catalog, Counter: a.Counter, Hoist: []string{name}}); err != nil {
			at := fault.Index("/hoist", i)
			reported[at] = true
			faults = append(faults, c.FaultAt(at, fault.New(fault.BadRequest, "%s", fault.Message(err)))) // it is at /hoist/0
		}
	}
	var groupFaults []*fault.Error
	a.dispatch, groupFaults = groups.New(cfg)
	for _, f := range groupFaults {
		if !reported[f.At] {
			faults = append(faults, c.FaultAt("", f))
		}
	}
	return append(faults, a.openAccess(c, before)...)
}

// Listing returns the result of tools/list for a stdio client on a surface.
func (a *App) Listing(surface mcp.Surface) ([]byte, error) {
	return mcp.Listing(&mcp.Options{Engine: a.Engine, Catalog: a.Catalog, Counter: a.Counter, Scrubber: a.scrubber, Dispatch: a.dispatch,
		Hoist: a.config.Hoist, ReadTool: config.Or(a.config.ReadTool, false)}, a.stdioRights(), surface)
}

// surfaceOf returns the configured surface, which was validated when it was decoded.
func surfaceOf(c *config.Config) mcp.Surface {
	surface, err := mcp.ParseSurface(config.Or(c.Surface, mcp.SurfaceChain.String()))
	if err != nil {
		return mcp.SurfaceChain
	}
	return surface
}

// settleSurface gives a configuration the surface of the flag or, at a reload over stdio, the one that the server was started with: its
// only client listed the tools when it connected.
func (a *App) settleSurface(before *App) {
	switch {
	case a.process.Surface != "":
		a.config.Surface = &a.process.Surface
	case before != nil && !a.process.overHTTP:
		kept := surfaceOf(&before.config.Config)
		a.keptSurface = surfaceOf(&a.config.Config) != kept
		a.config.Surface = new(kept.String())
	}
}

// boundsFlatTools reports whether a setting bounds the results of flat tools.
func boundsFlatTools(c *config.Config) bool {
	return config.Or(c.Budget.MaxTotalTokens, 0) > 0 || config.Or(c.Results.ProbeAbove, 0) > 0 || config.Or(c.Results.LeanAbove, 0) > 0
}

// leanAbove converts the setting, in which 0 is off, for package chain, where 0 is the default and -1 is off.
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

// tokenTable converts the list of tokens, whose tiers were validated when it was decoded.
func tokenTable(c *config.Access) []auth.Token {
	var list []auth.Token
	for i := range c.Tokens {
		t := &c.Tokens[i]
		functions, _ := steps.Patterns(t.Functions)
		list = append(list, auth.Token{Name: config.Or(t.Name, ""), SHA256: config.Or(t.SHA256, ""),
			Rights:  steps.Rights{Tier: config.TierOf(t.Tier, steps.TierRead), Functions: functions, Plans: config.Or(t.Plans, false)},
			Decides: t.Console != nil, DecidesFor: t.Approves})
	}
	return list
}

// acceptedTokens converts the settings of JWTs.
func acceptedTokens(c *config.JWT) *auth.JWT {
	scopes := map[string]steps.Tier{}
	for scope, word := range c.Scopes {
		scopes[scope] = config.TierOf(&word, steps.TierRead)
	}
	return &auth.JWT{Issuer: config.Or(c.Issuer, ""), Audience: config.Or(c.Audience, ""), Keys: config.Or(c.Keys, ""), Scopes: scopes,
		Decides: config.Or(c.Console, "")}
}
