package replay

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

func TestReadAccepts(t *testing.T) {
	t.Parallel()
	text := "\ufeff{ \"fn\": \"a.b\", \"args\": {\"x\": 1.10}, \"result\": [1, 717897987691852588770249], \"effect\": \"read\" }\r\n" +
		"\n" +
		`{"fn":"a.b","error":{"code":"timeout","message":"late"},"effect":"read","chain":"one"}` + "\n" +
		`{"result":null,"args":{},"fn":"c"}`
	// The smallest pieces show whether lines are joined correctly.
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
			t.Errorf("%s: lines (-want +got):\n%s", name, diff)
		}
	}
}

// linesOf writes a cassette again, by function, each line with its function's effect.
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
		t.Fatalf("a line of 1 MiB is not read unchanged: %v", err)
	}
	lines := lineReader{in: bufio.NewReader(&byteReader{'x'}), maxLine: 1 << 20}
	if _, _, err := lines.next(); fault.CodeOf(err) != fault.LimitExceeded {
		t.Errorf("an endless line: got %v, want limit_exceeded", err)
	}
	longest := strings.Repeat("x", steps.DefaultMaxResultBytes)
	lines = lineReader{in: bufio.NewReader(strings.NewReader(longest + `{"fn":"s.f","args":{},"result":` + "\n")), maxLine: maxLine}
	if text, _, err := lines.next(); err != nil || len(text) <= len(longest) {
		t.Errorf("the line of the longest result: got %d bytes, %v, want more than %d", len(text), err, len(longest))
	}
}

type byteReader struct{ b byte }

func (r *byteReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = r.b
	}
	return len(p), nil
}

// FuzzCassette reads any text: all faults have codes, and a recording that is read, written and read again stays the same.
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
			t.Fatalf("the written recording cannot be read: %v\n%s", err, strings.Join(first, "\n"))
		}
		if diff := cmp.Diff(first, linesOf(again)); diff != "" {
			t.Fatalf("lines read again (-want +got):\n%s", diff)
		}
		for i, fn := range c.functions {
			for j, one := range fn.calls {
				if one.digest != again.functions[i].calls[j].digest {
					t.Fatalf("the digest of the arguments %s changed", one.args)
				}
			}
		}
	})
}

// TestTooLongToRecord: a line that is too long is reported when it is recorded, not when it is read, and only that line is lost.
func TestTooLongToRecord(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	recorder := NewRecorder(&file, nil)
	recorder.maxLine = 100
	recorder.Observe(t.Context(), &steps.Spec{Name: "s.f"}, []byte(`{}`), []byte(`"`+strings.Repeat("x", 100)+`"`), nil)
	if fault.CodeOf(recorder.Err()) != fault.LimitExceeded || file.Len() > 0 {
		t.Errorf("too long a line: got %v, %d bytes written, want limit_exceeded and none", recorder.Err(), file.Len())
	}
	recorder.Observe(t.Context(), &steps.Spec{Name: "s.f"}, []byte(`{}`), []byte(`1`), nil)
	if err := recorder.Failing(); err != nil || recorder.Lost() != 1 ||
		!strings.HasSuffix(file.String(), "{\"gap\":1}\n{\"fn\":\"s.f\",\"args\":{},\"result\":1}\n") {
		t.Errorf("after the lost line: %v, %d lost, file %s, want 1 lost, and a gap of 1 before the next", err, recorder.Lost(), file.String())
	}
}
