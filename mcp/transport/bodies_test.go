package transport

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
)

// TestOneCallersBodies: a caller that announces large messages and does not send them is refused further ones; other callers are
// not.
func TestOneCallersBodies(t *testing.T) {
	t.Parallel()
	const sockets, long = 64, 4 << 20
	ping := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":%q}}`, strings.Repeat("y", 70_000))
	for name, access := range map[string]*Access{"tokens": {Callers: mcptest.Staff}, "none": {Anyone: *reader}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil)
			url := s.serveAs(t, access)
			headers := mcptest.Header{"Content-Type": "application/json", "Mcp-Protocol-Version": "2025-11-25"}
			var conns []net.Conn
			for range sockets {
				headers["Authorization"] = "Bearer ann"
				conns = append(conns, dial(t, url, "POST", Path, headers, long))
			}
			mcptest.Until(func() bool { return s.reading.Held() == maxReading/2 })
			send := func(token string) int {
				headers["Authorization"] = "Bearer " + token
				r, _ := mcptest.Send(t, "POST", url, ping, headers)
				return r.StatusCode
			}
			if status := send("ann"); status != 429 {
				t.Errorf("the caller itself: %d", status)
			}
			if status := send("eve"); (status == 429) != (access.Callers == nil) {
				t.Errorf("another caller: %d", status)
			}
			headers["Authorization"] = "Bearer ann"
			if r, body := mcptest.Send(t, "POST", url, mcptest.Hello, headers); r.StatusCode != 200 {
				t.Errorf("a small message: %d %s", r.StatusCode, body)
			}
			for _, conn := range conns {
				conn.Close()
			}
			mcptest.Until(func() bool { return s.reading.Held() == 0 })
			if status := send("ann"); status == 429 {
				t.Errorf("afterwards: %d", status)
			}
		})
	}
}

// TestLongBodies: two callers may send messages of the maximum size at the same time.
func TestLongBodies(t *testing.T) {
	t.Parallel()
	const long = 500 << 20
	s := serve(t, func(o *Options) { o.MaxRequestBytes = long })
	url := s.serveAs(t, &Access{Callers: mcptest.Staff})
	for i, token := range []string{"ann", "eve"} {
		dial(t, url, "POST", Path, mcptest.Header{"Content-Type": "application/json", "Authorization": "Bearer " + token}, long)
		mcptest.Until(func() bool { return s.reading.Held() == int64(i+1)*long })
	}
}

// dial starts a request without its body and returns the connection.
func dial(t *testing.T, url, method, path string, headers mcptest.Header, rest int) net.Conn {
	t.Helper()
	host := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), Path)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n", method, path, host, rest)
	for name, value := range headers {
		text += name + ": " + value + "\r\n"
	}
	if _, err := io.WriteString(conn, text+"\r\n"); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestSlowBody: a client that does not send the announced body is disconnected, on every path and with or without a token.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.readTimeout = 300 * time.Millisecond
	url := s.serveAs(t, &Access{Callers: mcptest.Staff})
	json := mcptest.Header{"Content-Type": "application/json"}
	ann := mcptest.Header{"Content-Type": "application/json", "Authorization": "Bearer ann"}
	var conns []net.Conn
	for _, one := range []struct {
		method, path string
		headers      mcptest.Header
	}{
		{"POST", Path, json}, {"POST", Path, ann}, {"POST", Path, mcptest.Header{"Authorization": "Bearer ann", "Content-Type": "text/plain"}},
		{"POST", Path, mcptest.Header{"Host": "evil"}}, {"POST", "/healthz", nil}, {"GET", Path, json}, {"PUT", "/nothing", nil}, {"POST", Path + "?surface=x", ann},
	} {
		conns = append(conns, dial(t, url, one.method, one.path, one.headers, 1000))
	}
	for i, conn := range conns {
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Errorf("connection %d is held: %v", i, err)
		}
	}
}

// TestRevokedWhileSending: a request whose caller loses its rights while the body is being sent is not handled.
func TestRevokedWhileSending(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	url := s.serveAs(t, &Access{Callers: mcptest.Staff})
	for version, body := range map[string]string{
		"2026-07-28": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chain","arguments":{"steps":[{"fn":"shop.echo","args":{"text":"x"}}]}` + mcptest.StatelessMeta + `}}`,
		"":           mcptest.Hello,
	} {
		headers := mcptest.Header{"Content-Type": "application/json", "Authorization": "Bearer bob", "Mcp-Method": "tools/call", "Mcp-Name": "chain"}
		if version != "" {
			headers["Mcp-Protocol-Version"] = version
		}
		conn := dial(t, url, "POST", Path, headers, len(body))
		mcptest.Until(func() bool { return s.requests.of("token:bob") > 0 })
		s.SetAccess(&Access{Callers: mcptest.Callers{"ann": mcptest.Staff["ann"]}})
		status, text := answerTo(t, conn, body)
		if status != 401 || s.shop.calls.Load() != 0 {
			t.Errorf("%q: %d %s", version, status, text)
		}
		s.SetAccess(&Access{Callers: mcptest.Staff})
	}
}

// of returns a caller's count.
func (c *callerCounts) of(caller string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byCaller[caller]
}

// answerTo sends the rest of a request, and reads what it is answered.
func answerTo(t *testing.T, conn net.Conn, body string) (status int, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, body); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(all)
}
