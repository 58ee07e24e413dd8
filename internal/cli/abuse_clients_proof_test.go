//go:build unix

package cli

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

	"github.com/onecall-mcp/onecall/mcp/transport"
)

// cancelled wants what a cancelled call does to end.
func cancelled(t *testing.T, a *abused) {
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
	case <-time.After(tooLong):
		t.Error("the cancelled request has no end")
	}
}

// vanished clients take what they asked for with them: one without a session by cutting its connection, one with a session
// by ending it, a cut connection alone not being an end.
func vanished(t *testing.T, a *abused) {
	t.Run("stateless", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := stateless(t, a.url)
		gone := make(chan error, 1)
		go func() {
			_, err := w.try(t, http.MethodPost, w.message(t, "1", "tools/call", a.slow.chain()), func(r *http.Request) { *r = *r.WithContext(ctx) })
			gone <- err
		}()
		await(t, a.slow.arrived, "the call arrives")
		cancel()
		<-gone
		await(t, a.slow.ended, "the call is cancelled")
	})
	t.Run("stateful", func(t *testing.T) {
		w := &wire{url: a.url, client: httpClient(t)}
		w.begin(t)
		gone := make(chan error, 1)
		go func() {
			_, err := w.try(t, http.MethodPost, w.message(t, "1", "tools/call", a.slow.chain()), nil)
			gone <- err
		}()
		await(t, a.slow.arrived, "the call arrives")
		w.delete(t)
		await(t, a.slow.ended, "the call is cancelled")
		<-gone
	})
}

// dial is a bare connection to a server.
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

// raw writes a request as its bytes.
func (w *wire) raw(t *testing.T, body []byte, length int) []byte {
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

// slowWriters begin requests and never finish them. The others are served meanwhile.
func slowWriters(t *testing.T, a *abused) {
	for i := range 200 {
		c := dial(t, a.url)
		text := a.stateless.raw(t, a.stateless.message(t, "1", "tools/list", nil), 1<<20)
		if _, err := c.Write(text[:i*len(text)/200]); err != nil {
			t.Fatal(err)
		}
	}
	alive(t, a.stateful, a.stateless)
}

// slowReaders ask for a lot, and read nothing of it. The others are served meanwhile.
func slowReaders(t *testing.T, a *abused) {
	chain := map[string]any{"name": "chain", "arguments": map[string]any{"budget": map[string]any{"maxTotalTokens": 10000}, "lite": true,
		"steps": []any{map[string]any{"fn": "expr.eval", "args": map[string]any{"expression": `map(1..4000, "ab")`}}}}}
	for range 50 {
		c := dial(t, a.url)
		for i := range 40 {
			text := a.stateless.message(t, fmt.Sprint(i), "tools/call", chain)
			_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)) // once its buffers are full, the server need not read on
			if _, err := c.Write(a.stateless.raw(t, text, len(text))); err != nil {
				break
			}
		}
	}
	alive(t, a.stateful, a.stateless)
}

// quickSessions come and go, as many as would show if each left something.
func quickSessions(t *testing.T, a *abused) {
	var next atomic.Int64
	var all sync.WaitGroup
	const most = 1000
	for range 8 {
		all.Go(func() {
			w := &wire{url: a.url, client: httpClient(t)}
			for next.Add(1) <= most {
				if err := errors.Join(w.open(t), w.end()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// TestSessionsAreBounded opens as many sessions as a server has place for: the next client is told to come again later, those that
// are there are served, and a session that ends makes place.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t, newSlowService(t).config(t))
	url := s.url
	client := httpClient(t)
	var defaults transport.Options
	if err := defaults.Settle(); err != nil {
		t.Fatal(err)
	}
	sessions := make([]*wire, defaults.MaxSessions)
	for i := range sessions {
		sessions[i] = &wire{url: url, client: client}
		sessions[i].begin(t)
	}
	late := &wire{url: url, client: client}
	r := late.send(t, http.MethodPost, []byte(initialize), nil)
	if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
		t.Errorf("one session more: %d %v %.300s", r.status, r.header, r.body)
	}
	alive(t, sessions[0], sessions[len(sessions)-1], stateless(t, url))
	sessions[0].delete(t)
	// What a session had is put away after the answer.
	within(t, "a session that ended makes place", s.stderr, func() bool { return late.open(t) == nil })
	alive(t, late)
}
