package steps

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/onecall-mcp/onecall/fault"
)

// fakeSource is a live source that a test controls. It holds its lock while it notifies of a change, as a careless source might.
type fakeSource struct {
	mu      sync.Mutex
	name    string
	tools   []string
	status  Status
	changed func()
	closed  int
}

func (f *fakeSource) Functions() []Function {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []Function
	for _, tool := range f.tools {
		list = append(list, Function{Spec: Spec{Name: f.name + "." + tool, Input: json.RawMessage(`{"type":"object"}`)}, Call: echo})
	}
	return list
}

func (f *fakeSource) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

func (f *fakeSource) Watch(changed func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed = changed
}

func (f *fakeSource) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed++
	return nil
}

func (f *fakeSource) become(state State, cause *fault.Error, tools ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status, f.tools = Status{State: state, Error: cause}, tools
	f.changed()
}

func names(r *Registry) string {
	var list []string
	for _, entry := range r.All() {
		list = append(list, entry.Spec().Name)
	}
	return strings.Join(list, " ")
}

func newCatalog(t *testing.T, o *CatalogOptions, sources ...*fakeSource) (*Catalog, *[]string) {
	t.Helper()
	var warnings []string
	if o == nil {
		o = &CatalogOptions{}
	}
	o.Registry.Warn = func(f *fault.Error) { warnings = append(warnings, f.Message) }
	c, err := NewCatalog(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sources {
		if err := c.Add(s.name, s); err != nil {
			t.Fatal(err)
		}
	}
	return c, &warnings
}

func TestCatalogNameClash(t *testing.T) {
	t.Parallel()
	a := &fakeSource{name: "a", tools: []string{"one", "same", "same", "bad name"}}
	b := &fakeSource{name: "b", tools: []string{"two", "hidden"}}
	settings := mustSettings(t, Setting{Pattern: "b.two", Rename: ptr("a.one")}, Setting{Pattern: "b.hidden", Hide: ptr(true)})
	c, warnings := newCatalog(t, &CatalogOptions{Settings: settings}, a, b)
	if got := names(c.Registry()); got != "a.one a.same" {
		t.Errorf("got functions %s, want a.one a.same", got)
	}
	if len(*warnings) != 3 {
		t.Errorf("got warnings %q, want 3", *warnings)
	}
	b.become(StateReady, nil, "two", "hidden")
	if c.Registry(); len(*warnings) != 3 {
		t.Errorf("warned again: %q, want 3 as before", *warnings)
	}
	// The name moves to the other source when its function disappears, and back to the first when it returns.
	a.become(StateReady, nil)
	if infos := c.Sources(); names(c.Registry()) != "a.one" || !infos[1].Functions["a.one"] {
		t.Errorf("the name did not move to b: got functions %s, sources %v", names(c.Registry()), infos)
	}
	a.become(StateReady, nil, "one")
	if infos := c.Sources(); names(c.Registry()) != "a.one" || !infos[0].Functions["a.one"] || len(infos[1].Functions) > 0 {
		t.Errorf("the name did not move back to a: got functions %s, sources %v", names(c.Registry()), infos)
	}
	if err := c.Add("A", a); fault.CodeOf(err) != fault.BadRequest {
		t.Errorf("Add of a second source named A: got %v, want bad_request", err)
	}
}

func TestAwaitAllSources(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sources []*fakeSource
		for i := range 3 {
			sources = append(sources, &fakeSource{name: fmt.Sprint("s", i), status: Status{State: StateStarting}})
		}
		c, _ := newCatalog(t, nil, sources...)
		returned := make(chan struct{})
		go func() {
			Await(t.Context(), c, nil)
			close(returned)
		}()
		for i, s := range sources {
			synctest.Wait()
			select {
			case <-returned:
				t.Fatalf("Await returned while %d sources were starting", len(sources)-i)
			default:
			}
			s.become([]State{StateReady, StateFailed, StateIdle}[i], nil)
		}
		<-returned
		sources[0].become(StateStarting, nil)
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		Await(cancelled, c, nil)
		if got := Await(t.Context(), c, func(*Registry) bool { return true }); got != c.Registry() {
			t.Error("Await did not return the current registry")
		}
	})
}

// TestAwaitIncludesLateSource: the result includes a source that becomes ready while the done callback runs.
func TestAwaitIncludesLateSource(t *testing.T) {
	t.Parallel()
	late, never := &fakeSource{name: "late", status: Status{State: StateStarting}}, &fakeSource{name: "never", status: Status{State: StateStarting}}
	c, _ := newCatalog(t, nil, late, never)
	got := Await(t.Context(), c, func(now *Registry) bool {
		late.become(StateReady, nil, "one")
		return now.HasName("late.one") || !Pending(c, "late.one")
	})
	if !got.HasName("late.one") {
		t.Errorf("got functions %q, want late.one", names(got))
	}
}

// TestCatalogUnderLoad changes sources while other goroutines read.
func TestCatalogUnderLoad(t *testing.T) {
	t.Parallel()
	var sources []*fakeSource
	for i := range 4 {
		sources = append(sources, &fakeSource{name: fmt.Sprint("s", i), status: Status{State: StateReady}})
	}
	c, _ := newCatalog(t, nil, sources...)
	var work sync.WaitGroup
	for i, s := range sources {
		work.Go(func() {
			for n := range 50 {
				s.become(StateReady, nil, fmt.Sprint("tool", n%3), "always")
				if _, err := c.Registry().Resolve(fmt.Sprintf("s%d.always", i)); err != nil {
					t.Error(err)
				}
				c.Starting()
				Unavailable(c, "s1.x")
			}
		})
	}
	work.Wait()
	if got := c.Registry().Len(); got != 8 {
		t.Errorf("got %d functions, want 8: %s", got, names(c.Registry()))
	}
}
