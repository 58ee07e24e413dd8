package cli

import (
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/groups"
)

// checkFace checks what the configuration says of the tools that clients see, as far as no package knows it better.
func (d *configDecoder) checkFace(c *config) {
	eachOf(c.Groups, "/groups", d.tags)
	for i := range c.Groups {
		group, at := &c.Groups[i], fault.Key("/groups", c.Groups[i].Name)
		if len(group.Config.Resources) == 0 {
			d.at(at, fault.BadRequest, "needs resources: the names of those that the group holds")
		}
	}
	for alias, name := range c.Aliases {
		if at := fault.Key("/aliases", alias); alias == "" || name == "" || alias == name {
			d.at(at, fault.BadRequest, "needs two names: the one that is accepted, and the one that functions declare")
		}
	}
}

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

// surface is the configured one. Its word is checked when it is read.
func (c *config) surface() mcp.Surface {
	surface, err := mcp.ParseSurface(valueOr(c.Surface, mcp.SurfaceChain.String()))
	if err != nil {
		return mcp.SurfaceChain
	}
	return surface
}

// idleGroups is a warning where dispatchers are configured which a surface does not show; else nil.
func (c *configFile) idleGroups(surface mcp.Surface) *fault.Error {
	if surface == mcp.SurfaceDispatch || surface == mcp.SurfaceHybrid {
		return nil
	}
	for _, key := range []string{"/groups", "/autodispatch", "/ungrouped"} {
		if _, given := c.places[key]; given {
			return c.under(key, fault.New(fault.BadRequest, "the surface %s has no dispatchers: this is for dispatch and hybrid", surface))
		}
	}
	return nil
}

// idleSession is a warning where what sessions may have is configured and no client has one; else nil.
func (c *configFile) idleSession(stateless bool) *fault.Error {
	if !stateless || valueOr(c.Session.MaxTokens, 0) == 0 {
		return nil
	}
	return c.under("/session/maxTokens", fault.New(fault.BadRequest, "with --stateless no client has a session: nothing is added up"))
}

// tierOf is the tier that the configuration gives the clients of a door. Its word is checked when it is read.
func tierOf(word *string, otherwise steps.Tier) steps.Tier {
	tier, err := steps.ParseTier(valueOr(word, otherwise.String()))
	if err != nil {
		return steps.TierRead
	}
	return tier
}

// processed tells whether the configuration has the results of flat tools bounded.
func (c *config) processed() bool {
	return valueOr(c.Budget.MaxTotalTokens, 0) > 0 || valueOr(c.Results.ProbeAbove, 0) > 0 || valueOr(c.Results.LeanAbove, 0) > 0
}

// leanAbove is the configured bound as package chain takes it: 0 is its default, -1 is off.
func (c *config) leanAbove() int {
	switch above := c.Results.LeanAbove; {
	case above == nil:
		return 0
	case *above == 0:
		return -1
	default:
		return *above
	}
}
