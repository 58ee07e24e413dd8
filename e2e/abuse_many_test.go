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
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// tokenHash returns the hash of a token, as a configuration has it.
func tokenHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// The tokens of the callers of these tests.
const (
	annsToken = "anns-token-0123456789abcdef0123456789abcdef"
	bobsToken = "bobs-token-0123456789abcdef0123456789abcdef"
)

// elapsedField differs from one answer to the next.
var elapsedField = regexp.MustCompile(`"ms":\d+`)

// callersConfig admits two callers with equal rights, and has room for many sessions.
func callersConfig(t *testing.T) string {
	return clitest.Write(t, t.TempDir(), "onecall.yaml", fmt.Sprintf("limits: {maxSessions: 80000}\naccess:\n  limits: {calls: 5000}\n"+
		"  tokens: [{name: ann, sha256: %q}, {name: bob, sha256: %q}]\n", tokenHash(annsToken), tokenHash(bobsToken)))
}

// TestManyAndLarge runs clients that are too many, too large or too slow. When they are gone, the server uses what it used before.
func TestManyAndLarge(t *testing.T) {
	t.Parallel()
	s := serveWatched(t, callersConfig(t))
	ann := stateless(t, s.url).with(annsToken)
	work := func() {
		for range 50 { // an idle server does not collect garbage either
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
	do := func(when string, some []abuse) {
		for _, one := range some {
			t.Run(when+one.name, func(t *testing.T) { one.do(t, s) })
			checkServes(t, ann)
		}
	}
	// One-time allocations are done by now. Go keeps the descriptors of the largest number of goroutines, 0.4 KB each.
	do("first ", abuses[:3])
	before := s.measureAtRest(t, work)
	do("", abuses)
	s.waitUntilSettled(t, before, map[string]float64{goroutinesUsed: 10, socketsUsed: 5, heapUsed: 2 * 6 << 20}, work)
}

// idleSessions opens ten thousand idle sessions of one client, and a few of another, which are served meanwhile.
func idleSessions(t *testing.T, s *measuredServer) {
	many := 10_000
	if raceEnabled {
		many = 1000
	}
	before := s.sample(t)
	sessions := make([]*rawClient, many)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			client := httpClient(t)
			for i := worker; i < many; i += 8 {
				w := (&rawClient{url: s.url, client: client}).with(annsToken)
				if err := w.open(t); err != nil {
					t.Errorf("session %d: %v", i, err)
					return
				}
				sessions[i] = w
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	now := s.sample(t)
	t.Logf("an idle session takes %.1f KB and %.2f goroutines", (now[memoryUsed]-before[memoryUsed])/float64(many)/1024,
		(now[goroutinesUsed]-before[goroutinesUsed])/float64(many))
	bob := (&rawClient{url: s.url, client: httpClient(t)}).with(bobsToken)
	bob.begin(t)
	checkServes(t, bob, sessions[0], sessions[many-1])
	for worker := range 8 {
		all.Go(func() {
			for i := worker; i < many; i += 8 {
				if err := sessions[i].end(); err != nil {
					t.Errorf("session %d: %v", i, err)
					return
				}
			}
		})
	}
	all.Wait()
	if err := bob.end(); err != nil {
		t.Error(err)
	}
}

// chainsAtOnce runs a thousand chains of clients that leave before any has ended.
func chainsAtOnce(t *testing.T, s *measuredServer) {
	const many = 1000
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := stateless(t, s.url).with(annsToken)
	body := w.message(t, "1", "tools/call", map[string]any{"name": "chain", "arguments": map[string]any{"steps": []any{map[string]any{
		"fn": "expr.eval", "args": map[string]any{"expression": "1"}, "repeat": map[string]any{"until": "$result == 2", "max": 1000,
			"delayMs": 10_000}}}}})
	var all sync.WaitGroup
	for range many {
		all.Go(func() {
			_, err := w.try(t, http.MethodPost, body, func(r *http.Request) { *r = *r.WithContext(ctx) })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("a chain that waits has ended: %v", err)
			}
		})
	}
	eventually(t, "as many connections as chains", s.stderr, func() bool { return s.sample(t)[socketsUsed] >= many })
	other := stateless(t, s.url).with(bobsToken)
	checkServes(t, other)
	cancel()
	all.Wait()
}

// hugeBodies are refused before they are read, with and without a declared length.
func hugeBodies(t *testing.T, s *measuredServer) {
	w := stateless(t, s.url).with(annsToken)
	before, maxBytes := s.sample(t)[memoryUsed], 0.0
	for _, known := range []bool{true, false} {
		for range 5 {
			r, err := w.try(t, http.MethodPost, nil, func(r *http.Request) {
				r.Body, r.ContentLength = io.NopCloser(io.LimitReader(endlessBlanks{}, 100<<20)), -1
				if known {
					r.ContentLength = 100 << 20
				}
			})
			if err == nil && r.status != http.StatusRequestEntityTooLarge {
				t.Errorf("length known %v: %d %.200s", known, r.status, r.body)
			}
			maxBytes = max(maxBytes, s.sample(t)[memoryUsed])
		}
	}
	t.Logf("from %.0f MB the server has come to %.0f", before/(1<<20), maxBytes/(1<<20))
	if maxBytes > before+200<<20 && !raceEnabled {
		t.Errorf("%.0f MB are used for bodies that are refused", (maxBytes-before)/(1<<20))
	}
}

// bombs are compressed bodies that would unpack to a large size. They are refused because they are not JSON.
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
			t.Errorf("%s: %d %.200s", encoding, r.status, r.body)
		}
	}
	if more := s.sample(t)[memoryUsed] - before; more > 200<<20 && !raceEnabled {
		t.Errorf("%.0f MB are used for what is refused", more/(1<<20))
	}
}

// slowHeaders opens two hundred connections that send a byte now and then. The server does not wait for them.
func slowHeaders(t *testing.T, s *measuredServer) {
	connections := make([]net.Conn, 200)
	for i := range connections {
		connections[i] = dial(t, s.url)
		if _, err := io.WriteString(connections[i], "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "); err != nil {
			t.Fatal(err)
		}
	}
	checkServes(t, stateless(t, s.url).with(annsToken))
	eventually(t, "the server closes all connections", s.stderr, func() bool {
		open := 0
		for _, c := range connections {
			_ = c.SetDeadline(time.Now().Add(time.Millisecond))
			if _, err := io.WriteString(c, "x"); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				open++
			}
		}
		return open == 0
	})
}

// TestPathsAndHosts checks that there is one endpoint, with one path.
func TestPathsAndHosts(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t, callersConfig(t))
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list",` +
		`"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"}}}}`
	ask := func(target, host, more string) (status int, body string) {
		c := dial(t, s.url)
		_ = c.SetDeadline(time.Now().Add(clitest.TooLong))
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Type: application/json\r\nAccept: "+
			"application/json, text/event-stream\r\n"+
			"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n%sContent-Length: %d\r\n\r\n%s\r\n", target, host, more, len(list), list)
		text, err := io.ReadAll(c)
		if err != nil {
			t.Fatalf("%s of %s, %q: %v", target, host, more, err)
		}
		_, _ = fmt.Sscanf(string(text), "HTTP/1.1 %d", &status) // 0 if there is none
		return status, string(text)
	}
	token := "Authorization: Bearer " + annsToken + "\r\n"
	if status, body := ask("/mcp", u.Host, token); status != 200 || !strings.Contains(body, `"chain"`) {
		t.Fatalf("the way in: %d %s", status, body)
	}
	refusedWith := func(what, target, host, more string) {
		t.Helper()
		if status, body := ask(target, host, more); status == 200 || status == 0 || status >= 500 || strings.Contains(body, `"tools"`) {
			t.Errorf("%s: %d %.300s", what, status, body)
		}
	}
	for _, target := range []string{"//mcp", "/mcp/", "/mcp/../mcp", "/mcp/..", "/./mcp", "/%2e/mcp", "/x/%2e%2e/mcp", "/mcp%2f",
		"/mcp%00", "/MCP", "/mcp;x", "/mcp%3Fa", "/mcp\\", "/%6Dcp/x", "*"} {
		refusedWith("the path "+target, target, u.Host, "")
		if status, _ := ask(target, u.Host, token); status == 200 {
			t.Errorf("%s leads in with a token", target)
		}
	}
	for _, host := range []string{
		"evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "evil.example:80", "127.0.0.1@evil.example",
		"user@127.0.0.1.evil", "2130706433.evil", "0.0.0.0", "[::]", "[::1].evil", "127.0.0.1,evil.example", "localhost%00.evil", "169.254.169.254", "",
	} {
		refusedWith("the host "+host, "/mcp", host, token)
	}
	for _, origin := range []string{"http://evil.example", "null", "file://", "http://localhost.evil.example",
		"http://127.0.0.1.evil.example", "https://evil.example#127.0.0.1", "http://127.0.0.1@evil.example", "javascript:1", "chrome-extension://abc", " http://evil.example"} {
		refusedWith("the origin "+origin, "/mcp", u.Host, token+"Origin: "+origin+"\r\n")
	}
	refusedWith("an absolute target", "http://evil.example/mcp", u.Host, token)
	refusedWith("a second host", "/mcp", u.Host, token+"Host: evil.example\r\n")
	refusedWith("no length", "/mcp", u.Host, token+"Transfer-Encoding: chunked\r\n") // and a length: one of them lies
	for _, header := range []string{"X-Forwarded-Host: 127.0.0.1", "Forwarded: host=127.0.0.1", "X-Original-Host: localhost",
		"X-Forwarded-For: 127.0.0.1"} {
		refusedWith(header, "/mcp", "evil.example", token+header+"\r\n")
	}
}

// TestTokensStayWhereTheyBelong checks that a token is accepted only in its header, and never repeated in an answer.
func TestTokensStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t, callersConfig(t))
	without := stateless(t, s.url)
	list := without.message(t, "1", "tools/list", nil)
	for name, change := range map[string]func(*http.Request){
		"a query":        func(r *http.Request) { r.URL.RawQuery = "access_token=" + annsToken },
		"another query":  func(r *http.Request) { r.URL.RawQuery = "surface=chain&token=" + annsToken },
		"a user":         func(r *http.Request) { r.SetBasicAuth("ann", annsToken) },
		"a cookie":       func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "access_token", Value: annsToken}) },
		"another header": func(r *http.Request) { r.Header.Set("X-Api-Key", annsToken) },
		"no scheme":      func(r *http.Request) { r.Header.Set("Authorization", annsToken) },
		"another scheme": func(r *http.Request) { r.Header.Set("Authorization", "Token "+annsToken) },
		"two of them": func(r *http.Request) {
			r.Header["Authorization"] = []string{"Bearer " + annsToken, "Bearer " + bobsToken}
		},
		"two in one":       func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+annsToken+", Bearer "+bobsToken) },
		"its hash":         func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+tokenHash(annsToken)) },
		"a part":           func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+annsToken[:len(annsToken)-1]) },
		"too much":         func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+annsToken+"x") },
		"another case":     func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+strings.ToUpper(annsToken)) },
		"nothing":          func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") },
		"a very long one":  func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+strings.Repeat("x", 40_000)) },
		"an unsigned JWT":  func(r *http.Request) { r.Header.Set("Authorization", "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.") },
		"in the message":   func(r *http.Request) { r.Header.Set("Mcp-Name", annsToken) },
		"as proxies do it": func(r *http.Request) { r.Header.Set("Proxy-Authorization", "Bearer "+annsToken) },
	} {
		r := without.send(t, http.MethodPost, list, change)
		if r.status < 400 || r.status > 499 || strings.Contains(string(r.body)+fmt.Sprint(r.header), annsToken) {
			t.Errorf("%s: %d %v %s", name, r.status, r.header, r.body)
		}
	}
	if r := without.with(annsToken).send(t, http.MethodPost, list,
		func(r *http.Request) { r.URL.RawQuery = "access_token=" + annsToken }); r.status == http.StatusOK {
		t.Errorf("a token stands in the query beside the header: %d %s", r.status, r.body)
	}
	if log := s.stderr.String(); strings.Contains(log, annsToken) || strings.Contains(log, tokenHash(annsToken)) {
		t.Errorf("a token is logged: %s", log)
	}
}

// TestForeignSessionsAndResults checks that the sessions and results of one caller do not exist for another with equal rights.
func TestForeignSessionsAndResults(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t, callersConfig(t))
	ann, bob := (&rawClient{url: s.url, client: httpClient(t)}).with(annsToken),
		(&rawClient{url: s.url, client: httpClient(t)}).with(bobsToken)
	ann.begin(t)
	bob.begin(t)
	token := makeProbe(t, ann)
	page := func(w *rawClient, token string) string {
		text, _ := pageOf(t, w, token, 1)
		return text
	}
	guessed := token[:len(token)-4] + "AAAA"
	if got := page(ann, token); gjson.Get(got, "items.0.id").Int() != 1 {
		t.Fatalf("its own: %s", got)
	}
	plain := func(text string) string { return elapsedField.ReplaceAllString(text, "") }
	if foreign, unknown := plain(page(bob, token)), plain(page(bob, guessed)); foreign != unknown ||
		!strings.Contains(foreign, "token_expired") {
		t.Errorf("a foreign token:\n%s\na guessed one:\n%s", foreign, unknown)
	}
	// Bob uses Ann's session, an invented one, and none.
	answers := map[string]string{}
	for name, id := range map[string]string{"foreign": ann.session, "unknown": ann.session[:len(ann.session)-2] + "AA",
		"fixed": "chosen-by-the-client"} {
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			w := *bob
			w.session = id
			var body []byte
			if method == http.MethodPost {
				body = w.message(t, "1", "tools/list", nil)
			}
			r := w.send(t, method, body, nil)
			if r.status == http.StatusOK || r.status >= 500 {
				t.Errorf("%s %s: %d %s", name, method, r.status, r.body)
			}
			answers[name+method] = fmt.Sprint(r.status, " ", string(r.body))
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		if answers["foreign"+method] != answers["unknown"+method] {
			t.Errorf("%s of a foreign session: %s; of an unknown one: %s", method, answers["foreign"+method], answers["unknown"+method])
		}
	}
	// A client cannot choose its session id: the id in its first message is ignored.
	w := (&rawClient{url: s.url, client: httpClient(t)}).with(bobsToken)
	r := w.send(t, http.MethodPost, []byte(initialize), func(r *http.Request) { r.Header.Set("Mcp-Session-Id", "chosen-by-the-client") })
	if id := r.header.Get("Mcp-Session-Id"); id == "chosen-by-the-client" {
		t.Errorf("the server takes the client's id: %d %v", r.status, r.header)
	}
	checkServes(t, ann, bob) // their sessions have not ended
	for _, w := range []*rawClient{ann, bob} {
		if err := w.end(); err != nil {
			t.Error(err)
		}
	}
}
