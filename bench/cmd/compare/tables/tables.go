// Package tables measures the claims of published tables of token savings on real servers and documents: lists of tools, and
// whole sessions.
package tables

import (
	"context"
	_ "embed"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
)

//go:embed tables.md
var text string

// Section is the section.
var Section = harness.Section{Name: "tables", Text: text, Parts: []harness.Part{
	{Name: "(a) 1,967 operations", Measure: operations}, {Name: "(b) servers", Measure: servers},
	{Name: "(c) gateways", Measure: gateways}, {Name: "(d) Desktop Commander", Measure: commander},
}}

// surface is an arm: onecall with a configuration. do is what a model does there; it may be nil, and returns what it found.
type surface struct {
	name   string
	config harness.Config
	do     func(caller) string
}

// othersAlone hides onecall's embedded functions, which would add tools to those that are compared.
var othersAlone = map[string]any{"fs.*": hidden, "http.*": hidden, "expr.*": hidden, "text.*": hidden, "state.*": hidden}

var hidden = map[string]bool{"hide": true}

// seen is what a model has seen of a surface at its end.
type seen struct {
	name, list, found string
	tools             int
	harness.Tokens
}

// look starts onecall, which must have at least that many functions, lists its tools, and does the work of the surface.
func (s *surface) look(ctx context.Context, b *harness.Bench, functions int) *seen {
	session := b.OpenOnecall(ctx, s.name, s.config)
	defer session.End()
	text := harness.Must(session.Answer(ctx, "info", map[string]any{}))
	if got := gjson.Get(text, "functions").Int(); got < int64(functions) {
		harness.Fail("%s: %d functions behind onecall, want %d: %s", s.name, got, functions, text)
	}
	l := &seen{name: s.name}
	if l.list, l.tools = session.CountList(ctx); s.do != nil {
		l.found = s.do(func(tool, args string) string { return session.Call(ctx, tool, args) })
	}
	l.Tokens = session.Spent
	return l
}

// caller calls a tool with arguments in JSON, and returns the text of its answer.
type caller func(tool, args string) string
