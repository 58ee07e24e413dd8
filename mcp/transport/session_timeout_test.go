package transport

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestSessionTimeout: an idle session ends after its timeout, but not while a call runs in it.
func TestSessionTimeout(t *testing.T) {
	t.Parallel()
	for name, accept := range map[string]string{"past the SDK": acceptHeader, "by the SDK": "text/event-stream, application/json"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, func(o *Options) { o.SessionTimeout = time.Hour })
				post := inSession(s, accept)
				answered := make(chan string)
				go func() {
					answered <- post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"chain","arguments":{"steps":[{"fn":"shop.slow"}]}}}`).Body.String()
				}()
				<-s.shop.started
				time.Sleep(3 * time.Hour)
				s.shop.enough <- struct{}{}
				if text := <-answered; !strings.Contains(text, "late") {
					t.Errorf("a call of three hours: %s", text)
				}
				for range 3 {
					time.Sleep(59 * time.Minute)
					if w := post(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"chain","arguments":{}}}`); w.Code != http.StatusOK {
						t.Errorf("used again: %d %s", w.Code, w.Body)
					}
				}
				time.Sleep(61 * time.Minute)
				synctest.Wait()
				if w := post(`{"jsonrpc":"2.0","id":4,"method":"ping"}`); w.Code != http.StatusNotFound || s.Stats().Sessions != 0 {
					t.Errorf("not used: %d %s, %d sessions", w.Code, w.Body, s.Stats().Sessions)
				}
			})
		})
	}
}
