package main

import (
	"fmt"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// chainReference is the page of the fields of a request.
func chainReference(chain source) []byte {
	var b strings.Builder
	b.WriteString("# The fields of a chain\n\nGenerated from the types that the decoder reads. What they are for is in [language.md](../language.md).\n")
	for _, part := range []struct{ title, of string }{
		{"A chain", "request"}, {"A step", "step"}, {"`chain` of a step", "inline"}, {"`repeat` of a step", "repeatRequest"},
		{"`retry` of a step", "retryRequest"}, {"`budget`", "budgetRequest"}, {"A fetch", "fetchRequest"},
	} {
		chain.table(&b, part.title, part.of)
	}
	return []byte(b.String())
}

// toolsReference is the page of the arguments of the tools beside chain.
func toolsReference(mcp source) []byte {
	var b strings.Builder
	b.WriteString("# The arguments of search and info\n\nGenerated from the types that are decoded. Those of `chain` are in [chain.md](chain.md), what is answered is in [wire.md](../wire.md).\n")
	mcp.table(&b, "`search`", "searchArguments")
	mcp.table(&b, "`info`", "infoArguments")
	return []byte(b.String())
}

// table writes the fields of a struct.
func (s source) table(b *strings.Builder, title, name string) {
	fmt.Fprintf(b, "\n## %s\n\n| field | value | meaning |\n|---|---|---|\n", title)
	for _, f := range s.object(name).fields {
		if f.built() {
			fmt.Fprintf(b, "| `%s` | %s | %s |\n", f.name, s.value(&f), strings.ReplaceAll(f.doc, "|", `\|`))
		}
	}
}

// value says in words what a field holds.
func (s source) value(f *field) string {
	if o, list := s.inner(f); list && o != nil {
		return "steps, one at least"
	} else if o != nil {
		return "object, see below"
	}
	p := plain(f)
	bound(p, f)
	var says []string
	switch {
	case p.Enum != nil:
		for _, word := range p.Enum {
			says = append(says, fmt.Sprintf("`%s`", word))
		}
	case p.Types != nil:
		says = append(says, "text or boolean")
	case f.tag.Get("kind") == "any":
		says = append(says, "anything")
	case p.Type == "array":
		says = append(says, "list of texts")
	default:
		says = append(says, kinds[p.Type])
	}
	switch {
	case p.Minimum != nil && p.Maximum != nil:
		says = append(says, fmt.Sprintf("%.0f to %.0f", *p.Minimum, *p.Maximum))
	case p.Minimum != nil:
		says = append(says, fmt.Sprintf("from %.0f", *p.Minimum))
	case p.MaxLength != nil:
		says = append(says, fmt.Sprintf("at most %d characters", *p.MaxLength))
	}
	if _, required := f.rules()["required"]; required {
		says = append(says, "required")
	}
	return strings.Join(says, ", ")
}

// codesReference is the page of the error codes.
func codesReference() []byte {
	var b strings.Builder
	b.WriteString("# The error codes\n\nGenerated from the one table of codes. A released code is not renamed. *Exit* is the status of the command line, *HTTP* that of an answer " +
		"over HTTP that is no tool result;\n*again*: the same request may succeed when it is sent again.\n\n| code | exit | HTTP | again | meaning |\n|---|---|---|---|---|\n")
	for _, code := range fault.Codes() {
		again := ""
		if code.Retryable() {
			again = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %d | %d | %s | %s |\n", code, code.Exit(), code.HTTP(), again, code.Help())
	}
	return []byte(b.String())
}
