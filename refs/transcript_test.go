package refs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/transcript"
)

// TestTranscripts reads ../testdata/refs: each line is a text and, after the arrow, its result. The first word of a
// section says what the text is; `results` has the results of the earlier steps, one a line. A fault is written with
// its code, the offset of its caret, its message, and the nearest names.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	transcript.Each(t, "../testdata/refs/*.txtar", func(t *testing.T, archive *txtar.Archive) {
		var results []string
		transcript.Replay(t, archive.Files, func(t *testing.T, section *txtar.File) string {
			text := string(section.Data)
			kind, _, _ := strings.Cut(section.Name, "/")
			if kind == "results" {
				results = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
				return text
			}
			evaluate := evaluators[kind]
			if evaluate == nil {
				t.Fatalf("unknown kind of section %q", kind)
			}
			return transcript.Arrow(t, text, func(question string) string { return evaluate(t, question, scopeOf(results...)) })
		})
	})
}

// evaluators maps the kinds of sections to the functions that run their lines.
var evaluators = map[string]func(t *testing.T, text string, s *Scope) string{
	"expression": evaluateExpression, "condition": evaluateCondition, "selector": evaluateSelector, "uses": listUses,
	"template": func(t *testing.T, text string, s *Scope) string { return resolveTemplate(t, text, scope(), s) },
	// The input of the chain has who.
	"template-with-who": func(t *testing.T, text string, s *Scope) string {
		p := scope()
		p.Input = func(key string) bool { return key == "who" }
		return resolveTemplate(t, text, p, s)
	},
	"template-of-the-first-step": func(t *testing.T, text string, s *Scope) string {
		return resolveTemplate(t, text, CompileScope{At: "/args", Steps: 2}, s)
	},
	"template-of-the-second-step": func(t *testing.T, text string, s *Scope) string {
		return resolveTemplate(t, text, CompileScope{At: "/args", Step: 1, Steps: 2}, s)
	},
	"return": func(t *testing.T, text string, s *Scope) string {
		s.Lenient = true
		return resolveTemplate(t, text, CompileScope{At: "/args", Step: 2, Steps: 2}, s)
	},
	"reference": func(t *testing.T, text string, _ *Scope) string {
		r, err := Parse(text)
		if err != nil {
			return formatFault(t, text, err)
		}
		return r.String()
	},
}

func evaluateExpression(t *testing.T, text string, s *Scope) string {
	x, faults := CompileExpression(text, scope())
	if len(faults) > 0 {
		return formatFaults(t, text, faults)
	}
	got, err := x.Eval(context.Background(), s)
	if again, failed := x.Eval(context.Background(), s); string(again) != string(got) || (failed == nil) != (err == nil) {
		t.Errorf("%s gives %s, %v, then %s, %v; want the same twice", text, got, err, again, failed)
	}
	return outcome(t, text, got, err)
}

func evaluateCondition(t *testing.T, text string, s *Scope) string {
	x, faults := CompileExpression(text, scope())
	if len(faults) > 0 {
		return formatFaults(t, text, faults)
	}
	ok, err := x.True(context.Background(), s)
	return outcome(t, text, fmt.Append(nil, ok), err)
}

func evaluateSelector(t *testing.T, text string, s *Scope) string {
	x, faults := CompileSelector(text, scope())
	if len(faults) > 0 {
		return formatFaults(t, text, faults)
	}
	if strings.HasPrefix(text, "$0") && len(x.Uses()) == 0 {
		t.Errorf("%s has no uses, want that of $0", text)
	}
	got, err := x.Resolve(context.Background(), s)
	return outcome(t, text, got, err)
}

// resolveTemplate resolves a text as a string in arguments, and appends the value to existing bytes.
func resolveTemplate(t *testing.T, text string, p CompileScope, s *Scope) string {
	value, err := json.Marshal(text)
	must(t, err)
	tpl, faults := CompileTemplate(value, p)
	if len(faults) > 0 {
		if string(tpl.Value()) != "null" || tpl.Broken()[0] != faults[0].At {
			t.Errorf("%s: the value is %s, broken at %q; want null, broken at %s", text, tpl.Value(), tpl.Broken(), faults[0].At)
		}
		return formatFaults(t, text, faults)
	}
	got, err := tpl.Resolve(context.Background(), []byte("kept"), s)
	got, ok := bytes.CutPrefix(got, []byte("kept"))
	if !ok || err != nil && len(got) > 0 || len(tpl.placeholders) == 0 && string(tpl.Value()) != string(got) {
		t.Errorf("%s: got %q, %v, existing bytes kept: %t; want them kept, no value with an error, and %s if nothing is replaced", text, got, err, ok, tpl.Value())
	}
	return outcome(t, text, got, err)
}

func listUses(t *testing.T, text string, _ *Scope) string {
	var all []string
	for _, u := range compileExpression(t, text).Uses() {
		use := Reference{root: u.Root, step: u.Step}.String()
		for _, s := range u.Path {
			use = string(s.appendMember([]byte(use)))
		}
		for i, isSet := range []bool{u.Lenient, u.Status, u.Whole} {
			if isSet {
				use += []string{" lenient", " status", " whole"}[i]
			}
		}
		if !u.Expression || u.At != "/args" {
			t.Errorf("%s: a use is %+v, want that of an expression at /args", text, u)
		}
		all = append(all, use)
	}
	return strings.Join(all, ", ")
}

func outcome(t *testing.T, text string, got []byte, err error) string {
	if err != nil {
		return formatFault(t, text, err)
	}
	return string(got)
}

func formatFaults(t *testing.T, text string, faults []*fault.Error) string {
	var all []string
	for _, f := range faults {
		all = append(all, formatFault(t, text, f))
	}
	return strings.Join(all, " ")
}

// formatFault formats a fault as one line. Each fault has its position and source, and its message mentions no Go types.
func formatFault(t *testing.T, text string, err error) string {
	t.Helper()
	f, ok := fault.As(err)
	if !ok {
		t.Fatalf("%s: %v, want an error with a code", text, err)
	}
	reference, _ := Parse(text)
	source := f.Source == strings.TrimSpace(text) || f.Source == text || f.Source == reference.String()
	if f.At != "/args" && f.At != "" || !source || strings.Contains(f.Message, "interface {}") || strings.Contains(f.Message, "\n") {
		t.Errorf("%s: %v at %q of %q; want it at /args or at none, the text as source, and no Go type or line break", text, f, f.At, f.Source)
	}
	line := fmt.Sprintf("!%s@%d %s", f.Code, f.Offset, f.Message)
	if len(f.Nearest) > 0 {
		line += fmt.Sprintf(" nearest %q", f.Nearest)
	}
	if len(f.Available) > 0 {
		line += fmt.Sprintf(" of %q", f.Available)
	}
	return line
}
