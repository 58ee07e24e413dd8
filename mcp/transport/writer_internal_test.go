package transport

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
)

// serveWriter serves a handler as ServeHTTP does, in fake time; get requests it and returns what a client can read of the answer.
func serveWriter(t *testing.T, handler http.HandlerFunc, test func(t *testing.T, get func() (net.Conn, *bufio.Reader))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			patient := &writer{ResponseWriter: w}
			defer patient.extend()
			handler(patient, r)
		})}
		url := mcptest.ServeMemory(t, func(ctx context.Context, l net.Listener) error {
			defer context.AfterFunc(ctx, func() { server.Close() })()
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
		test(t, func() (net.Conn, *bufio.Reader) {
			client := mcptest.Dial(t, strings.TrimPrefix(url, "http://"))
			if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: here\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			return client, bufio.NewReaderSize(client, 16)
		})
	})
}

// TestSlowReader: a slow client gets all of a large answer, in one write or in many.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	for name, handler := range map[string]http.HandlerFunc{
		"one write": func(w http.ResponseWriter, _ *http.Request) {
			if n, err := io.WriteString(w, text); n != len(text) || err != nil {
				t.Errorf("wrote %d of %d bytes: %v", n, len(text), err)
			}
		},
		"a pause within the answer": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, text[:1<<19])
			w.(http.Flusher).Flush()
			time.Sleep(time.Hour)
			_, _ = io.WriteString(w, text[1<<19:])
		},
		"a pause before the end": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, text)
			w.(http.Flusher).Flush()
			time.Sleep(time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			serveWriter(t, handler, func(t *testing.T, get func() (net.Conn, *bufio.Reader)) {
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
					t.Errorf("read %d of %d bytes after %v: %v, want all of them after at least 4m, and EOF", got.Len(), len(text), took, err)
				}
			})
		})
	}
}

// TestClientDoesNotRead: a client that does not read is disconnected.
func TestClientDoesNotRead(t *testing.T) {
	t.Parallel()
	failed := make(chan error, 1)
	serveWriter(t, func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(make([]byte, 10*writeChunk))
		failed <- err
	}, func(t *testing.T, get func() (net.Conn, *bufio.Reader)) {
		began := time.Now()
		conn, reader := get()
		defer conn.Close()
		if _, err := reader.ReadByte(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(writeTimeout + time.Second) // net/http notices the error only later
		synctest.Wait()
		select {
		case err := <-failed:
			if took := time.Since(began); err == nil || took > 2*writeTimeout {
				t.Errorf("the write ended with %v after %v, want an error within %v", err, took, 2*writeTimeout)
			}
		default:
			t.Error("the write did not end")
		}
	})
}
