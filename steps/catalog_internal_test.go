package steps

import (
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

func TestCatalogFollowsItsSources(t *testing.T) {
	t.Parallel()
	a := &fakeSource{name: "a", tools: []string{"one"}, status: Status{State: StateReady}}
	b := &fakeSource{name: "b", status: Status{State: StateStarting}}
	wraps := 0
	c, _ := newCatalog(t, &CatalogOptions{Wrap: func(r *Registry) (*Registry, error) { wraps++; return r, nil }}, a, b)
	first := c.Registry()
	if got := names(first); got != "a.one" {
		t.Fatalf("got functions %s, want a.one", got)
	}
	if c.Registry() != first || wraps != 2 {
		t.Errorf("a new registry without a change, or %d wraps, want 2", wraps)
	}
	one, _ := first.Resolve("a.one")
	starting := c.Starting()
	if starting == nil {
		t.Fatal("Starting is nil although b is starting")
	}
	for name, want := range map[string]bool{"b.two": true, "B_two": true, "a.nothing": false, "nothing": true, "c.nothing": true} {
		if Pending(c, name) != want || Pending(NewView(c, func(*Spec) bool { return true }), name) != want {
			t.Errorf("Pending(%q) = %v", name, !want)
		}
	}
	if f := Unavailable(c, "B_two"); f == nil || f.Code != fault.Unavailable || !strings.Contains(f.Message, "starting") {
		t.Errorf("Unavailable(B_two) = %v, want starting", f)
	}
	b.become(StateReady, nil, "two", "three")
	<-starting
	if c.Starting() != nil || Unavailable(c, "b.two") != nil {
		t.Error("b still counts as starting or unavailable")
	}
	second := c.Registry()
	if got := names(second); got != "a.one b.three b.two" {
		t.Errorf("got functions %s, want a.one b.three b.two", got)
	}
	if compiled, _ := second.Resolve("a.one"); compiled.compiledFunction != one.compiledFunction {
		t.Error("an unchanged function was compiled again")
	}
	if names(first) != "a.one" {
		t.Error("an earlier registry changed")
	}
	b.become(StateRetrying, fault.New(fault.Unavailable, "exit status 1"), "two")
	if got := names(c.Registry()); got != "a.one b.two" {
		t.Errorf("got functions %s, want a.one b.two", got)
	}
	if f := Unavailable(c, "b.three"); f == nil || !strings.Contains(f.Message, "exit status 1") {
		t.Errorf("Unavailable(b.three) = %v, want the cause", f)
	}
	if f := Unavailable(c, "bb.three"); f != nil {
		t.Errorf("Unavailable(bb.three) = %v, want nil", f)
	}
	if absent := absentFrom(c); len(absent) != 1 || absent[0] != "b" {
		t.Errorf("got absent sources %v, want b", absent)
	}
	infos := c.Sources()
	if len(infos) != 2 || infos[0].State != StateReady || infos[1].State != StateRetrying || !infos[1].Functions["b.two"] {
		t.Errorf("got sources %+v, want a ready and b retrying, with b.two of b", infos)
	}
	for range 2 {
		if err := c.Close(); err != nil || a.closed != 1 || b.closed != 1 {
			t.Errorf("Close: %v; closed a %d and b %d times, want once each", err, a.closed, b.closed)
		}
	}
}

// TestCatalogAfterFailedWrap: a registry that cannot be wrapped changes nothing, and the next call makes it again.
func TestCatalogAfterFailedWrap(t *testing.T) {
	t.Parallel()
	a := &fakeSource{name: "a", tools: []string{"one"}, status: Status{State: StateReady}}
	b := &fakeSource{name: "b", tools: []string{"three"}, status: Status{State: StateReady}}
	failing := false
	c, _ := newCatalog(t, &CatalogOptions{Wrap: func(r *Registry) (*Registry, error) {
		if failing {
			return nil, fault.New(fault.Unavailable, "it cannot be wrapped")
		}
		return r, nil
	}}, a, b)
	c.Registry()
	failing = true
	a.become(StateReady, nil, "two")
	if got := names(c.Registry()); got != "a.one b.three" {
		t.Errorf("while Wrap fails: got functions %s, want a.one b.three", got)
	}
	if got := c.Sources()[0].Functions; !got["a.one"] || got["a.two"] {
		t.Errorf("while Wrap fails: got %v of a, want a.one", got)
	}
	own := (&fakeSource{name: "b", tools: []string{"four"}}).Functions()
	if registry, _ := c.variant(map[string][]Function{"b": own}, ""); registry != nil {
		t.Errorf("while Wrap fails: got a variant with %s, want none", names(registry))
	}
	failing = false
	if got := names(c.Registry()); got != "a.two b.three" {
		t.Errorf("after Wrap failed: got functions %s, want a.two b.three", got)
	}
}
