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

// TestOneCallersBodies: who announces much and does not send it has its own messages refused, and those of nobody else.
func TestOneCallersBodies(t *testing.T) {
	t.Parallel()
	const sockets, long = 64, 4 << 20
	ping := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":%q}}`, strings.Repeat("y", 70_000))
	for name, access := range map[string]*Access{"tokens": {Callers: mcptest.Staff}, "none": {Anyone: *reader}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil)
			url := s.behind(t, access)
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

// TestLongBodies: two callers may send messages of the largest size at the same time, whatever that is.
func TestLongBodies(t *testing.T) {
	t.Parallel()
	const long = 500 << 20
	s := serve(t, func(o *Options) { o.MaxRequestBytes = long })
	url := s.behind(t, &Access{Callers: mcptest.Staff})
	for i, token := range []string{"ann", "eve"} {
		dial(t, url, "POST", Path, mcptest.Header{"Content-Type": "application/json", "Authorization": "Bearer " + token}, long)
		mcptest.Until(func() bool { return s.reading.Held() == int64(i+1)*long })
	}
}

// dial begins a request of which rest is not sent, and gives the connection.
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

// TestSlowBody: who does not send what it has announced is let go, whoever it is and wherever it goes.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.readTime = 300 * time.Millisecond
	url := s.behind(t, &Access{Callers: mcptest.Staff})
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

// TestRevokedWhileSending: what was not sent whole is not begun with rights that are gone by then.
func TestRevokedWhileSending(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	url := s.behind(t, &Access{Callers: mcptest.Staff})
	for version, body := range map[string]string{
		"2026-07-28": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chain","arguments":{"steps":[{"fn":"shop.echo","args":{"text":"x"}}]}` + mcptest.StatelessMeta + `}}`,
		"":           mcptest.Hello,
	} {
		headers := mcptest.Header{"Content-Type": "application/json", "Authorization": "Bearer bob", "Mcp-Method": "tools/call", "Mcp-Name": "chain"}
		if version != "" {
			headers["Mcp-Protocol-Version"] = version
		}
		conn := dial(t, url, "POST", Path, headers, len(body))
		for s.requests.of("token:bob") == 0 {
			time.Sleep(time.Millisecond)
		}
		s.SetAccess(&Access{Callers: mcptest.Callers{"ann": mcptest.Staff["ann"]}})
		status, text := answerTo(t, conn, body)
		if status != 401 || s.shop.calls.Load() != 0 {
			t.Errorf("%q: %d %s", version, status, text)
		}
		s.SetAccess(&Access{Callers: mcptest.Staff})
	}
}

// of is how many a caller has.
func (c *counts) of(caller string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by[caller]
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
