package shape

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/steps"
)

// TestBrokenFile: a broken file causes a warning, and is written again.
func TestBrokenFile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", `{"version":2,"salt":"AAAA","shapes":{}}`, `[1]`,
		`{"version":1,"salt":"AAAA","shapes":{"a":{"schema":17}},"more":"` + strings.Repeat("x", maxFile) + `"}`} {
		path := filepath.Join(t.TempDir(), "shapes.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var warnings []*fault.Error
		s := Open(&Options{Path: path, Warn: func(f *fault.Error) { warnings = append(warnings, f) }})
		call(t, learningRegistry(t, s, "here", answering("s.list", page)), "s.list", "", 5)
		s.Close()
		if len(warnings) != 1 || warnings[0].Code != fault.Unavailable {
			t.Errorf("file %.20q: got warnings %v, want one", text, warnings)
		}
		s = Open(&Options{Path: path, Warn: func(f *fault.Error) { t.Error(f) }})
		if got := learningRegistry(t, s, "here", answering("s.list", page)).All()[0].Signature(); got != pageSignature {
			t.Errorf("file %.20q: got shape %s, want %s", text, got, pageSignature)
		}
	}
}

// TestSaveWithoutClose: new data is written after a while, even without Close.
func TestSaveWithoutClose(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shapes.json")
	synctest.Test(t, func(t *testing.T) {
		s := Open(&Options{Path: path})
		call(t, learningRegistry(t, s, "here", answering("s.list", page)), "s.list", "", 5)
		time.Sleep(saveAfter)
		synctest.Wait()
	})
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "title") {
		t.Errorf("the shape was not written: %v: %s, want title", err, text)
	}
}

// TestCloseWaits: Close waits for a running save.
func TestCloseWaits(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shapes.json")
	unlock, err := lockedfile.MutexAt(path + ".lock").Lock()
	if err != nil {
		t.Fatal(err)
	}
	s := Open(&Options{Path: path})
	call(t, learningRegistry(t, s, "here", answering("s.list", page)), "s.list", "", 5)
	isScheduled := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.timer != nil
	}
	s.mu.Lock()
	s.timer.Reset(0)
	s.mu.Unlock()
	polltest.Until(t, "the save begins", func() bool { return !isScheduled() })
	closed := make(chan struct{})
	go func() {
		_ = s.Close()
		close(closed)
	}()
	polltest.Until(t, "Close waits", func() bool {
		select {
		case <-closed:
			t.Error("Close returned during a save")
			return true
		default:
			return blockedInClose()
		}
	})
	unlock()
	<-closed
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "title") {
		t.Errorf("the shape was not written: %v: %s, want title", err, text)
	}
}

// blockedInClose reports whether a goroutine in Close waits for another goroutine's save.
func blockedInClose() bool {
	stacks := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(stack, "[sync.Mutex.Lock") && strings.Contains(stack, ".(*Store).Close(") {
			return true
		}
	}
	return false
}

// TestManyFunctions: a file has at most maxFunctions functions.
func TestManyFunctions(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shapes.json")
	for n := range 2 {
		s := Open(&Options{Path: path})
		for i := range maxFunctions {
			call(t, learningRegistry(t, s, "here", answering("s."+word(n*1000+i), "1")), "s."+word(n*1000+i), "", 1)
		}
		if entry := call(t, learningRegistry(t, s, "here", answering("s.more", page)), "s.more", "", 5); entry.ResultShape() != nil {
			t.Error("the store has more than maxFunctions functions")
		}
		s.Close()
	}
	if form, f := readContent(path); f != nil || len(form.Shapes) != maxFunctions {
		t.Errorf("got %v, %d functions in the file, want %d", f, len(form.Shapes), maxFunctions)
	}
}

// BenchmarkCall calls a function whose shape is known, and reads a larger result for the first time.
func BenchmarkCall(b *testing.B) {
	large := `{"items":[` + strings.Repeat(page+`,`, 1000) + page + `]}`
	for name, result := range map[string]string{"small": page, "large": large, "escaped": escapedText(maxBytes)} {
		b.Run(name, func(b *testing.B) {
			plain, err := steps.NewRegistry([]steps.Function{answering("s.list", result)}, nil)
			if err != nil {
				b.Fatal(err)
			}
			s := Open(nil)
			for arm, r := range map[string]*steps.Registry{"without": plain, "with": learningRegistry(b, s, "here", answering("s.list", result))} {
				entry := call(b, r, "s.list", "", 5)
				b.Run(arm, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						if _, err := entry.Call(b.Context(), []byte("{}")); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		})
		b.Run(name+"/infer", func(b *testing.B) {
			b.SetBytes(int64(len(result)))
			b.ReportAllocs()
			for b.Loop() {
				infer([]byte(result))
			}
		})
	}
}
