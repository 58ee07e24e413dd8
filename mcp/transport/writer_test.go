package transport

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener of connections within a bubble of fake time, where sockets cannot be. Nothing of what is written to one of
// them waits in between: it is written when it has been read.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// slowly serves a handler as the door does, in fake time; get asks it, and gives what a client may read of the answer.
func slowly(t *testing.T, handler http.HandlerFunc, test func(t *testing.T, get func() (net.Conn, *bufio.Reader))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			patient := &writer{ResponseWriter: w}
			defer patient.extend()
			handler(patient, r)
		})}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(l) }()
		test(t, func() (net.Conn, *bufio.Reader) {
			client, conn := net.Pipe()
			l.conns <- conn
			if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: here\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			return client, bufio.NewReaderSize(client, 16)
		})
		server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// TestSlowReader: who takes a large answer slowly gets all of it, however long that takes, in one write or in many.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	for name, handler := range map[string]http.HandlerFunc{
		"one write": func(w http.ResponseWriter, _ *http.Request) {
			if n, err := io.WriteString(w, text); n != len(text) || err != nil {
				t.Errorf("%d of %d bytes are written: %v", n, len(text), err)
			}
		},
		"an answer, long after another": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, text[:1<<19])
			w.(http.Flusher).Flush()
			time.Sleep(time.Hour)
			_, _ = io.WriteString(w, text[1<<19:])
		},
		"an end, long after the answer": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, text)
			w.(http.Flusher).Flush()
			time.Sleep(time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slowly(t, handler, func(t *testing.T, get func() (net.Conn, *bufio.Reader)) {
				conn, reader := get()
				defer conn.Close()
				began := time.Now()
				answer, err := http.ReadResponse(reader, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer answer.Body.Close()
				var got strings.Builder
				for err == nil {
					_, err = io.CopyN(&got, answer.Body, 4096)
					time.Sleep(time.Second)
				}
				if took := time.Since(began); !errors.Is(err, io.EOF) || got.String() != text || took < 4*time.Minute {
					t.Errorf("%d of %d bytes after %v: %v", got.Len(), len(text), took, err)
				}
			})
		})
	}
}

// TestNoReader: who takes nothing is let go.
func TestNoReader(t *testing.T) {
	t.Parallel()
	failed := make(chan error, 1)
	slowly(t, func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(make([]byte, 10*piece))
		failed <- err
	}, func(t *testing.T, get func() (net.Conn, *bufio.Reader)) {
		began := time.Now()
		conn, reader := get()
		defer conn.Close()
		if _, err := reader.ReadByte(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(writeTime + time.Second) // net/http takes note of the error later than it comes
		synctest.Wait()
		select {
		case err := <-failed:
			if took := time.Since(began); err == nil || took > 2*writeTime {
				t.Errorf("%v after %v", err, took)
			}
		default:
			t.Error("it is waited for still")
		}
	})
}

// TestTally: what is refused before its method is looked at is counted once, and told so where it is too often.
func TestTally(t *testing.T) {
	t.Parallel()
	list := `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	bare := header{"Authorization": "Bearer ann"}
	with := func(more header) header {
		all := header{}
		for _, h := range []header{bare, more} {
			for name, value := range h {
				all[name] = value
			}
		}
		return all
	}
	for name, test := range map[string]struct {
		method, query, body string
		headers             header
		status              int
	}{
		"bad JSON":             {"POST", "", `{`, bare, 400},
		"no message":           {"POST", "", `{"jsonrpc":"2.0"}`, bare, 400},
		"a made up session":    {"POST", "", list, with(header{"Mcp-Session-Id": "made up"}), 404},
		"its stream":           {"GET", "", "", with(header{"Mcp-Session-Id": "made up"}), 404},
		"its end":              {"DELETE", "", "", with(header{"Mcp-Session-Id": "made up"}), 404},
		"another content":      {"POST", "", list, with(header{"Content-Type": "text/plain"}), 415},
		"another method":       {"PUT", "", list, bare, 405},
		"too long":             {"POST", "", `"` + strings.Repeat("x", 2000+envelopeSize) + `"`, bare, 413},
		"an unknown method":    {"POST", "", `{"jsonrpc":"2.0","id":2,"method":"tools/liszt"}`, with(header{"Mcp-Protocol-Version": "2025-11-25"}), 400},
		"a header that is not": {"POST", "", list, with(header{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call"}), 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(o *Options) { o.Limits, o.MaxRequestBytes = Limits{PerSecond: 0.001, Burst: 4}, 2000 })
			url := s.behind(t, &Access{Callers: staff})
			for i := range 6 {
				r, body := sendTo(t, test.method, url+test.query, test.body, test.headers)
				switch {
				case i < 4 && r.StatusCode != test.status:
					t.Errorf("%d. %d %s", i, r.StatusCode, body)
				case i >= 4 && (r.StatusCode != 429 || r.Header.Get("Retry-After") == "" || !strings.Contains(body, "requests a second") || r.Header.Get("Content-Length") == ""):
					t.Errorf("%d. %d %s %v", i, r.StatusCode, body, r.Header)
				}
			}
			if r, body := sendTo(t, "POST", url, hello, header{"Authorization": "Bearer eve"}); r.StatusCode != 200 {
				t.Errorf("another caller: %d %s", r.StatusCode, body)
			}
		})
	}
}

// TestTallyOnce: what comes to a face is counted there alone, whatever its answer's status is.
func TestTallyOnce(t *testing.T) {
	t.Parallel()
	for name, door := range map[string]*Access{"tokens": {Callers: staff}, "none": {Anyone: *reader}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(o *Options) { o.Limits = Limits{PerSecond: 0.001, Burst: 6} })
			url := s.behind(t, door)
			meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}`
			counted := 0
			for range 20 { // a tool that there is not: an error of the protocol
				r, body := sendTo(t, "POST", url, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"none","arguments":{},`+meta+`}}`,
					header{"Authorization": "Bearer ann", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "none"})
				if strings.Contains(body, "requests a second") {
					break
				}
				if counted++; !strings.Contains(body, "error") {
					t.Errorf("%d %s", r.StatusCode, body)
				}
			}
			if counted != 6 {
				t.Errorf("of 6 requests that may come at once %d came", counted)
			}
		})
	}
}

// TestTallyWrites: an answer that is not refused passes as it is written, also where a handler says its status twice.
func TestTallyWrites(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *Options) { o.Limits = Limits{PerSecond: 0.001, Burst: 1} })
	s.SetAccess(&Access{Anyone: *reader})
	slowly(t, func(w http.ResponseWriter, _ *http.Request) {
		tallied := &writer{ResponseWriter: w, server: s.Server, from: &identity{Caller: reader}}
		tallied.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(tallied, "good")
		tallied.Flush()
		tallied.WriteHeader(http.StatusNotFound)
		tallied.WriteHeader(http.StatusNotFound)
	}, func(t *testing.T, get func() (net.Conn, *bufio.Reader)) {
		conn, reader := get()
		defer conn.Close()
		answer, err := http.ReadResponse(reader, nil)
		for err == nil && answer.StatusCode == http.StatusEarlyHints {
			answer, err = http.ReadResponse(reader, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if text, err := io.ReadAll(answer.Body); answer.StatusCode != 200 || string(text) != "good" || err != nil {
			t.Errorf("%d %s: %v", answer.StatusCode, text, err)
		}
	})
	if wait := s.takeFor(t.Context(), reader.ID, nil); wait > 0 {
		t.Error("it was counted")
	}
}
