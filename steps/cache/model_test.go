package cache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// toy is a source whose answers depend on everything that was written to it.
type toy struct {
	mu      sync.Mutex
	written map[string]int // by resource: how often it was written
}

var toyResources = []string{"repo", "repo.issue", "file"}

// functions returns the toy's functions under a source name. A write does its work, and then fails as its argument says.
func (s *toy) functions(source string) (fns []steps.Function) {
	for _, name := range toyResources {
		fns = append(fns, steps.Function{Spec: steps.Spec{Name: source + "." + name + ".get", Effect: steps.Read, CacheTTL: time.Hour},
			Call: func(context.Context, []byte) ([]byte, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				return json.Marshal(s.written)
			}}, steps.Function{Spec: steps.Spec{Name: source + "." + name + ".set"},
			Call: func(_ context.Context, args []byte) ([]byte, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.written[name]++
				if strings.Contains(string(args), `"overwrite":true`) {
					return nil, errors.New("failed half way")
				}
				return []byte("true"), nil
			}})
	}
	return fns
}

// TestModel: a read through the cache returns the current content, whatever was read and written before, and answers are reused.
func TestModel(t *testing.T) {
	t.Parallel()
	var cached atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		one, two := &toy{written: map[string]int{}}, &toy{written: map[string]int{}}
		fns := append(one.functions("s"), two.functions("u")...)
		direct, err := steps.NewRegistry(fns, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := New(&Options{MaxEntries: rapid.SampledFrom([]int{2, 8, 1000}).Draw(t, "entries")})
		through := c.Wrap(direct)
		ctx := steps.WithCallbacks(context.Background(), &steps.Callbacks{Cached: func() { cached.Add(1) }})
		for range rapid.IntRange(1, 200).Draw(t, "calls") {
			fn := rapid.SampledFrom(fns).Draw(t, "fn")
			args := fmt.Sprintf(`{"id":%d}`, rapid.IntRange(0, 3).Draw(t, "id"))
			if source, _, _ := strings.Cut(fn.Name, "."); fn.Effect != steps.Read {
				args = fmt.Sprintf(`{"overwrite":%t}`, rapid.Bool().Draw(t, "fails"))
				if rapid.IntRange(0, 9).Draw(t, "flush") == 0 {
					c.Flush(source)
				}
			}
			got, err := tryCall(ctx, through, fn.Name, args)
			if err != nil && fault.CodeOf(err) != fault.FunctionFailed {
				t.Fatal(err)
			}
			if fn.Effect != steps.Read {
				continue
			}
			if want, err := tryCall(ctx, direct, fn.Name, args); err != nil || got != want {
				t.Fatalf("%s %s gives %s, the store has %s, %v", fn.Name, args, got, want, err)
			}
		}
	})
	if cached.Load() == 0 {
		t.Error("no call was answered from the cache")
	}
}
