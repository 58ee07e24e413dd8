package transport_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
)

// TestLargeMessagesNeedASlot: while the only slot is taken, a large message waits to be decoded, and a small one is answered. A message
// releases its slot before its call ends.
func TestLargeMessagesNeedASlot(t *testing.T) {
	t.Parallel()
	for name, stateless := range map[string]bool{"in a session": false, "without one": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, nil)
				slot := make(chan struct{}, 1) // holding a token in it means having the slot
				s.acquire = func(ctx context.Context, _ string) (func(), error) {
					select {
					case slot <- struct{}{}:
						return func() { <-slot }, nil
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
				url := s.inMemory(t, &transport.Access{Callers: mcptest.Staff})
				send := func(token, fn, text string) <-chan string {
					return mcptest.BeginCall(t, url, token, `{"steps":[{"fn":"`+fn+`","args":{"text":"`+text+`"}}],"lite":true}`, stateless)
				}
				slot <- struct{}{}
				large := send("ann", "shop.slow", strings.Repeat("a", 256<<10))
				synctest.Wait()
				if n := refusedBodies(t, url, "ann", 32, 4<<20); n != 1 {
					t.Errorf("while the large message waits, %d others are refused, want 1", n)
				}
				if body := <-send("bob", "shop.item.list", ""); !strings.Contains(body, "said") {
					t.Errorf("the small message: %s, want said", body)
				}
				if synctest.Wait(); len(s.shop.started) > 0 {
					t.Error("the large message was handled without a slot")
				}
				<-slot
				<-s.shop.started
				if n := refusedBodies(t, url, "ann", 32, 4<<20); n != 0 {
					t.Errorf("after the message is decoded, %d others are refused, want none", n)
				}
				slot <- struct{}{} // while the call runs
				<-slot
				s.shop.finish <- struct{}{}
				if body := <-large; !strings.Contains(body, "late") {
					t.Errorf("the large message: %s, want late", body)
				}
			})
		})
	}
}
