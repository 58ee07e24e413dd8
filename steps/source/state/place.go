package state

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// sessionSpace is how callers name the space of their MCP session.
const sessionSpace = "session"

// place is where a call finds its values.
type place struct {
	journal.StateKey        // without a name
	caller           string // who calls
	shared           bool   // other callers see the space, too
	anonymous        bool   // callers whom nobody can tell apart have these values, each its own
	session          *session
}

var spaceName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// callerOf returns the caller whose values a call sees: the one that began its run, whoever resumes or undoes it.
func callerOf(ctx context.Context) string {
	if caller, ok := journal.RunCaller(ctx); ok {
		return caller
	}
	return steps.CallbacksOf(ctx).Caller
}

// owner returns the owner of the values of a caller, or of a shared space, in the source's scope.
func (s *Source) owner(kind, id string) string {
	if s.o.Scope == "" {
		return kind + id
	}
	return kind + id + "\x1f" + s.o.Scope
}

// placeOf returns the place of a space; "": the caller's own. It fails with denied if callers who share an identity would see it.
func (s *Source) placeOf(ctx context.Context, space string) (place, error) {
	p := place{caller: callerOf(ctx)}
	p.Owner, p.Space = s.owner("caller ", p.caller), space
	if space != "" && !spaceName.MatchString(space) {
		return p, badArgument("space", "a space has 1 to 64 letters, digits, and _ . -")
	}
	client := steps.SessionOf(ctx)
	p.anonymous = s.o.Anonymous != "" && p.caller == s.o.Anonymous
	switch {
	case space == sessionSpace && client != nil:
		p.session = s.sessionOf(client, p.Owner)
		p.Space = p.session.space
		return p, nil
	case p.anonymous && client == nil:
		return p, fault.New(fault.Denied, "callers without tokens share one identity, so anyone could read the value, and there is no session "+
			"here that it could belong to: give each caller a token (access.tokens)").Under("/space")
	case space == sessionSpace:
		return p, badArgument("space", "there is no session here that the values could belong to: leave space out")
	case p.anonymous:
		return p, fault.New(fault.Denied, "callers without tokens share one identity, so anyone could read the value: use space \"session\", "+
			"or give each caller a token (access.tokens)").Under("/space")
	}
	if slices.Contains(s.o.Spaces[space], p.caller) {
		p.Owner, p.shared = s.owner("space ", space), true
	}
	return p, nil
}

// at returns the key of a name in a space.
func (s *Source) at(ctx context.Context, space, name string) (journal.StateKey, place, error) {
	p, err := s.placeOf(ctx, space)
	if err != nil {
		return journal.StateKey{}, p, err
	}
	if n := utf8.RuneCountInString(name); n == 0 || n > maxKey || strings.Contains(name, "\x00") {
		return journal.StateKey{}, p, badArgument("key", "a key has 1 to %d characters, none of them with the code 0", maxKey)
	}
	key := p.StateKey
	key.Name = name
	return key, p, nil
}

// maxKey bounds the length of a key, in characters.
const maxKey = 200
