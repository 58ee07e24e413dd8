package textfile_test

import (
	"testing"

	"github.com/onecall-mcp/onecall/internal/textfile"
)

// TestPlainJSON: what remains of JSON with comments keeps its lines and columns, and a mistake is told with its place.
func TestPlainJSON(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text, want   string
		line, column int
	}{
		{"{\"a\": 1, // one\n \"b\": [2, /* x\n*/ 3,],}\n", "{\"a\": 1,       \n \"b\": [2,     \n   3 ] }\n", 0, 0},
		{`{"a": "// no comment"} // a`, `{"a": "// no comment"}     `, 0, 0},
		{"", "", 0, 0},
		{"// nothing\n", "", 0, 0},
		{"{\n  // a\n  \"b\": }", "", 3, 8},
		{"{ /* open", "", 1, 3},
		{"{} x", "", 1, 4},
		{"{\"a\":\n", "", 1, 6},
	} {
		text := []byte(test.text)
		got, bad := textfile.PlainJSON(text)
		if string(got) != test.want || string(text) != test.text || (bad != nil) != (test.line > 0) {
			t.Errorf("%q: got %q and error %v, want %q and an error in line %d", test.text, got, bad, test.want, test.line)
		}
		if bad != nil && (bad.Line != test.line || bad.Column != test.column) {
			t.Errorf("%q: %v: got line %d, column %d, want %d, %d", test.text, bad, bad.Line, bad.Column, test.line, test.column)
		}
	}
}
