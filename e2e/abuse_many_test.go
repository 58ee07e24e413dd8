//go:build e2e && unix

package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/polltest"
)

// tokenHash returns the hash of a token for a configuration.
func tokenHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// The tokens of the callers of these tests.
const (
	annsToken = "anns-token-0123456789abcdef0123456789abcdef"
	bobsToken = "bobs-token-0123456789abcdef0123456789abcdef"
)

// callersConfig returns a configuration that admits two callers with equal rights, and many sessions.
func callersConfig(t *testing.T) string {
	return clitest.Write(t, t.TempDir(), "onecall.yaml", fmt.Sprintf("limits: {maxSessions: 80000}\naccess:\n  limits: {calls: 5000}\n"+
		"  tokens: [{name: ann, sha256: %q}, {name: bob, sha256: %q}]\n", tokenHash(annsToken), tokenHash(bobsToken)))
}

// TestManyAndLarge runs too many, too large and too slow clients. Afterwards the server must use about as much as before.
func TestManyAndLarge(t *testing.T) {
	t.Parallel()
	s := serveMeasured(t, callersConfig(t))
	ann := stateless(t, s.url).with(annsToken)
	work := func() {
		for range 50 { // an idle server would not collect its garbage
			checkServes(t, ann)
		}
	}
	type abuse struct {
		name string
		do   func(*testing.T, *measuredServer)
	}
	abuses := []abuse{
		{"bodies of 100 MB", hugeBodies}, {"bombs", bombs}, {"idle sessions", idleSessions}, {"chains at once", chainsAtOnce},
		{"slow headers", slowHeaders},
	}
	run := func(prefix string, list []abuse) {
		for _, a := range list {
			t.Run(prefix+a.name, func(t *testing.T) { a.do(t, s) })
			checkServes(t, ann)
		}
	}
	// One-time allocations are done by now. Go retains 0.4 KB for each goroutine at the peak.
	run("first ", abuses[:3])
	before := s.measureAtRest(t, work)
	run("", abuses)
	s.waitUntilSettled(t, before, map[string]float64{goroutinesUsed: 10, socketsUsed: 5, heapUsed: 2 * 6 << 20}, work)
}

// idleSessions opens ten thousand idle sessions of one caller. Some of them and a session of another caller must be served.
func idleSessions(t *testing.T, s *measuredServer) {
	count := 10_000
	if raceEnabled {
		count = 1000
	}
	before := s.sample(t)
	sessions := make([]*rawClient, count)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			client := httpClient(t)
			for i := worker; i < count; i += 8 {
				w := (&rawClient{url: s.url, client: client}).with(annsToken)
				if err := w.open(t); err != nil {
					t.Errorf("session %d: %v", i, err)
					return
				}
				sessions[i] = w
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	now := s.sample(t)
	t.Logf("an idle session takes %.1f KB and %.2f goroutines", (now[memoryUsed]-before[memoryUsed])/float64(count)/1024,
		(now[goroutinesUsed]-before[goroutinesUsed])/float64(count))
	bob := (&rawClient{url: s.url, client: httpClient(t)}).with(bobsToken)
	bob.begin(t)
	checkServes(t, bob, sessions[0], sessions[count-1])
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < count; i += 8 {
				if err := sessions[i].end(); err != nil {
					t.Errorf("session %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := bob.end(); err != nil {
		t.Error(err)
	}
}

// chainsAtOnce runs a thousand chains of clients that disconnect before any chain has ended.
func chainsAtOnce(t *testing.T, s *measuredServer) {
	const count = 1000
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := stateless(t, s.url).with(annsToken)
	body := w.message(t, "1", "tools/call", map[string]any{"name": "chain", "arguments": map[string]any{"steps": []any{map[string]any{
		"fn": "expr.eval", "args": map[string]any{"expression": "1"}, "repeat": map[string]any{"until": "$result == 2", "max": 1000,
			"delayMs": 10_000}}}}})
	var wg sync.WaitGroup
	for range count {
		wg.Go(func() {
			_, err := w.try(t, http.MethodPost, body, func(r *http.Request) { *r = *r.WithContext(ctx) })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("a chain that never ends: %v, want context canceled", err)
			}
		})
	}
	polltest.Until(t, "as many connections as chains", func() bool { return s.sample(t)[socketsUsed] >= count }, s.stderr)
	other := stateless(t, s.url).with(bobsToken)
	checkServes(t, other)
	cancel()
	wg.Wait()
}

// hugeBodies sends bodies of 100 MB, with and without a declared length. The server must refuse them without reading them.
func hugeBodies(t *testing.T, s *measuredServer) {
	w := stateless(t, s.url).with(annsToken)
	before, peak := s.sample(t)[memoryUsed], 0.0
	for _, declared := range []bool{true, false} {
		for range 5 {
			r, err := w.try(t, http.MethodPost, nil, func(r *http.Request) {
				r.Body, r.ContentLength = io.NopCloser(io.LimitReader(endlessBlanks{}, 100<<20)), -1
				if declared {
					r.ContentLength = 100 << 20
				}
			})
			if err == nil && r.status != http.StatusRequestEntityTooLarge {
				t.Errorf("length declared %v: status %d, want 413: %.200s", declared, r.status, r.body)
			}
			peak = max(peak, s.sample(t)[memoryUsed])
		}
	}
	t.Logf("memory rose from %.0f MB to %.0f MB", before/(1<<20), peak/(1<<20))
	if peak > before+200<<20 && !raceEnabled {
		t.Errorf("refused bodies took %.0f MB, want at most 200", (peak-before)/(1<<20))
	}
}

// bombs sends compressed bodies that would unpack to a large size. The server must refuse them, as they are not JSON.
func bombs(t *testing.T, s *measuredServer) {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if _, err := io.CopyN(zip, endlessBlanks{}, 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	bomb := bytes.Repeat(packed.Bytes(), 200) // concatenated gzip members are one file
	w := stateless(t, s.url).with(annsToken)
	before := s.sample(t)[memoryUsed]
	for _, encoding := range []string{"gzip", "deflate", "br", "zstd", "gzip, gzip", "identity"} {
		r := w.send(t, http.MethodPost, bomb, func(r *http.Request) { r.Header.Set("Content-Encoding", encoding) })
		if r.status < 400 || r.status > 499 {
			t.Errorf("encoding %s: status %d, want 4xx: %.200s", encoding, r.status, r.body)
		}
	}
	if growth := s.sample(t)[memoryUsed] - before; growth > 200<<20 && !raceEnabled {
		t.Errorf("refused bodies took %.0f MB, want at most 200", growth/(1<<20))
	}
}

// slowHeaders opens two hundred connections that send a byte now and then. The server must close them.
func slowHeaders(t *testing.T, s *measuredServer) {
	connections := make([]net.Conn, 200)
	for i := range connections {
		connections[i] = dial(t, s.url)
		if _, err := io.WriteString(connections[i], "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "); err != nil {
			t.Fatal(err)
		}
	}
	checkServes(t, stateless(t, s.url).with(annsToken))
	polltest.Until(t, "the server closes all connections", func() bool {
		open := 0
		for _, c := range connections {
			_ = c.SetDeadline(time.Now().Add(time.Millisecond))
			if _, err := io.WriteString(c, "x"); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				open++
			}
		}
		return open == 0
	}, s.stderr)
}
