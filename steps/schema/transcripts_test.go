package schema

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"golang.org/x/tools/txtar"

	"github.com/onecall-mcp/onecall/fault"
)

// TestTranscripts asks about the schemas of testdata/schemas.txtar. A file is a schema and questions about it, each with its answer in
// indented lines:
//
//	check ARGUMENTS                   whether arguments fit it
//	check ARGUMENTS with AT TYPE…     the same, if the value at a place is not known, but perhaps its types
//	type SCHEMA                       how a signature shows the type, with the definitions of the file
//	path PATH                         what is known of a place in a result that fits it (see path)
//
// Of a file whose name begins with "secret", the values of arguments may be secret.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	const name = "testdata/schemas.txtar"
	archive, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range archive.Files {
		var got strings.Builder
		schema, questions, _ := bytes.Cut(file.Data, []byte("\n\n"))
		got.Write(schema)
		got.WriteString("\n\n")
		arguments, warning := NewArguments(schema, ArgumentsOptions{Secret: strings.HasPrefix(file.Name, "secret")})
		if warning != "" {
			got.WriteString("\twarning: " + warning + "\n")
		}
		f := &function{Arguments: arguments}
		f.output, _ = CompactSchema(schema)
		for question := range strings.Lines(string(questions)) {
			if !strings.HasPrefix(question, "\t") {
				got.WriteString(question + answer(t, f, strings.TrimSuffix(question, "\n")))
			}
		}
		archive.Files[i].Data = []byte(got.String())
		if !bytes.Equal(archive.Files[i].Data, file.Data) && !*update {
			t.Errorf("%s:\n%s", file.Name, got.String())
		}
	}
	if *update {
		if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func answer(t *testing.T, f *function, question string) string {
	t.Helper()
	var b strings.Builder
	if pointer, ok := strings.CutPrefix(question, "path"); ok {
		types, missing := f.Produces(path(strings.TrimPrefix(pointer, " ")))
		slices.Sort(types)
		switch {
		case missing != nil && missing.Code != fault.ReferenceMissing:
			t.Errorf("%s: %v", question, missing)
		case missing != nil:
			fmt.Fprintf(&b, "\tmissing: %s\n", formatFault(missing))
		case types == nil:
			b.WriteString("\tanything\n")
		default:
			fmt.Fprintf(&b, "\t%s\n", strings.Join(types, " "))
		}
		if undeclared := f.Undeclared(path(strings.TrimPrefix(pointer, " "))); undeclared != nil {
			fmt.Fprintf(&b, "\tundeclared: %s\n", formatFault(undeclared))
		}
		return b.String()
	}
	if schema, ok := strings.CutPrefix(question, "type "); ok {
		defs := gjson.GetBytes(f.output, "$defs").Raw
		one, _ := entry(`{"properties":{"x":`+schema+`},"required":["x"],"$defs":`+defs+`}`, "")
		return "\t" + strings.TrimSuffix(strings.TrimPrefix(one.Signature(), "test.call(x: "), ")") + "\n"
	}
	args, unknown, has := strings.Cut(strings.TrimPrefix(question, "check "), " with ")
	var unknowns []Unknown
	if has {
		at, types, _ := strings.Cut(unknown, " ")
		unknowns = []Unknown{{At: strings.Trim(at, `"`), Types: strings.Fields(types)}}
	}
	faults := f.Check([]byte(args), unknowns)
	for _, fault := range faults {
		fmt.Fprintf(&b, "\t%s\n", formatFault(fault))
	}
	if len(faults) == 0 {
		b.WriteString("\tfits\n")
	}
	err := f.Call(t.Context(), []byte(args))
	if unknowns == nil && (err != nil) != (len(faults) > 0) || err != nil && fault.CodeOf(err) != fault.BadArguments {
		t.Errorf("%s: a call with them gives %v", question, err)
	}
	if strings.Contains(question, "hunter2") && strings.Contains(fmt.Sprint(b.String(), err), "hunter2") {
		t.Errorf("%s shows it: %v, %s", question, err, b.String())
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
