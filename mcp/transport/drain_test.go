package transport

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
)

// statelessCall returns a call of a client without sessions, with its headers.
func statelessCall(id, method, params string) (body string, headers mcptest.Header) {
	name := gjson.Get("{"+params+"}", "name").Str
	if params != "" {
		params += ","
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params +
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}}}`,
		mcptest.Header{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name}
}

// TestSentAway: once a server shuts down, a request that any replica could serve is answered 503 before any work is done, and is
// not counted. Messages for running calls are admitted, and in a session of this server the tools answer.
func TestSentAway(t *testing.T) {
	t.Parallel()
	const chain = `"name":"chain","arguments":{"steps":[{"fn":"shop.echo","args":{"text":"x"}}]}`
	for name, one := range map[string]struct {
		session bool // the client has one
		away    bool // it is sent away
	}{
		"without sessions": {false, true},
		"with a session":   {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil)
			url := s.http(t, anyone)
			headers, own := mcptest.Header{}, mcptest.Header{"Mcp-Protocol-Version": "2025-11-25"}
			if one.session {
				begun, _ := mcptest.Send(t, "POST", url, mcptest.Hello, nil)
				own["Mcp-Session-Id"] = begun.Header.Get("Mcp-Session-Id")
			}
			send := func(id, method, params string) (*http.Response, string) {
				body := `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`
				headers = own
				if !one.session {
					body, headers = statelessCall(id, method, params)
				}
				return mcptest.Send(t, "POST", url, body, headers)
			}
			var running sync.WaitGroup
			running.Go(func() {
				if r, text := send(`"slow"`, "tools/call", `"name":"chain","arguments":{"steps":[{"fn":"shop.slow"}]}`); r.StatusCode != 200 || !strings.Contains(text, "cancelled") {
					t.Errorf("the running call: %d %s", r.StatusCode, text)
				}
			})
			<-s.shop.started
			drained := make(chan bool)
			go func() { s.calls.drain(time.Hour); close(drained) }()
			mcptest.Until(s.calls.isClosing)
			before := s.shop.calls.Load()
			r, text := send("7", "tools/call", chain)
			if one.away {
				sentAway(t, r, text, "7")
				r, text = send(`"b"`, "tools/list", "")
				sentAway(t, r, text, `"b"`)
				r, text = mcptest.Send(t, "GET", url, "", headers)
				sentAway(t, r, text, "null")
				if headers["Mcp-Method"] != "" {
					headers["Mcp-Method"] = "notifications/cancelled"
				}
				if r, text := mcptest.Send(t, "POST", url, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`, headers); r.StatusCode != http.StatusAccepted {
					t.Errorf("a notification: %d %s", r.StatusCode, text)
				}
			} else {
				if r.StatusCode != 200 || !strings.Contains(text, `\"unavailable\"`) || !strings.Contains(text, "the server is shutting down: nothing of this call was run") {
					t.Errorf("a call: %d %s", r.StatusCode, text)
				}
				if r, text = send("8", "tools/list", ""); r.StatusCode != 200 {
					t.Errorf("a list: %d %s", r.StatusCode, text)
				}
			}
			r, text = mcptest.Send(t, "POST", url, mcptest.Hello, nil)
			sentAway(t, r, text, gjson.Get(mcptest.Hello, "id").Raw)
			if now := s.shop.calls.Load(); now != before {
				t.Errorf("%d calls were run", now-before)
			}
			if r, text := mcptest.Send(t, "GET", strings.TrimSuffix(url, Path)+"/readyz", "", nil); r.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("/readyz: %d %s", r.StatusCode, text)
			}
			select {
			case <-drained:
				t.Error("the running call was not waited for")
			default:
			}
			s.calls.cancelCalls()
			running.Wait()
			<-drained
		})
	}
}

func sentAway(t *testing.T, r *http.Response, text, id string) {
	t.Helper()
	m := gjson.Parse(text)
	if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") != "1" || !r.Close || r.Header.Get("Content-Type") != "application/json" ||
		m.Get("jsonrpc").Str != "2.0" || m.Get("id").Raw != id || m.Get("error.code").Int() != -32000 || !strings.HasPrefix(m.Get("error.message").Str, "the server is shutting down: ") {
		t.Errorf("it is not sent away: %d %v %s", r.StatusCode, r.Header, text)
	}
}

// TestAdmitted: what was let in before the server closes may begin its calls, and is waited for; nothing is let in afterwards. A call
// that does not end is cancelled, and its context says why.
func TestAdmitted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := newTracker()
		leave, ok := calls.track(&calls.requests, false)
		if !ok {
			t.Fatal("nothing is let in")
		}
		drained := make(chan bool)
		go func() { calls.drain(time.Minute); close(drained) }()
		synctest.Wait()
		if _, ok := calls.track(&calls.requests, false); ok || !calls.isClosing() {
			t.Error("a request is let in while the server closes")
		}
		if _, ok := calls.track(&calls.calls, false); ok {
			t.Error("a call of nobody who was let in begins")
		}
		end, ok := calls.track(&calls.calls, true)
		if !ok {
			t.Fatal("a call of one who was let in does not begin")
		}
		ctx, stop := endWith(t.Context(), calls.ctx)
		defer stop()
		leave() // its client has gone
		synctest.Wait()
		select {
		case <-drained:
			t.Error("the call is not waited for")
		default:
		}
		<-ctx.Done()
		if f, ok := fault.As(context.Cause(ctx)); !ok || f.Code != fault.Cancelled || !strings.HasPrefix(f.Message, "the server is shutting down: ") {
			t.Errorf("the cause: %v", context.Cause(ctx))
		}
		end()
		<-drained
	})
}

// TestAdmittedAtTheEnd: drain misses no request that is admitted while it begins.
func TestAdmittedAtTheEnd(t *testing.T) {
	t.Parallel()
	for range 200 {
		calls := newTracker()
		var inside, refused atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for {
					leave, ok := calls.track(&calls.requests, false)
					if !ok {
						refused.Add(1)
						return
					}
					inside.Add(1)
					if end, ok := calls.track(&calls.calls, true); ok {
						end()
					} else {
						t.Error("a call of one who was let in does not begin")
					}
					inside.Add(-1)
					leave()
				}
			})
		}
		calls.drain(time.Minute)
		if n := inside.Load(); n != 0 {
			t.Fatalf("%d are inside", n)
		}
		all.Wait()
		if refused.Load() != 4 {
			t.Fatal("not all were refused")
		}
	}
}

// TestNewConnection: a request on a connection that was made before the shutdown is answered.
func TestNewConnection(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.firstRequestWait = time.Hour
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.ServeHTTP(ctx, l, &Access{Anyone: *anyone}) }()
	url := "http://" + l.Addr().String() + Path
	body, headers := statelessCall("1", "tools/list", "")
	if r, text := mcptest.Send(t, "POST", url, body, headers); r.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", r.StatusCode, text)
	}
	headers["Content-Type"] = "application/json"
	conn := dial(t, url, "POST", Path, headers, len(body)) // accepted before the next one is
	if r, text := mcptest.Send(t, "GET", strings.TrimSuffix(url, Path)+"/healthz", "", mcptest.Header{"Connection": "close"}); r.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", r.StatusCode, text)
	}
	silent, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if r, text := mcptest.Send(t, "GET", strings.TrimSuffix(url, Path)+"/healthz", "", mcptest.Header{"Connection": "close"}); r.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", r.StatusCode, text)
	}
	cancel()
	mcptest.Until(s.calls.isClosing)
	for _, text := range []string{body, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"} {
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || answer.StatusCode != http.StatusServiceUnavailable {
			t.Fatalf("%v %v", answer, err)
		}
		answer.Body.Close()
		conn = silent
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
