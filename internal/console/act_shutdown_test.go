package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/console"
)

func (b *browser) play(chain string) (status int, next string) {
	b.t.Helper()
	_, page := b.get("playground")
	return b.send(page, "playground", url.Values{"text": {chain}, "do": {"run"}})
}

// TestActsOutlastShutdown: a shutdown waits for what was begun, which ends as it would have, and nothing else begins.
func TestActsOutlastShutdown(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]*console.Viewer{"ann": actor("token:ann")}, nil)
	ann := s.browser(t, "ann")
	s.mu.Lock() // holds up calls
	_, page := ann.play(`{"name":"slow","steps":[{"fn":"shop.send","args":{"k":1}}]}`)
	wantText(t, page, "Playground", "!token_expired")
	drained := make(chan struct{})
	go func() {
		s.work.Drain(time.Hour)
		close(drained)
	}()
	refused := false
	for range 1000 {
		status, page := ann.play(`{"steps":[{"expr":"6*7"}]}`)
		if refused = status == fault.Unavailable.HTTP() && strings.Contains(page, "nothing of this was done"); refused {
			break
		}
	}
	if !refused {
		t.Error("a chain begins while the console shuts down")
	}
	select {
	case <-drained:
		t.Error("the shutdown does not wait")
	default:
	}
	s.mu.Unlock()
	<-drained
	s.wantCalls(t, `shop.send {"k":1}`)
	rows, err := s.journal.List(t.Context(), &journal.Filter{Chains: []string{"slow"}})
	if err != nil || len(rows) != 1 || rows[0].Status != journal.OK {
		t.Errorf("after the shutdown the run is %+v, %v, want ok", rows, err)
	}
}

// TestKeptActs: a viewer's acts drop older ones of the same viewer, but none that goes on, and none of another viewer.
func TestKeptActs(t *testing.T) {
	t.Parallel()
	s := newShop(t, map[string]*console.Viewer{"ann": actor("token:ann"), "bob": actor("token:bob")}, nil)
	ann, bob := s.browser(t, "ann"), s.browser(t, "bob")
	for _, b := range []*browser{ann, bob} {
		b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	begin := func(b *browser, chain string) (path string) {
		t.Helper()
		_, page := b.get("playground")
		form := url.Values{"text": {chain}, "do": {"run"}}
		for _, field := range inputs.FindAllStringSubmatch(page, -1) {
			form.Set(field[1], field[2])
		}
		r, err := b.PostForm(s.URL+console.Path+"playground", form)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		return strings.TrimPrefix(r.Header.Get("Location"), console.Path)
	}
	const quick = `{"steps":[{"expr":"6*7"}]}`
	bobs := begin(bob, quick)
	s.mu.Lock()
	going, first := begin(ann, `{"steps":[{"fn":"shop.send","args":{"k":1}}]}`), begin(ann, quick)
	for range 120 {
		path := begin(ann, quick)
		if status, page := ann.get(path); status != http.StatusOK {
			t.Fatalf("status %d: %s", status, page)
		}
	}
	s.mu.Unlock()
	for name, test := range map[string]struct {
		b    *browser
		path string
		kept bool
	}{"one that went on": {ann, going, true}, "the first": {ann, first, false}, "another viewer's": {bob, bobs, true}} {
		if status, page := test.b.get(test.path); (status == http.StatusOK) != test.kept {
			t.Errorf("%s: status %d, want it kept: %t: %.300s", name, status, test.kept, page)
		}
	}
}
