package app

import (
	"context"
	"errors"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/auth"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/steps"
)

// callers knows the clients over HTTP by their tokens. The two tables are apart so that a change of the one, when the
// configuration is loaded again, leaves the other what it has: the issuer's keys.
type callers struct {
	tokens, jwt *auth.Table // nil: there are none of the kind
}

// Verify implements transport.Callers.
func (c *callers) Verify(ctx context.Context, token string) (*steps.Caller, error) {
	return c.ask(func(table *auth.Table) (*steps.Caller, error) { return table.Verify(ctx, token) })
}

// Hold implements transport.Keyed.
func (c *callers) Hold(ctx context.Context, token string) (*steps.Caller, error) {
	return c.ask(func(table *auth.Table) (*steps.Caller, error) { return table.Hold(ctx, token) })
}

func (c *callers) ask(verify func(*auth.Table) (*steps.Caller, error)) (*steps.Caller, error) {
	for _, table := range []*auth.Table{c.tokens, c.jwt} {
		if table == nil {
			continue
		}
		caller, err := verify(table)
		if table == c.tokens && c.jwt != nil && errors.Is(err, auth.ErrInvalid) {
			continue
		}
		return caller, err
	}
	return nil, fault.New(fault.Denied, "no token is accepted")
}

// Keys implements transport.Keyed.
func (c *callers) Keys() uint64 {
	if c.jwt == nil {
		return 0
	}
	return c.jwt.Keys()
}

// Look implements transport.Keyed.
func (c *callers) Look(now bool) {
	if c.jwt != nil {
		c.jwt.Look(now)
	}
}

// issuerKeys are a table of JWTs in the pool, which keeps the issuer's keys.
type issuerKeys struct{ *auth.Table }

// Close implements io.Closer.
func (k issuerKeys) Close() error { //nolint:unparam // as it says
	k.Table.Close()
	return nil
}

// access makes the tables of those who come in by tokens, and gives all that is wrong with them. Only who serves needs them. before
// is as in process.open.
func (a *App) access(c *config.File, before *App) (faults []*fault.Error) {
	if !a.process.serve {
		return nil
	}
	if f := a.unguarded(&c.Access, before); f != nil && !c.AccessUnsure {
		faults = append(faults, c.Under("/access", f))
	}
	if !c.Access.ByToken() {
		return faults
	}
	a.callers = &callers{}
	var wrong []*fault.Error
	if len(c.Access.Tokens) > 0 {
		a.callers.tokens, wrong = auth.New(&auth.Options{Tokens: tokenTable(&c.Access)})
	}
	if jwt := c.Access.JWT; jwt != nil {
		keys, release, err := acquire(&a.process.pool, "jwt "+fingerprint(jwt), func() (issuerKeys, error) {
			table, list := auth.New(&auth.Options{JWT: acceptedTokens(jwt), Log: a.process.log})
			if len(list) > 0 {
				wrong = append(wrong, list...)
				return issuerKeys{}, list[0]
			}
			return issuerKeys{table}, nil
		})
		if err == nil {
			a.callers.jwt = keys.Table
			a.closers = append(a.closers, closer(release))
		}
	}
	for _, f := range wrong {
		faults = append(faults, c.Under("/access", f))
	}
	return faults
}

// unguarded reports why the configuration would let in whom it should not; nil: it does not. At is relative to
// /access.
func (a *App) unguarded(c *config.Access, before *App) *fault.Error {
	switch f := c.UnfitForRemote(); {
	case a.process.remote && f != nil:
		return f
	case !a.process.anySurface || c.ByToken(): // over HTTP all may come who reach it
		return nil
	}
	if at := c.RemotePlace(); at != "" {
		return fault.New(fault.BadRequest, "clients of other machines find the server there, who need tokens: write access.tokens (onecall auth token "+
			"makes one) or access.jwt, or leave it out").Under(at)
	}
	if before != nil && before.callers != nil && c.HTTP == nil {
		return fault.New(fault.BadRequest, "clients have needed tokens so far, and by this none would: where all may come in who reach the server, "+
			"write access.http with the tier that they have")
	}
	return nil
}

// unusedAllowed is as UnusedSettings, for the lists of tokens.
func (a *App) unusedAllowed() []*fault.Error {
	var names, absent []string
	for _, info := range a.Catalog.Sources() {
		if info.State != steps.StateReady && info.State != steps.StateIdle {
			absent = append(absent, info.Name)
		}
	}
	for _, entry := range a.Catalog.Registry().All() {
		if names = append(names, entry.Spec().Name); entry.Spec().Path != "" {
			names = append(names, entry.Spec().Path)
		}
	}
	return unusedAllowed(a.config, names, absent)
}

// unusedAllowed tells of the functions in the lists of tokens that there are not, and could not be in a source that is absent.
func unusedAllowed(c *config.File, names, absent []string) []*fault.Error {
	var unused []*fault.Error
	for i, token := range tokenTable(&c.Access) {
		for _, f := range token.Unused(names, absent) {
			f.Message += ", so the token " + token.Name + " may call none by it"
			unused = append(unused, c.Under(fault.Index("/access/tokens", i)+"/functions", f))
		}
	}
	return unused
}
