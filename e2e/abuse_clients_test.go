//go:build e2e && unix

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// cancelCalls checks that a cancelled request ends, and so does its call of a service.
func cancelCalls(t *testing.T, a *abusedServer) {
	w := a.stateful
	ended := make(chan *reply, 1)
	go func() {
		r, err := w.try(t, http.MethodPost, w.message(t, `"slow"`, "tools/call", a.slow.chain()), nil)
		if err != nil {
			t.Error(err)
		}
		ended <- r
	}()
	await(t, a.slow.arrived, "the call arrives")
	w.send(t, http.MethodPost, w.message(t, "", "notifications/cancelled", map[string]any{"requestId": "slow"}), nil)
	await(t, a.slow.ended, "the call is cancelled")
	select {
	case <-ended:
	case <-time.After(clitest.TooLong):
		t.Errorf("the cancelled request did not end within %v", clitest.TooLong)
	}
}

// dropClients checks that a client's calls end when it disconnects. A client without a session closes its connection. A client with a
// session deletes the session, as a closed connection does not end it.
func dropClients(t *testing.T, a *abusedServer) {
	t.Run("stateless", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := stateless(t, a.url)
		done := make(chan error, 1)
		go func() {
			_, err := w.try(t, http.MethodPost, w.message(t, "1", "tools/call", a.slow.chain()), func(r *http.Request) { *r = *r.WithContext(ctx) })
			done <- err
		}()
		await(t, a.slow.arrived, "the call arrives")
		cancel()
		<-done
		await(t, a.slow.ended, "the call is cancelled")
	})
	t.Run("stateful", func(t *testing.T) {
		w := &rawClient{url: a.url, client: httpClient(t)}
		w.begin(t)
		done := make(chan error, 1)
		go func() {
			_, err := w.try(t, http.MethodPost, w.message(t, "1", "tools/call", a.slow.chain()), nil)
			done <- err
		}()
		await(t, a.slow.arrived, "the call arrives")
		w.delete(t)
		await(t, a.slow.ended, "the call is cancelled")
		<-done
	})
}

// dial opens a bare connection to a server.
func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// postRaw writes a request byte by byte.
func (w *rawClient) postRaw(t *testing.T, body []byte, length int) []byte {
	t.Helper()
	req := w.request(t, http.MethodPost, nil)
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", req.URL.Path, req.URL.Host, length)
	if w.version >= statelessVersion {
		req.Header.Set("Mcp-Method", gjson.GetBytes(body, "method").String())
		req.Header.Set("Mcp-Name", gjson.GetBytes(body, "params.name").String())
	}
	if err := req.Header.Write(&b); err != nil {
		t.Fatal(err)
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}

// slowWriters starts requests and never finishes them. Other clients must be served meanwhile.
func slowWriters(t *testing.T, a *abusedServer) {
	for i := range 200 {
		c := dial(t, a.url)
		text := a.stateless.postRaw(t, a.stateless.message(t, "1", "tools/list", nil), 1<<20)
		if _, err := c.Write(text[:i*len(text)/200]); err != nil {
			t.Fatal(err)
		}
	}
	checkServes(t, a.stateful, a.stateless)
}

// slowReaders asks for large answers and does not read them. Other clients must be served meanwhile.
func slowReaders(t *testing.T, a *abusedServer) {
	chain := map[string]any{"name": "chain", "arguments": map[string]any{"budget": map[string]any{"maxTotalTokens": 10000}, "lite": true,
		"steps": []any{map[string]any{"fn": "expr.eval", "args": map[string]any{"expression": `map(1..4000, "ab")`}}}}}
	for range 50 {
		c := dial(t, a.url)
		for i := range 40 {
			text := a.stateless.message(t, fmt.Sprint(i), "tools/call", chain)
			_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)) // when its buffers are full, the server may stop reading
			if _, err := c.Write(a.stateless.postRaw(t, text, len(text))); err != nil {
				break
			}
		}
	}
	checkServes(t, a.stateful, a.stateless)
}

// quickSessions opens and closes enough sessions to notice a leak in each.
func quickSessions(t *testing.T, a *abusedServer) {
	var opened atomic.Int64
	var wg sync.WaitGroup
	const maxSessions = 1000
	for range 8 {
		wg.Go(func() {
			w := &rawClient{url: a.url, client: httpClient(t)}
			for opened.Add(1) <= maxSessions {
				if err := errors.Join(w.open(t), w.end()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
