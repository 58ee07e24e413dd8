package app

import (
	"context"
	"slices"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/auth"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/steps"
)

// openAccess creates the table of HTTP callers and returns the faults of access. It does nothing for commands, except an examination.
// before is as in process.open.
func (a *App) openAccess(c *config.File, before *App) (faults []*fault.Error) {
	if !a.process.serve && !a.process.examine {
		return nil
	}
	if f := a.exposure(&c.Access, before); f != nil && !c.AccessUnknown {
		faults = append(faults, c.FaultAt("/access", f))
	}
	if !c.Access.ByToken() {
		return faults
	}
	for _, f := range a.openCallers(&c.Access) {
		faults = append(faults, c.FaultAt("/access", f))
	}
	return faults
}

// openCallers creates the table of callers; an examination only checks what it would consist of. The issuer's keys stay open through a
// reload that does not change their location.
func (a *App) openCallers(c *config.Access) (faults []*fault.Error) {
	o := &auth.Options{Tokens: tokenTable(c), Log: a.process.log}
	if c.JWT != nil {
		o.JWT = acceptedTokens(c.JWT)
	}
	if a.process.examine {
		return auth.Check(o)
	}
	if c.JWT != nil {
		key := "keys " + fingerprint(o.JWT.Issuer, o.JWT.Keys)
		keys, release, err := acquire(&a.process.pool, key, func() (*auth.Keys, error) { return auth.OpenKeys(o) })
		if err == nil { // otherwise auth.New reports the fault, along with all others
			o.Keys = keys
			a.closers = append(a.closers, closer(release))
		}
	}
	a.callers, faults = auth.New(o)
	return faults
}

// agents are the callers of MCP if only people approve: those who may approve in the console are people.
type agents struct {
	*auth.Table
	rule string // the setting that says so
}

// Verify implements transport.Callers.
func (a agents) Verify(ctx context.Context, token string) (*steps.Caller, error) {
	return a.refusePeople(a.Table.Verify(ctx, token))
}

// Reverify implements transport.RevocableCallers.
func (a agents) Reverify(ctx context.Context, token string) (*steps.Caller, error) {
	return a.refusePeople(a.Table.Reverify(ctx, token))
}

func (a agents) refusePeople(caller *steps.Caller, err error) (*steps.Caller, error) {
	if err != nil || !caller.Decides {
		return caller, err
	}
	f := fault.New(fault.Denied, "the token may approve in the console, so with %s it is a person's: an MCP client needs another one", a.rule)
	f.Err = steps.ErrScope
	return nil, f
}

// exposure reports why the configuration would admit unintended callers; nil: it does not. The fault's At is relative to /access.
func (a *App) exposure(c *config.Access, before *App) *fault.Error {
	if f := consoleFault(c); a.process.console && f != nil {
		return f
	}
	switch f := c.RemoteFault(); {
	case a.process.remote && f != nil:
		return f
	case !a.process.overHTTP || c.ByToken(): // over HTTP without tokens, everyone who reaches the server is admitted
		return nil
	}
	if at := c.RemoteSetting(); at != "" {
		return fault.New(fault.BadRequest,
			"this setting is for clients on other machines, which need tokens: write access.tokens (onecall auth token "+
				"makes one) or access.jwt, or leave this setting out").Under(at)
	}
	if before != nil && before.callers != nil && c.HTTP == nil {
		return fault.New(fault.BadRequest,
			"this would admit clients without tokens, which they have needed so far: to lock out the last one, put another "+
				"token in place of its; to admit everyone who reaches the server, write access.http with their tier")
	}
	return nil
}

// personRule names the setting by which calls need a person's approval.
func personRule(c *config.Config) string {
	if config.Or(c.ApproveBy, "") == "person" {
		return "approveBy: person"
	}
	return "a flow rule that says do: approve"
}

// idleApprovers finds tokens that may approve in the console and, if only people approve, have nothing to approve: MCP clients cannot use
// them, so they have no runs, and see those of others only as administrators of all functions or if they name them.
func (s *subject) idleApprovers() (faults []*fault.Error) {
	if !s.config.NeedsPerson() {
		return nil
	}
	for i, token := range tokenTable(&s.config.Access) {
		named := slices.ContainsFunc(token.DecidesFor, func(name string) bool { return name != token.Name })
		if token.Decides && !named && !seesAll(token.Rights) {
			faults = append(faults, fault.New(fault.BadRequest, "with %s the token %s has no runs, and sees nobody else's, so it can "+
				"approve nothing: name the tokens of its agents (approves), or give it tier: admin without functions",
				personRule(&s.config.Config), token.Name).Under(fault.Index("/access/tokens", i)+"/console"))
		}
	}
	return faults
}

// unusedTokenFunctions finds patterns of tokens that match no function, by any of its names.
func (s *subject) unusedTokenFunctions() []*fault.Error {
	names := slices.Clone(s.names)
	for _, entry := range s.registry.All() {
		spec := entry.Spec()
		for _, other := range []string{spec.OwnName, spec.Path} {
			if other != "" {
				names = append(names, other)
			}
		}
	}
	return unusedAllowed(s.config, names, s.absent)
}

// unusedAllowed returns a fault for each pattern in the functions of a token (access.tokens) that matches none of names, which are the
// known functions, and none that an absent source could offer.
func unusedAllowed(c *config.File, names, absent []string) []*fault.Error {
	var unused []*fault.Error
	for i, token := range tokenTable(&c.Access) {
		for _, f := range token.Unused(names, absent) {
			f.Message += ", so it lets the token " + token.Name + " call nothing"
			unused = append(unused, c.FaultAt(fault.Index("/access/tokens", i)+"/functions", f))
		}
	}
	return unused
}
