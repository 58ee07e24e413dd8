package schema

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"golang.org/x/tools/txtar"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/transcript"
)

// TestTranscripts asks questions about the schemas of testdata/schemas.txtar. A file has a schema and questions, each with its answer in
// indented lines:
//
//	check ARGUMENTS                   whether arguments fit it
//	check ARGUMENTS with AT TYPE…     the same, if the value at a place is not known, but perhaps its types
//	type SCHEMA                       how a signature shows the type, with the definitions of the file
//	path PATH                         what is known of a place in a result that fits it (see path)
//
// If a file's name begins with "secret", the values of arguments may be secret.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	transcript.Each(t, "testdata/schemas.txtar", func(t *testing.T, archive *txtar.Archive) {
		transcript.Replay(t, archive.Files, func(t *testing.T, section *txtar.File) string {
			schema, questions, _ := strings.Cut(string(section.Data), "\n\n")
			got := schema + "\n\n"
			arguments, warning := NewArguments([]byte(schema), ArgumentsOptions{Secret: strings.HasPrefix(section.Name, "secret")})
			if warning != "" {
				got += "\twarning: " + warning + "\n"
			}
			f := &function{Arguments: arguments}
			f.output, _ = CompactSchema([]byte(schema))
			return got + transcript.Lines(t, questions, func(question string) string { return answer(t, f, question) })
		})
	})
}

func answer(t *testing.T, f *function, question string) string {
	t.Helper()
	var b strings.Builder
	if pointer, ok := strings.CutPrefix(question, "path"); ok {
		types, missing := f.Produces(path(strings.TrimPrefix(pointer, " ")))
		slices.Sort(types)
		switch {
		case missing != nil && missing.Code != fault.ReferenceMissing:
			t.Errorf("%s: %v, want reference_missing", question, missing)
		case missing != nil:
			fmt.Fprintf(&b, "missing: %s\n", formatFault(missing))
		case types == nil:
			b.WriteString("anything\n")
		default:
			fmt.Fprintf(&b, "%s\n", strings.Join(types, " "))
		}
		if undeclared := f.Undeclared(path(strings.TrimPrefix(pointer, " "))); undeclared != nil {
			fmt.Fprintf(&b, "undeclared: %s\n", formatFault(undeclared))
		}
		return b.String()
	}
	if schema, ok := strings.CutPrefix(question, "type "); ok {
		defs := gjson.GetBytes(f.output, "$defs").Raw
		one, _ := entry(`{"properties":{"x":`+schema+`},"required":["x"],"$defs":`+defs+`}`, "")
		return strings.TrimSuffix(strings.TrimPrefix(one.Signature(), "test.call(x: "), ")") + "\n"
	}
	args, unknown, hasUnknown := strings.Cut(strings.TrimPrefix(question, "check "), " with ")
	var unknowns []Unknown
	if hasUnknown {
		at, types, _ := strings.Cut(unknown, " ")
		unknowns = []Unknown{{At: strings.Trim(at, `"`), Types: strings.Fields(types)}}
	}
	faults := f.Check([]byte(args), unknowns)
	for _, fault := range faults {
		fmt.Fprintf(&b, "%s\n", formatFault(fault))
	}
	if len(faults) == 0 {
		b.WriteString("fits\n")
	}
	err := f.Call(t.Context(), []byte(args))
	if unknowns == nil && (err != nil) != (len(faults) > 0) || err != nil && fault.CodeOf(err) != fault.BadArguments {
		t.Errorf("%s: Check and Call disagree: the call gives %v, want bad_arguments if Check has faults", question, err)
	}
	if strings.Contains(question, "hunter2") && strings.Contains(fmt.Sprint(b.String(), err), "hunter2") {
		t.Errorf("%s shows the secret: %v, %s", question, err, b.String())
	}
	return b.String()
}

// formatFault formats a fault as one line that begins with its position, if it has one.
func formatFault(f *fault.Error) string {
	text := f.Message
	if f.At != "" && !strings.HasPrefix(text, f.At) {
		text = f.At + ": " + text
	}
	if len(f.Nearest) > 0 {
		text += fmt.Sprintf(" — nearest %q", f.Nearest)
	}
	if len(f.Available) > 0 {
		text += fmt.Sprintf(" — of %q", f.Available)
	}
	return text
}
