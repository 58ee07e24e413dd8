package mcp

import (
	"sync"
	"testing"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/steps"
)

// emptyServer returns a server without functions.
func emptyServer(t *testing.T) *Server {
	t.Helper()
	catalog, err := steps.NewCatalog(nil)
	if err != nil {
		t.Fatal(err)
	}
	counter, err := budget.NewCounter("", 0)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := chain.New(&chain.Options{Functions: catalog, Counter: counter})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(&Options{Catalog: catalog, Counter: counter, Engine: engine})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		catalog.Close()
	})
	return s
}

// TestToolsetInUse: a toolset is not dropped while it is in use, at any moment of a reload.
func TestToolsetInUse(t *testing.T) {
	t.Parallel()
	s := emptyServer(t)
	r := steps.Rights{Tier: steps.TierRead}
	swap := func() (old *generation) {
		old = s.now.Load()
		next, err := newGeneration(&old.Options)
		if err != nil {
			t.Fatal(err)
		}
		next.number = old.number + 1
		s.now.Store(next)
		return old
	}
	f := s.toolset(r, SurfaceFlat)
	old := swap()
	if s.toolset(r, SurfaceFlat) != f { // it is used after the swap
		t.Fatal("the toolset is replaced at the swap")
	}
	s.dropToolsets(old)
	if s.toolset(r, SurfaceFlat) != f {
		t.Error("a toolset that was used after the swap is dropped")
	}
	f.running.Add(1) // a call that lasts for several reloads
	for range 3 {
		s.dropToolsets(swap())
	}
	if len(s.allToolsets()) != 1 {
		t.Error("a toolset with a running call is dropped")
	}
	f.running.Add(-1)
	s.dropToolsets(swap())
	if len(s.allToolsets()) != 0 {
		t.Error("an unused toolset is not dropped")
	}
}

// TestToolsetsAtReloads: clients with the same rights keep connecting, and get the same toolset after each reload.
func TestToolsetsAtReloads(t *testing.T) {
	t.Parallel()
	s := emptyServer(t)
	r := steps.Rights{Tier: steps.TierRead}
	f := s.toolset(r, SurfaceFlat)
	done := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if s.toolset(r, SurfaceFlat) != f {
					t.Error("the toolset was replaced")
					return
				}
			}
		})
	}
	for range 50 {
		o := *s.opts()
		if _, err := s.Reload(&o, nil); err != nil {
			t.Fatal(err)
		}
		s.toolset(r, SurfaceFlat)
	}
	close(done)
	all.Wait()
}
