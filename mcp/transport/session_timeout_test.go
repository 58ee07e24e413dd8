package transport_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/mcp/transport"
)

// TestSessionTimeout: an idle session ends after its timeout, but not while a call runs in it.
func TestSessionTimeout(t *testing.T) {
	t.Parallel()
	for name, accept := range map[string]string{"direct": accepted, "by the SDK": "text/event-stream, application/json"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, func(o *transport.Options) { o.SessionTimeout = time.Hour })
				post := inSession(t, s, accept)
				answered := make(chan string)
				go func() {
					_, text := post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"chain","arguments":{"steps":[{"fn":"shop.slow"}]}}}`)
					answered <- text
				}()
				<-s.shop.started
				time.Sleep(3 * time.Hour)
				s.shop.finish <- struct{}{}
				if text := <-answered; !strings.Contains(text, "late") {
					t.Errorf("a call of three hours: %s, want late", text)
				}
				for range 3 {
					time.Sleep(59 * time.Minute)
					if status, text := post(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"chain","arguments":{}}}`); status != http.StatusOK {
						t.Errorf("a call before the timeout: %d %s, want 200", status, text)
					}
				}
				time.Sleep(61 * time.Minute)
				synctest.Wait()
				if status, text := post(`{"jsonrpc":"2.0","id":4,"method":"ping"}`); status != http.StatusNotFound || s.Stats().Sessions != 0 {
					t.Errorf("after the timeout: %d %s, %d sessions; want 404 and none", status, text, s.Stats().Sessions)
				}
			})
		})
	}
}
