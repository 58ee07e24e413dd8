// Package tables measures the claims of published tables of token savings on real servers and documents: lists of tools, and
// whole sessions.
package tables

import (
	"context"
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
)

// Section is the section.
var Section = harness.Section{
	Name: "tables", Title: "The published tables on real data", Long: 1, Short: 1,
	Question: "What do the savings that are published for gateways and tool searches come to on real servers and " +
		"documents? Each part does one task in two or more ways, over stdio by the client of the official SDK, and checks what comes back. " +
		"*List* is the result of `tools/list` as it comes on the wire, and the server's instructions; *written* is each call as a model " +
		"writes it, `{\"name\":…,\"arguments\":…}`; *read* is the text of each answer. A text that a server sends a second time, as structured " +
		"content, is not counted. Tokens are of o200k_base and exact, so nothing is repeated for them; times are medians of rounds in which " +
		"the ways take turns, and what a call adds is the median of the rounds' differences.",
	Parts: []harness.Part{
		{Name: "(a) 1,967 operations", Measure: operations}, {Name: "(b) servers", Measure: servers},
		{Name: "(c) gateways", Measure: gateways}, {Name: "(d) Desktop Commander", Measure: commander},
	},
}

// surface is an arm: onecall with a configuration. do is what a model does there; it may be nil, and returns what it found.
type surface struct {
	name   string
	config harness.Config
	do     func(context.Context, *harness.Session) (string, error)
}

// othersAlone hides onecall's embedded functions, which would add tools to those that are compared.
var othersAlone = map[string]any{"fs.*": hidden, "http.*": hidden, "expr.*": hidden, "text.*": hidden}

var hidden = map[string]bool{"hide": true}

// seen is what a model has seen of a surface at its end.
type seen struct {
	name, list, found string
	tools             int
	harness.Tokens
}

// look starts onecall, which must have at least that many functions, lists its tools, and does the work of the surface.
func (s *surface) look(ctx context.Context, b *harness.Bench, functions int) (_ *seen, err error) {
	session, err := b.OpenOnecall(ctx, s.name, s.config)
	if err != nil {
		return nil, err
	}
	defer session.End()
	text, err := session.Answer(ctx, "info", map[string]any{})
	if err != nil {
		return nil, err
	}
	if got := gjson.Get(text, "functions").Int(); got < int64(functions) {
		return nil, fmt.Errorf("%s: %d functions behind onecall, want %d: %s", s.name, got, functions, text)
	}
	l := &seen{name: s.name}
	if l.list, l.tools, err = session.CountList(ctx); err == nil && s.do != nil {
		l.found, err = s.do(ctx, session)
	}
	l.Tokens = session.Spent
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return l, nil
}
