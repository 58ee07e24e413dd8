package replay_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/replay"
)

func TestReadFaults(t *testing.T) {
	t.Parallel()
	const good = `{"fn":"a.b","args":{},"result":1}` + "\n"
	tests := []struct {
		name, text string
		code       fault.Code
		line       int
		at         string
	}{
		{"not JSON", good + "{\n" + good, fault.BadJSON, 2, ""},
		{"truncated", good + `{"fn":"a.b","args":{"x`, fault.BadJSON, 2, ""},
		{"not UTF-8", "{\"fn\":\"a\xff\",\"args\":{},\"result\":1}\n", fault.BadJSON, 1, ""},
		{"too deep", `{"fn":"a","result":` + strings.Repeat("[", 20_000) + "\n", fault.BadJSON, 1, ""},
		{"two values on a line", `{"fn":"a","result":1} {"fn":"a","result":1}` + "\n", fault.BadJSON, 1, ""},
		{"not an object", "[]\n", fault.BadRequest, 1, ""},
		{"no fn", `{"args":{},"result":1}` + "\n", fault.BadRequest, 1, ""},
		{"empty fn", `{"fn":"","result":1}` + "\n", fault.BadRequest, 1, "/fn"},
		{"fn not a string", `{"fn":1,"result":1}` + "\n", fault.BadRequest, 1, "/fn"},
		{"args not an object", `{"fn":"a","args":[],"result":1}` + "\n", fault.BadRequest, 1, "/args"},
		{"neither result nor error", `{"fn":"a"}` + "\n", fault.BadRequest, 1, ""},
		{"result and error", `{"fn":"a","result":1,"error":{"code":"x"}}` + "\n", fault.BadRequest, 1, ""},
		{"error not an object", `{"fn":"a","error":"x"}` + "\n", fault.BadRequest, 1, "/error"},
		{"error without code", `{"fn":"a","error":{"message":"x"}}` + "\n", fault.BadRequest, 1, "/error"},
		{"unknown field", `{"fn":"a","resutl":1}` + "\n", fault.UnknownField, 1, "/resutl"},
		{"unknown field of the error", `{"fn":"a","error":{"code":"x","mesage":"y"}}` + "\n", fault.UnknownField, 1, "/error/mesage"},
		{"capitalized field", `{"Fn":"a","result":1}` + "\n", fault.UnknownField, 1, "/Fn"},
		{"duplicate field", `{"fn":"a","fn":"b","result":1}` + "\n", fault.BadJSON, 1, "/fn"},
		{"duplicate argument", `{"fn":"a","args":{"x":{"b":1,"\u0062":1}},"result":1}` + "\n", fault.BadJSON, 1, "/args"},
		{"arguments too deep", `{"fn":"a","args":{"x":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `},"result":1}` + "\n",
			fault.BadJSON, 1, "/args"},
		{"endless exponent", `{"fn":"a","args":{"x":1e` + strings.Repeat("9", 5000) + `},"result":1}` + "\n", fault.BadJSON, 1, "/args"},
		{"unknown effect", `{"fn":"a","effect":"reads","result":1}` + "\n", fault.BadRequest, 1, "/effect"},
		{"no recording: a chain", `{"steps":[{"fn":"a"}]}` + "\n", fault.UnknownField, 1, "/steps"},
		{"no recording: a chain on many lines", "{\n\"steps\":[{\"fn\":\"a\"}]}", fault.BadJSON, 1, ""},
		{"no recording: YAML", "steps:\n  - fn: a", fault.BadJSON, 1, ""},
		{"no recording: one line of YAML", "steps: []", fault.BadJSON, 1, ""},
		{"later line", "\n \r\n" + good + "\n" + "x\n", fault.BadJSON, 5, ""},
	}
	for _, test := range tests {
		_, err := replay.Read(strings.NewReader(test.text), "calls.jsonl")
		f, ok := fault.As(err)
		if !ok || f.Code != test.code || f.Line != test.line || f.At != test.at {
			t.Errorf("%s: %v at line %d, %q; want %s at line %d, %q", test.name, err, f.Line, f.At, test.code, test.line, test.at)
			continue
		}
		if !strings.HasPrefix(f.Message, "calls.jsonl line ") {
			t.Errorf("%s: the message lacks the file and line: %s", test.name, f.Message)
		}
		if hint := strings.Contains(f.Message, "holds no recording: onecall run CHAIN --record FILE makes one"); !hint &&
			strings.HasPrefix(test.name, "no recording") || hint && strings.Contains(test.text, `{"fn":"a.b"`) {
			t.Errorf("%s: %s, has the hint: %t", test.name, f.Message, hint)
		}
		if cut := strings.Contains(f.Message, "not written to its end"); cut != (test.name == "truncated") {
			t.Errorf("%s: %s, want not written to its end: %t", test.name, f.Message, !cut)
		}
	}
}

func TestReadErrors(t *testing.T) {
	t.Parallel()
	broken := io.MultiReader(strings.NewReader("{\"fn\":\"a\",\"result\":1}\n{\"f"), iotest.ErrReader(errors.New("disk on fire")))
	if _, err := replay.Read(broken, "x"); fault.CodeOf(err) != fault.BadRequest || !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("got %v, want bad_request: disk on fire", err)
	}
	for _, path := range []string{filepath.Join(t.TempDir(), "missing"), t.TempDir()} {
		if _, err := replay.Open(path); fault.CodeOf(err) != fault.BadRequest {
			t.Errorf("%s: %v, want bad_request", path, err)
		}
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "calls.jsonl")
	if err := os.WriteFile(path, []byte(`{"fn":"a","result":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := replay.Open(path)
	if err != nil || mustRegistry(t, c, baseRegistry(t)).Len() != 1 {
		t.Errorf("got %v, %v, want one function", c, err)
	}
	if c, err = replay.Read(strings.NewReader(""), "empty"); err != nil || mustRegistry(t, c, baseRegistry(t)).Len() != 0 {
		t.Errorf("an empty recording cannot be used: %v", err)
	}
}

func TestMostDangerousEffectCounts(t *testing.T) {
	t.Parallel()
	for effects, want := range map[string]steps.Effect{"": steps.Write, "read": steps.Read, "read read": steps.Read, "read write": steps.Write,
		"write read": steps.Write, "destroy read": steps.Destroy, "write destroy": steps.Destroy} {
		text := `{"fn":"a","result":1}` + "\n"
		for _, effect := range strings.Fields(effects) {
			text += `{"fn":"a","result":1,"effect":"` + effect + `"}` + "\n"
		}
		_, registry := load(t, baseRegistry(t), text)
		if got := registry.All()[0].Spec(); got.Effect != want || got.EffectDeclared != (effects != "") {
			t.Errorf("effects %q: got %v, declared %v, want %v", effects, got.Effect, got.EffectDeclared, want)
		}
	}
}
