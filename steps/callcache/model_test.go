package callcache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// toy is a source whose answers depend on as much as the documented rules allow: a read of a resource on all related ones
// and on all files; a read of a path on all that lies within it, on what it lies in, and on all resources; any other on all.
type toy struct {
	mu        sync.Mutex
	resources map[string]int // by name: how often it was written
	files     map[string]int
	rest      int
}

var toyResources = []string{"repo", "repo.issue", "repo.issue.comment", "repo.pull", "issue", "org.team", "org"}

var toyPaths = []string{"/a", "/a/b", "/a/b/c.txt", "/a/d.txt", "/e", "/e/f.txt", "/"}

func resourcesDepend(a, b string) bool {
	last := func(s string) string { return s[strings.LastIndexByte(s, '.')+1:] }
	return slices.Contains(strings.Split(a, "."), last(b)) || slices.Contains(strings.Split(b, "."), last(a))
}

func pathsDepend(a, b string) bool { return within(a, b) || within(b, a) }

func newToy() *toy {
	s := &toy{resources: map[string]int{}, files: map[string]int{}}
	for _, name := range toyResources {
		s.resources[name] = 0
	}
	for _, name := range toyPaths {
		s.files[name] = 0
	}
	return s
}

// view is what a read answers: resource and path are "" where it has none.
func (s *toy) view(resource, path string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[string]int{"rest": s.rest}
	for name, n := range s.resources {
		if resource == "" || resourcesDepend(name, resource) {
			seen[name] = n
		}
	}
	for name, n := range s.files {
		if path == "" || pathsDepend(name, path) {
			seen[name] = n
		}
	}
	text, err := json.Marshal(seen) // sorted
	if err != nil {
		panic(err)
	}
	return text
}

func (s *toy) change(resource, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case resource != "":
		s.resources[resource]++
	case path != "":
		s.files[path]++
	default:
		for name := range s.resources {
			s.resources[name]++
		}
		for name := range s.files {
			s.files[name]++
		}
		s.rest++
	}
}

// functions offers the toy as a source of that name. A write does its work, and fails as its argument says.
func (s *toy) functions(source string) (fns []steps.Function) {
	pathOf := func(args []byte) string {
		var given struct{ Path string }
		if err := json.Unmarshal(args, &given); err != nil {
			panic(err)
		}
		return given.Path
	}
	read := func(name, resource string) {
		fns = append(fns, steps.Function{Spec: steps.Spec{Name: source + "." + name, Effect: steps.Read, CacheTTL: time.Hour},
			Call: func(_ context.Context, args []byte) ([]byte, error) { return s.view(resource, pathOf(args)), nil }})
	}
	write := func(name, resource string) {
		fns = append(fns, steps.Function{Spec: steps.Spec{Name: source + "." + name},
			Call: func(_ context.Context, args []byte) ([]byte, error) {
				s.change(resource, pathOf(args))
				if strings.Contains(string(args), `"overwrite":true`) {
					return nil, errors.New("failed half way")
				}
				return []byte("true"), nil
			}})
	}
	for _, name := range toyResources {
		read(name+".get", name)
		write(name+".set", name)
	}
	read("read_file", "")
	write("write_file", "")
	read("list_directory", "")
	write("delete", "")
	read("summary", "")
	write("reset", "")
	return fns
}

// TestModel: a read through the cache answers what the store holds, whatever was read and written before, and answers
// are given again.
func TestModel(t *testing.T) {
	t.Parallel()
	var cached atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		fns := newToy().functions("s")
		for _, fn := range newToy().functions("u") {
			if strings.Count(fn.Name, ".") == 1 {
				fns = append(fns, fn)
			}
		}
		direct, err := steps.NewRegistry(fns, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := New(&Options{MaxEntries: rapid.SampledFrom([]int{2, 8, 1000}).Draw(t, "entries")})
		through := c.Wrap(direct)
		ctx := steps.WithAttendant(context.Background(), &steps.Attendant{Cached: func() { cached.Add(1) }})
		for range rapid.IntRange(1, 200).Draw(t, "calls") {
			fn := rapid.SampledFrom(fns).Draw(t, "fn")
			args := fmt.Sprintf(`{"id":%d}`, rapid.IntRange(0, 3).Draw(t, "id"))
			switch source, tool, _ := strings.Cut(fn.Name, "."); {
			case tool == "read_file" || tool == "write_file" || tool == "delete" || tool == "list_directory":
				args = fmt.Sprintf(`{"path":%q,"overwrite":%t}`, rapid.SampledFrom(toyPaths).Draw(t, "path"), rapid.Bool().Draw(t, "fails"))
			case tool == "reset" && rapid.IntRange(0, 9).Draw(t, "flush") == 0:
				c.Flush(source)
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
		t.Error("nothing was answered from the cache")
	}
}

// TestStress: with readers, writers and impatient callers side by side, a read that begins after a write has returned
// sees it.
func TestStress(t *testing.T) {
	t.Parallel()
	const resources, workers, rounds = 3, 8, 1500
	var held, written [resources]atomic.Int64
	var made, cached atomic.Int64
	var fns []steps.Function
	for i := range resources {
		fns = append(fns, steps.Function{Spec: steps.Spec{Name: fmt.Sprintf("s.r%d.get", i), Effect: steps.Read, CacheTTL: time.Hour},
			Call: func(ctx context.Context, _ []byte) ([]byte, error) {
				made.Add(1)
				before := rand.IntN(2) == 0
				n := held[i].Load()
				for range rand.IntN(20) {
					runtime.Gosched()
				}
				if !before {
					n = held[i].Load()
				}
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				return fmt.Appendf(nil, "%d", n), nil
			}}, steps.Function{Spec: steps.Spec{Name: fmt.Sprintf("s.r%d.set", i)},
			Call: func(context.Context, []byte) ([]byte, error) {
				n := held[i].Add(1)
				for range rand.IntN(5) {
					runtime.Gosched()
				}
				return fmt.Appendf(nil, "%d", n), nil
			}})
	}
	c := New(&Options{MaxEntries: resources - 1})
	r := wrapped(t, c, fns...)
	ctx := steps.WithAttendant(t.Context(), &steps.Attendant{Cached: func() { cached.Add(1) }})
	work := func(ctx context.Context) {
		i := rand.IntN(resources)
		if rand.IntN(12) == 0 {
			var n int64
			if _, err := fmt.Sscan(call(t, r, fmt.Sprintf("s.r%d.set", i), "{}"), &n); err != nil {
				t.Error(err)
			}
			for seen := written[i].Load(); seen < n && !written[i].CompareAndSwap(seen, n); seen = written[i].Load() {
			}
			return
		}
		least := written[i].Load()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if rand.IntN(6) == 0 {
			go cancel()
		}
		got, err := tryCall(ctx, r, fmt.Sprintf("s.r%d.get", i), "{}")
		if err != nil {
			if fault.CodeOf(err) != fault.Cancelled || ctx.Err() == nil {
				t.Errorf("%v, and the own context: %v", err, ctx.Err())
			}
			return
		}
		var n int64
		if _, err := fmt.Sscan(got, &n); err != nil || n < least {
			t.Errorf("a read gives %s, %v; a write had returned with %d", got, err, least)
		}
	}
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range rounds {
				work(ctx)
			}
		})
	}
	all.Wait()
	if made.Load() == 0 || cached.Load() == 0 {
		t.Errorf("%d calls were made, %d answered from the cache", made.Load(), cached.Load())
	}
	for range 1000 { // cancelled flights land soon
		c.mu.Lock()
		left := len(c.flights)
		c.mu.Unlock()
		if left == 0 {
			break
		}
		runtime.Gosched()
	}
	holds(t, c)
	t.Logf("%d calls made, %d answered from the cache", made.Load(), cached.Load())
}
