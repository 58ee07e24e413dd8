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

// slowly serves a handler as ServeHTTP does, in fake time; get asks it, and gives what a client may read of the answer.
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
