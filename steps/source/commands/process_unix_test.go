//go:build unix

package commands_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/commands"
)

// ending is a context that ends when it is told to.
type ending struct {
	context.Context
	done chan struct{}
	err  error
}

func (c *ending) Done() <-chan struct{} { return c.done }

func (c *ending) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// callUntil makes a call that ends as err once the program has written a file.
func callUntil(t *testing.T, s *commands.Source, file string, err error) *fault.Error {
	t.Helper()
	ctx := &ending{t.Context(), make(chan struct{}), err}
	failed := make(chan error, 1)
	go func() {
		_, err := s.Functions()[0].Call(ctx, []byte(`{}`))
		failed <- err
	}()
	polltest.Until(t, "the program has told that it runs", func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
	close(ctx.done)
	f, _ := fault.As(<-failed)
	if f == nil {
		t.Fatal("the call that was ended did not fail")
	}
	return f
}

// TestStubborn: a program that ignores signals is killed when its time is over, and what it said until then is told.
func TestStubborn(t *testing.T) {
	t.Parallel()
	for effect, outcome := range map[string]fault.Outcome{"read": "", "write": fault.SentUnknown} {
		for end, code := range map[error]fault.Code{context.DeadlineExceeded: fault.Timeout, context.Canceled: fault.Cancelled,
			&fault.Error{Code: fault.LimitExceeded, Message: "the budget is used up", Err: context.Canceled}: fault.LimitExceeded} {
			file := filepath.Join(t.TempDir(), "ready")
			s := open(t, t.TempDir(), with(self(t, "x", "stubborn", file), func(c *commands.Command) { c.Effect = effect }))
			f := callUntil(t, s, file, end)
			if r := decode(t, f.Body); f.Code != code || r.Exit != -1 || r.Signal != "killed" || r.text(t) != "ready\n" {
				t.Errorf("got %v, and the program left %s, want %s, and that it was killed", f, f.Body, code)
			}
			if errors.Is(f, context.DeadlineExceeded) || errors.Is(f, context.Canceled) {
				t.Errorf("%v is caused by the end of the context, which replaces it", f)
			}
			if f.Outcome != outcome {
				t.Errorf("%s of a function that is %s: outcome %q, want %q", code, effect, f.Outcome, outcome)
			}
		}
	}
}

// TestFork: what a program started ends with it, whether it ends by itself or is stopped.
func TestFork(t *testing.T) {
	t.Parallel()
	for _, stopped := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "child")
		arguments := []string{file}
		if stopped {
			arguments = append(arguments, "wait")
		}
		s := open(t, t.TempDir(), self(t, "x", "fork", arguments...))
		if stopped {
			callUntil(t, s, file, context.Canceled)
		} else {
			do(t, s, "sh.x", `{}`)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		child, err := strconv.Atoi(string(text))
		if err != nil {
			t.Fatal(err)
		}
		polltest.Until(t, "the child has ended", func() bool { return gone(child) })
	}
}

// gone reports whether a process has ended. One that nobody waited for is a zombie.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !alive(pid)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z") || strings.HasPrefix(after, "X")
}

// TestFlood: of a GiB, the beginning and the last lines are kept, and the rest is told.
func TestFlood(t *testing.T) {
	t.Parallel()
	const size, kept = 1 << 30, 1 << 20
	s := open(t, t.TempDir(), with(self(t, "x", "flood", strconv.Itoa(size)), func(c *commands.Command) { c.MaxOutputBytes = kept }))
	r := do(t, s, "sh.x", `{}`)
	const last = "error: the flood is over"
	if r.Lines != size/1024+1 || r.OmittedBytes.Stdout != size+int64(len(last))+1-kept {
		t.Errorf("%d lines, and %d bytes are left out", r.Lines, r.OmittedBytes.Stdout)
	}
	if len(r.text(t)) != kept || r.Tail[len(r.Tail)-1] != last || r.ErrorCount != 1 || r.Errors[0].Text != last {
		t.Errorf("kept %d bytes; the end is %q, errors %v", len(r.text(t)), r.Tail, r.Errors)
	}
}

// TestFIFO: a working folder that is none, and would make who opens it wait.
func TestFIFO(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(root, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, root, with(self(t, "x", "args"), func(c *commands.Command) { c.Dir = "fifo" }))
	mustFail(t, s, "sh.x", `{}`, fault.FunctionFailed)
}

// TestCut: nothing of an output is lost without being told, wherever it is cut.
func TestCut(t *testing.T) {
	t.Parallel()
	const text = "äöü\n€€\nlast ✓"
	for limit := int64(1); limit <= int64(len(text)+1); limit++ {
		s := open(t, t.TempDir(), with(self(t, "x", "say", text, "", "0"), func(c *commands.Command) { c.MaxOutputBytes = limit }))
		r := do(t, s, "sh.x", `{}`)
		kept := r.text(t)
		if !strings.HasPrefix(text, kept) || r.OmittedBytes.Stdout != int64(len(text)-len(kept)) || r.Lines != 3 || r.InvalidUTF8 {
			t.Errorf("limit %d: kept %q, %d bytes left out, %d lines", limit, kept, r.OmittedBytes.Stdout, r.Lines)
		}
		if cut := kept != text; cut && (len(r.Tail) == 0 || r.Tail[len(r.Tail)-1] != "last ✓") {
			t.Errorf("limit %d: the last lines are %q", limit, r.Tail)
		}
	}
}

// TestInvalidUTF8: bytes that are no text are replaced, and the result says so.
func TestInvalidUTF8(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), self(t, "x", "say", "caf\xe9", "", "0"))
	if r := do(t, s, "sh.x", `{}`); !r.InvalidUTF8 || r.text(t) != "caf\ufffd" {
		t.Errorf("got %q, and invalidUTF8 is %v", r.text(t), r.InvalidUTF8)
	}
}

// TestLargeFailure: the error of a failure has the lines that matter, and the token of the whole result.
func TestLargeFailure(t *testing.T) {
	t.Parallel()
	out := strings.Repeat("working\n", 2000) + "error: no space\nthe end\n"
	s := open(t, t.TempDir(), self(t, "x", "say", out, "", "3"))
	var whole []byte
	ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{Keep: func(_ context.Context, value []byte) (string, error) {
		whole = slices.Clone(value)
		return "r1", nil
	}})
	_, err := function(t, s, "sh.x").Call(ctx, []byte(`{}`))
	f, _ := fault.As(err)
	if f == nil || f.Code != fault.FunctionFailed || !strings.Contains(f.Message, "error: no space") {
		t.Fatalf("got %v", err)
	}
	r := decode(t, f.Body)
	if r.Token != "r1" || r.Stdout != nil || r.Lines != 2002 || r.Errors[0].Text != "error: no space" || r.Tail[9] != "the end" {
		t.Errorf("the body is %s", f.Body)
	}
	if kept := decode(t, whole); kept.text(t) != out || kept.Exit != 3 {
		t.Errorf("kept %.300s", whole)
	}
	ctx = steps.WithCallbacks(t.Context(), &steps.Callbacks{Keep: func(context.Context, []byte) (string, error) {
		return "", errors.New("the store is full")
	}})
	_, err = function(t, s, "sh.x").Call(ctx, []byte(`{}`))
	if f, _ := fault.As(err); f == nil || decode(t, f.Body).Token != "" || len(f.Body) > 4<<10 {
		t.Errorf("without a store: %v", err)
	}
}

// TestWords: every text reaches the program as the one argument that it is.
func TestWords(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), with(self(t, "x", "args", "--list={list}", "--", "{rest}"), func(c *commands.Command) {
		list := `={"type":"array","items":{"type":"string"}}`
		c.Args = schemas("list"+list, "rest"+list)
	}))
	call := function(t, s, "sh.x").Call
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[^\x00\-][^\x00]{0,20}|`)
		list, rest := rapid.SliceOfN(word, 0, 3).Draw(t, "list"), rapid.SliceOfN(rapid.StringMatching(`[^\x00]{0,20}`), 0, 3).Draw(t, "rest")
		args, err := json.Marshal(map[string][]string{"list": append([]string{}, list...), "rest": append([]string{}, rest...)})
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := call(context.Background(), args)
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Stdout []string }
		if err := json.Unmarshal(encoded, &got); err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, one := range list {
			want = append(want, "--list="+one)
		}
		if want = append(append(want, "--"), rest...); !slices.Equal(got.Stdout, want) {
			t.Fatalf("the program got %q, want %q", got.Stdout, want)
		}
	})
}
