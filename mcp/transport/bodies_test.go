package transport_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
)

// refusedBodies announces n messages of a size, sends none, and returns how many are refused.
func refusedBodies(t *testing.T, url, token string, n, size int) int {
	t.Helper()
	var refused atomic.Int64
	var conns []net.Conn
	for range n {
		conn := dial(t, url, "POST", transport.Path, mcptest.Header{"Content-Type": "application/json", "Mcp-Protocol-Version": "2025-11-25",
			"Authorization": "Bearer " + token}, size)
		go func() {
			if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil && answer.StatusCode == http.StatusTooManyRequests {
				refused.Add(1)
			}
		}()
		conns = append(conns, conn)
	}
	synctest.Wait()
	for _, conn := range conns {
		conn.Close()
	}
	synctest.Wait()
	return int(refused.Load())
}

// TestBodyBytesPerCaller: a caller that announces large messages and does not send them is refused further ones; other callers are
// not. Two callers may send messages of the maximum size at the same time.
func TestBodyBytesPerCaller(t *testing.T) {
	t.Parallel()
	const half = 32 // messages of 4 MiB are a caller's half of all
	for name, access := range map[string]*transport.Access{"tokens": {Callers: mcptest.Staff}, "none": {Anyone: *reader}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, nil)
				url := s.inMemory(t, access)
				headers := mcptest.Header{"Content-Type": "application/json", "Authorization": "Bearer ann"}
				var conns []net.Conn
				for range half {
					conns = append(conns, dial(t, url, "POST", transport.Path, headers, 4<<20))
				}
				synctest.Wait()
				if n := refusedBodies(t, url, "ann", 1, 300<<10); n != 1 {
					t.Errorf("%d messages of the caller itself are refused, want 1", n)
				}
				if n := refusedBodies(t, url, "eve", half/2, 4<<20); (n == 0) != (access.Callers != nil) {
					t.Errorf("%d messages of another caller are refused, want none: %t", n, access.Callers != nil)
				}
				if r, body := mcptest.Send(t, "POST", url, mcptest.Hello, headers); r.StatusCode != 200 {
					t.Errorf("a small message: %d %s, want 200", r.StatusCode, body)
				}
				for _, conn := range conns {
					conn.Close()
				}
				synctest.Wait()
				if n := refusedBodies(t, url, "ann", half+1, 4<<20); n != 1 {
					t.Errorf("after the connections are closed, %d messages are refused, want 1", n)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		const size = 500 << 20
		s := serve(t, func(o *transport.Options) { o.MaxRequestBytes = size })
		url := s.inMemory(t, &transport.Access{Callers: mcptest.Staff})
		dial(t, url, "POST", transport.Path, mcptest.Header{"Content-Type": "application/json", "Authorization": "Bearer ann"}, size)
		if n := refusedBodies(t, url, "eve", 1, size); n != 0 {
			t.Errorf("%d messages of a second caller are refused, want none", n)
		}
	})
}

// dial starts a request without its body and returns the connection.
func dial(t *testing.T, url, method, path string, headers mcptest.Header, rest int) net.Conn {
	t.Helper()
	host := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), transport.Path)
	conn := mcptest.Dial(t, host)
	text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n", method, path,
		host, rest)
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
	json := mcptest.Header{"Content-Type": "application/json"}
	ann := mcptest.Header{"Content-Type": "application/json", "Authorization": "Bearer ann"}
	for _, test := range []struct {
		method, path string
		headers      mcptest.Header
	}{
		{"POST", transport.Path, json}, {"POST", transport.Path, ann}, {"POST", transport.Path, mcptest.Header{"Authorization": "Bearer ann", "Content-Type": "text/plain"}},
		{"POST", transport.Path, mcptest.Header{"Host": "evil"}}, {"POST", "/healthz", nil}, {"GET", transport.Path, json}, {"PUT", "/nothing", nil}, {"POST", transport.Path + "?surface=x", ann},
	} {
		synctest.Test(t, func(t *testing.T) {
			conn := dial(t, serve(t, nil).inMemory(t, &transport.Access{Callers: mcptest.Staff}), test.method, test.path, test.headers, 1000)
			_ = conn.SetReadDeadline(time.Now().Add(15 * time.Second))
			if _, err := io.Copy(io.Discard, conn); err != nil {
				t.Errorf("%s %s %v: the connection stays open: %v", test.method, test.path, test.headers, err)
			}
		})
	}
}

// TestAnnouncedTooLong: a message that is announced as too long is refused at once, and its connection is closed.
func TestAnnouncedTooLong(t *testing.T) {
	t.Parallel()
	for _, size := range []int{5 << 20, 99_999_999_999_999} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			headers := mcptest.Header{"Content-Type": "application/json", "Authorization": "Bearer ann"}
			conn := dial(t, serve(t, nil).inMemory(t, &transport.Access{Callers: mcptest.Staff}), "POST", transport.Path, headers, size)
			_ = conn.SetReadDeadline(start.Add(time.Minute))
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || answer.StatusCode != http.StatusRequestEntityTooLarge || !answer.Close || time.Since(start) > 0 {
				t.Errorf("%d bytes: %v %v after %v, want 413 and Connection: close at once", size, answer, err, time.Since(start))
			}
		})
	}
}

// TestRevokedDuringBody: a request whose caller loses its rights while the body is being sent is not handled.
func TestRevokedDuringBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, nil)
		url := s.inMemory(t, &transport.Access{Callers: mcptest.Staff})
		hello := mcptest.Header{"Content-Type": "application/json", "Authorization": "Bearer bob"}
		for body, headers := range map[string]mcptest.Header{echo: echoHeaders("bob"), mcptest.Hello: hello} {
			conn := dial(t, url, "POST", transport.Path, headers, len(body))
			synctest.Wait()
			s.SetAccess(&transport.Access{Callers: mcptest.Callers{"ann": mcptest.Staff["ann"]}})
			if status, text := answerTo(t, conn, body); status != 401 || s.shop.calls.Load() != 0 {
				t.Errorf("status %d, want 401 without a call: %s", status, text)
			}
			s.SetAccess(&transport.Access{Callers: mcptest.Staff})
		}
	})
}

// answerTo sends the rest of a request and reads the response.
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
