package transport

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
)

// TestLargeMessagesNeedASlot: while another has the only slot a large message waits to be decoded, and a small one is answered; the
// slot is given back before the call that it asks for has ended.
func TestLargeMessagesNeedASlot(t *testing.T) {
	t.Parallel()
	for name, stateless := range map[string]bool{"in a session": false, "without one": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil)
			slot := make(chan struct{}, 1) // who has put a token in has the slot
			s.acquire = func(ctx context.Context, _ string) (func(), error) {
				select {
				case slot <- struct{}{}:
					return func() { <-slot }, nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			s.maxDecodeTime = time.Hour
			url := s.serveAs(t, &Access{Callers: mcptest.Staff})
			send := func(token, fn, text string) <-chan string {
				return mcptest.BeginCall(t, url, token, `{"steps":[{"fn":"`+fn+`","args":{"text":"`+text+`"}}],"lite":true}`, stateless)
			}
			slot <- struct{}{}
			large := send("ann", "shop.slow", strings.Repeat("a", heavyMessage))
			mcptest.Until(func() bool { return s.reading.Held() >= heavyMessage }) // a waiting message is counted
			if body := <-send("bob", "shop.item.list", ""); !strings.Contains(body, "said") {
				t.Error(body)
			}
			select {
			case <-s.shop.started:
				t.Error("it did not wait")
			case <-time.After(50 * time.Millisecond):
			}
			<-slot
			<-s.shop.started
			if n := s.reading.Held(); n != 0 {
				t.Errorf("%d bytes are counted of what is decoded", n)
			}
			slot <- struct{}{} // while the call runs
			<-slot
			s.shop.enough <- struct{}{}
			if body := <-large; !strings.Contains(body, "late") {
				t.Error(body)
			}
		})
	}
}
