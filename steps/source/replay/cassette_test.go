package replay

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
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
		{"half written", good + `{"fn":"a.b","args":{"x`, fault.BadJSON, 2, ""},
		{"not UTF-8", "{\"fn\":\"a\xff\",\"args\":{},\"result\":1}\n", fault.BadJSON, 1, ""},
		{"too deep", `{"fn":"a","result":` + strings.Repeat("[", 20_000) + "\n", fault.BadJSON, 1, ""},
		{"two values on a line", `{"fn":"a","result":1} {"fn":"a","result":1}` + "\n", fault.BadJSON, 1, ""},
		{"not an object", "[]\n", fault.BadRequest, 1, ""},
		{"no fn", `{"args":{},"result":1}` + "\n", fault.BadRequest, 1, ""},
		{"empty fn", `{"fn":"","result":1}` + "\n", fault.BadRequest, 1, "/fn"},
		{"fn is no string", `{"fn":1,"result":1}` + "\n", fault.BadRequest, 1, "/fn"},
		{"args is no object", `{"fn":"a","args":[],"result":1}` + "\n", fault.BadRequest, 1, "/args"},
		{"neither result nor error", `{"fn":"a"}` + "\n", fault.BadRequest, 1, ""},
		{"result and error", `{"fn":"a","result":1,"error":{"code":"x"}}` + "\n", fault.BadRequest, 1, ""},
		{"error is no object", `{"fn":"a","error":"x"}` + "\n", fault.BadRequest, 1, "/error"},
		{"error without code", `{"fn":"a","error":{"message":"x"}}` + "\n", fault.BadRequest, 1, "/error"},
		{"unknown field", `{"fn":"a","resutl":1}` + "\n", fault.UnknownField, 1, "/resutl"},
		{"unknown field of the error", `{"fn":"a","error":{"code":"x","mesage":"y"}}` + "\n", fault.UnknownField, 1, "/error/mesage"},
		{"field in capitals", `{"Fn":"a","result":1}` + "\n", fault.UnknownField, 1, "/Fn"},
		{"field twice", `{"fn":"a","fn":"b","result":1}` + "\n", fault.BadJSON, 1, "/fn"},
		{"argument twice", `{"fn":"a","args":{"x":{"b":1,"\u0062":1}},"result":1}` + "\n", fault.BadJSON, 1, "/args"},
		{"arguments too deep", `{"fn":"a","args":{"x":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `},"result":1}` + "\n",
			fault.BadJSON, 1, "/args"},
		{"endless exponent", `{"fn":"a","args":{"x":1e` + strings.Repeat("9", 5000) + `},"result":1}` + "\n", fault.BadJSON, 1, "/args"},
		{"unknown effect", `{"fn":"a","effect":"reads","result":1}` + "\n", fault.BadRequest, 1, "/effect"},
		{"later line", "\n \r\n" + good + "\n" + "x\n", fault.BadJSON, 5, ""},
	}
	for _, test := range tests {
		_, err := Read(strings.NewReader(test.text), "calls.jsonl")
		f, ok := fault.As(err)
		if !ok || f.Code != test.code || f.Line != test.line || f.At != test.at {
			t.Errorf("%s: %v at line %d, %q; want %s at line %d, %q", test.name, err, f.Line, f.At, test.code, test.line, test.at)
			continue
		}
		if !strings.HasPrefix(f.Message, "calls.jsonl line ") {
			t.Errorf("%s: the message does not name the file and line: %s", test.name, f.Message)
		}
		if cut := strings.Contains(f.Message, "not written to its end"); cut != (test.name == "half written") {
			t.Errorf("%s: %s", test.name, f.Message)
		}
	}
}

func TestReadAccepts(t *testing.T) {
	t.Parallel()
	text := "\ufeff{ \"fn\": \"a.b\", \"args\": {\"x\": 1.10}, \"result\": [1, 717897987691852588770249], \"effect\": \"read\" }\r\n" +
		"\n" +
		`{"fn":"a.b","error":{"code":"timeout","message":"late"},"effect":"read","chain":"one"}` + "\n" +
		`{"result":null,"args":{},"fn":"c"}`
	// The smallest portions show whether lines are put together well.
	for name, r := range map[string]io.Reader{"whole": strings.NewReader(text),
		"byte by byte": iotest.OneByteReader(strings.NewReader(text))} {
		c, err := Read(r, "calls.jsonl")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := linesOf(c)
		want := []string{
			`{"fn":"a.b","args":{"x":1.10},"result":[1,717897987691852588770249],"effect":"read"}`,
			`{"fn":"a.b","args":{},"error":{"code":"timeout","message":"late"},"effect":"read","chain":"one"}`,
			`{"fn":"c","args":{},"result":null}`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// linesOf writes a cassette again, function by function, each line with its function's effect.
func linesOf(c *Cassette) []string {
	var lines []string
	for _, fn := range c.functions {
		for _, one := range fn.calls {
			l := line{Fn: fn.name, Args: one.args, Result: one.result, Chain: one.chain}
			if fn.declared {
				l.Effect = fn.effect.String()
			}
			if one.err != nil {
				l.Error = &failure{Code: string(one.err.Code), Message: one.err.Message}
			}
			text, err := l.encode()
			if err != nil {
				panic(err)
			}
			lines = append(lines, strings.TrimSuffix(string(text), "\n"))
		}
	}
	return lines
}

func TestReadLongLines(t *testing.T) {
	t.Parallel()
	long := `{"fn":"a","args":{},"result":"` + strings.Repeat("x", 1<<20) + `"}`
	c, err := Read(strings.NewReader(long+"\n"+long), "long")
	if err != nil || len(linesOf(c)) != 2 || linesOf(c)[1] != long {
		t.Fatalf("a line of 1 MiB: %v", err)
	}
	lines := lineReader{in: bufio.NewReader(&repeated{'x'}), maxLine: 1 << 20}
	if _, _, err := lines.next(); fault.CodeOf(err) != fault.LimitExceeded {
		t.Errorf("an endless line: %v", err)
	}
	longest := strings.Repeat("x", steps.DefaultMaxResultBytes)
	lines = lineReader{in: bufio.NewReader(strings.NewReader(longest + `{"fn":"s.f","args":{},"result":` + "\n")), maxLine: maxLine}
	if text, _, err := lines.next(); err != nil || len(text) <= len(longest) {
		t.Errorf("a line with the longest result: %d bytes, %v", len(text), err)
	}
}

type repeated struct{ b byte }

func (r *repeated) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = r.b
	}
	return len(p), nil
}

func TestReadErrors(t *testing.T) {
	t.Parallel()
	broken := io.MultiReader(strings.NewReader("{\"fn\":\"a\",\"result\":1}\n{\"f"), iotest.ErrReader(errors.New("disk on fire")))
	if _, err := Read(broken, "x"); fault.CodeOf(err) != fault.BadRequest || !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("got %v", err)
	}
	for _, path := range []string{filepath.Join(t.TempDir(), "missing"), t.TempDir()} {
		if _, err := Open(path); fault.CodeOf(err) != fault.BadRequest {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "calls.jsonl")
	if err := os.WriteFile(path, []byte(`{"fn":"a","result":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Open(path)
	if err != nil || len(c.functions) != 1 {
		t.Errorf("%v, %v", c, err)
	}
	if c, err = Read(strings.NewReader(""), "empty"); err != nil || len(c.functions) != 0 {
		t.Errorf("an empty recording: %v", err)
	}
}

func TestGravestEffectCounts(t *testing.T) {
	t.Parallel()
	for effects, want := range map[string]steps.Effect{"": steps.Write, "read": steps.Read, "read read": steps.Read, "read write": steps.Write,
		"write read": steps.Write, "destroy read": steps.Destroy, "write destroy": steps.Destroy} {
		text := `{"fn":"a","result":1}` + "\n"
		for _, effect := range strings.Fields(effects) {
			text += `{"fn":"a","result":1,"effect":"` + effect + `"}` + "\n"
		}
		c, err := Read(strings.NewReader(text), "x")
		if err != nil {
			t.Fatal(err)
		}
		if got := c.functions[0]; got.effect != want || got.declared != (effects != "") {
			t.Errorf("%q: %v, declared %v", effects, got.effect, got.declared)
		}
	}
}

// FuzzCassette reads anything: only coded faults, and what is read and written again reads the same.
func FuzzCassette(f *testing.F) {
	for _, text := range []string{
		`{"fn":"a.b","args":{"x":[1,{"y":"\u00e9"}]},"result":{"z":1.10,"a":null}}` + "\n",
		`{"fn":"a","error":{"code":"timeout","message":"m"},"effect":"read","chain":"c"}`,
		"\ufeff\n{\"fn\":\"a\",\"result\":1e400}\n\n{\"fn\":\"a/b\",\"args\":{\"\":-0.0},\"result\":\"\\ud800\"}",
		`{"fn":"a","args":{"x":1e999999999999999999999999},"result":""}`,
		`{"fn":"a","args":{"x`, `{"fn":"a","fn":"b","result":1}`, `null`, "{}\r\n[]",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Read(bytes.NewReader(text), "fuzz")
		if err != nil {
			if _, ok := fault.As(err); !ok {
				t.Fatalf("an error without a code: %v", err)
			}
			return
		}
		first := linesOf(c)
		again, err := Read(strings.NewReader(strings.Join(first, "\n")), "again")
		if err != nil {
			t.Fatalf("what was read does not read again: %v\n%s", err, strings.Join(first, "\n"))
		}
		if diff := cmp.Diff(first, linesOf(again)); diff != "" {
			t.Fatal(diff)
		}
		for i, fn := range c.functions {
			for j, one := range fn.calls {
				if one.digest != again.functions[i].calls[j].digest {
					t.Fatalf("the arguments %s do not equal themselves", one.args)
				}
			}
		}
	})
}
