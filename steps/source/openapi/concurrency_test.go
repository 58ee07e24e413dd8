package openapi

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/internal/admit"
)

// TestConcurrency: the calls to a service never exceed Options.Concurrency, and callers take turns.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		running := 0
		service := doerFunc(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			if running++; running > 2 {
				t.Errorf("%d calls run at once, want at most 2", running)
			}
			order = append(order, r.Header.Get("Who"))
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: readerOf(`1`)}, nil
		})
		op := operation{name: "thing.get", method: "GET", path: "/thing", parameters: []parameter{{arg: "who", name: "Who", in: "header"}}}
		s := sourceOf(t, Options{Client: service, BaseURL: "https://api.example.com", Concurrency: 2}, &document{operations: []operation{op}})
		for i, caller := range []string{"greedy", "greedy", "greedy", "greedy", "greedy", "modest"} {
			go func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				if _, err := s.Functions()[0].Call(admit.WithRequest(t.Context(), &admit.Request{Caller: caller}),
					[]byte(`{"who":"`+caller+`"}`)); err != nil {
					t.Error(err)
				}
			}()
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"greedy", "greedy", "modest", "greedy", "greedy", "greedy"}; !slices.Equal(order, want) {
			t.Errorf("got order %v, want %v", order, want)
		}
	})
}
