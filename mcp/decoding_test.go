package mcp

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/admit"
)

// TestLargeMessagesNeedASlot: while another has the only slot a large message waits to be decoded, and a small one is answered; the
// slot is given back before the call that it asks for has ended.
func TestLargeMessagesNeedASlot(t *testing.T) {
	t.Parallel()
	for name, stateless := range map[string]bool{"in a session": false, "without one": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limiter := admit.New(1, 1)
			s := serve(t, func(o *Options) {
				var err error
				if o.Engine, err = chain.New(&chain.Options{Functions: o.Catalog, Counter: o.Counter, Admission: limiter}); err != nil {
					t.Fatal(err)
				}
			})
			s.decodeTime = time.Hour
			url := s.behind(t, &Door{Callers: staff})
			send := func(token, fn, text string) <-chan string {
				return beginCall(t, url, token, `{"steps":[{"fn":"`+fn+`","args":{"text":"`+text+`"}}],"lite":true}`, stateless)
			}
			others, err := limiter.Acquire(context.Background(), "other")
			if err != nil {
				t.Fatal(err)
			}
			large := send("ann", "shop.slow", strings.Repeat("a", heavyMessage))
			for s.reading.Held() < heavyMessage { // what waits is counted
				time.Sleep(time.Millisecond)
			}
			if body := <-send("bob", "shop.item.list", ""); !strings.Contains(body, "items") {
				t.Error(body)
			}
			select {
			case <-s.shop.started:
				t.Error("it did not wait")
			case <-time.After(50 * time.Millisecond):
			}
			others()
			<-s.shop.started
			if n := s.reading.Held(); n != 0 {
				t.Errorf("%d bytes are counted of what is decoded", n)
			}
			again, err := limiter.Acquire(t.Context(), "other") // while the call runs
			if err != nil {
				t.Fatal(err)
			}
			again()
			s.shop.enough <- struct{}{}
			if body := <-large; !strings.Contains(body, "late") {
				t.Error(body)
			}
		})
	}
}
