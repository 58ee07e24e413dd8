package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/fault"
)

func TestRenderFault(t *testing.T) {
	t.Parallel()
	text := "{\n\t\"steps\": [{\"args\": {\"a\": \"$0.nme\", \"b\": \"é $x\"}}]\n}"
	tests := []struct {
		name string
		line int
		f    fault.Error
		want string
	}{
		{"a position in a line", 0, fault.Error{Code: fault.UnknownField, Message: "unknown field", Line: 2, Column: 13, Nearest: []string{"args"}},
			"f.json:2:13: unknown_field: unknown field\n     \"steps\": [{\"args\": {\"a\": \"$0.nme\", \"b\": \"é $x\"}}]\n           " +
				"     ^\n    did you mean args?\n"},
		{"a position in a string", 0, fault.Error{Code: fault.BadReference, Message: "no nme", Line: 2, Column: 27, Source: "$0.nme",
			Offset: 3},
			"f.json:2:31: bad_reference: no nme\n     \"steps\": [{\"args\": {\"a\": \"$0.nme\", \"b\": \"é $x\"}}]\n                  " +
				"                ^\n"},
		{"a text that the file spells differently", 0, fault.Error{Code: fault.BadExpression, Message: "bad", Line: 2, Column: 27,
			Source: "a \"b\" c", Offset: 2},
			"f.json:2:27: bad_expression: bad\n    a \"b\" c\n      ^\n"},
		{"the nearest is in the message", 0, fault.Error{Code: fault.UnknownFunction, Message: "did you mean fs.cat?",
			Nearest: []string{"fs.cat"}},
			"f.json: unknown_function: did you mean fs.cat?\n"},
		{"a line of a batch file", 7, fault.Error{Code: fault.BadJSON, Message: "x", Line: 1, Column: 2},
			"f.json:7:2: bad_json: x\n    {\n     ^\n"},
		{"past the end", 0, fault.Error{Code: fault.BadJSON, Message: "x", Line: 99, Column: 2}, "f.json:99:2: bad_json: x\n"},
		{"control characters", 0, fault.Error{Code: fault.BadJSON, Message: "a\x1b[31mb\nc"}, "f.json: bad_json: a·[31mb·c\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			(&document{name: "f.json", text: []byte(text), line: test.line}).render(&b, &test.f, 100, (&streams{}).paintErr)
			if b.String() != test.want {
				t.Errorf("got\n%swant\n%s", b.String(), test.want)
			}
		})
	}
}

// TestControlCharacters checks that notes and answers escape control characters from upstreams.
func TestControlCharacters(t *testing.T) {
	t.Parallel()
	var out, err strings.Builder
	s := &streams{out: &out, err: &err, outTerminal: true}
	s.noticef("one: %s\ntwo", "a\u009b31mb\u202ec\x1b]0;d\r")
	if want := "one: a·31mb·c·]0;d·\ntwo\n"; err.String() != want {
		t.Errorf("got %q, want %q", err.String(), want)
	}
	const text = "{\"a\":\"é\u3000日\u009b31m\u202e\x7f\U000e0001\"}"
	if err := s.writeJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if want := "{\n  \"a\": \"é\u3000日\\u009b31m\\u202e\\u007f\\udb40\\udc01\"\n}\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	out.Reset()
	s.outTerminal = false
	if err := s.writeJSON([]byte(text)); err != nil || out.String() != text+"\n" {
		t.Errorf("not at a terminal: got %q, %v, want %q", out.String(), err, text+"\n")
	}
}

func FuzzRenderFault(f *testing.F) {
	f.Add("{\"a\": \"$0\"}", 1, 6, "$0", 1, 80)
	f.Fuzz(func(t *testing.T, text string, line, column int, written string, offset, width int) {
		var b strings.Builder
		(&document{name: "f", text: []byte(text)}).render(&b, &fault.Error{Code: fault.BadJSON, Message: "m", Line: line, Column: column,
			Source: written, Offset: offset}, width, (&streams{}).paintErr)
		if !utf8.ValidString(b.String()) {
			t.Errorf("the output is not valid UTF-8: %q", b.String())
		}
	})
}
