//go:build e2e && unix

package e2e

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/internal/porttest"
)

// isAway are the ends of what a browser says of a server that is not there.
var isAway = []string{"ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_EMPTY_RESPONSE",
	"ERR_CONNECTION_CLOSED"}

// bossConfig writes a configuration with the token of an administrator who may act.
func bossConfig(t *testing.T, folder, token string) string {
	t.Helper()
	return clitest.Write(t, folder, "onecall.yaml",
		fmt.Sprintf("access: {tokens: [{name: boss, sha256: %q, tier: admin, console: approve}]}\n", tokenHash(token)))
}

// runBeside has another process run a chain whose name in lists is name.json.
func (s *httpServer) runBeside(t *testing.T, config, name string) {
	t.Helper()
	cmd := clitest.Self(t, t.TempDir(), "run", "--config", config, clitest.Write(t, t.TempDir(), name+".json", `{"steps":[{"expr":"6*7"}]}`))
	cmd.Env = s.cmd.Env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("onecall run: %v: %s", err, out)
	}
}

// says waits until the page says that the connection is lost or a login is needed ("lost", "login"), or nothing of the kind ("").
func (w *window) says(state string) {
	w.t.Helper()
	w.await(fmt.Sprintf(`[...document.querySelectorAll("#connection p")].filter(e => e.checkVisibility()).map(e => e.dataset.state).join() == %q`, state))
}

// write types a text into a field of the page. wrote checks that it is still there.
func (w *window) write(field, text string) (wrote func()) {
	w.t.Helper()
	evaluate[bool](w, fmt.Sprintf(`document.querySelector(%q).focus() ?? true`, field))
	w.press(text)
	return func() {
		w.t.Helper()
		if got := evaluate[string](w, fmt.Sprintf(`document.activeElement.matches(%q) ? document.activeElement.value : "no focus"`, field)); got != text {
			w.t.Errorf("the field %s with the focus has %q, want %q", field, got, text)
		}
	}
}

// TestOpenPageLosesServer: an open page says that the connection is lost while the server is away. When it is back, the page shows what has
// happened meanwhile, and has kept what was typed.
func TestOpenPageLosesServer(t *testing.T) {
	t.Parallel()
	const boss = "oc_token-of-the-boss"
	folder, port := t.TempDir(), porttest.Reserve(t)
	config := bossConfig(t, folder, boss)
	serve := func() *httpServer {
		s := &httpServer{stderr: new(logTail), ended: make(chan error, 1)}
		s.cmd = clitest.Self(t, folder, "serve", "--http", "127.0.0.1:"+port, "--config", config, "--console")
		s.listen(t)
		return s
	}
	s := serve()
	w := s.openWindow(t, isAway...)
	w.login(boss)
	wrote := w.write("input[name=run]", "run_half")
	s.end(t)
	w.says("lost")
	s.runBeside(t, config, "meanwhile")
	s = serve()
	w.says("")
	w.lists("meanwhile.json")
	wrote()
	w.do(chromedp.Navigate(w.base + "playground"))
	wrote = w.write("#text", "steps: []")
	s.end(t)
	w.says("lost")
	wrote()
	serve()
	w.says("")
	wrote()
}

// TestOpenPageNeedsLogin: an open page says that it needs a login, with a link, when a reload takes its token away, and when the browser has
// logged out in another window. It goes on once the token is there again, and has kept what was typed.
func TestOpenPageNeedsLogin(t *testing.T) {
	t.Parallel()
	const boss, other = "oc_token-of-the-boss", "oc_token-of-another"
	folder := t.TempDir()
	config := bossConfig(t, folder, boss)
	s := serveHTTP(t, config, "--console")
	reloads := 0
	reload := func(token string) {
		t.Helper()
		bossConfig(t, folder, token)
		hangUp(t, s.cmd)
		reloads++
		waitForLog(t, s.stderr, logReloaded, reloads)
	}
	w := s.openWindow(t, "(Unauthorized)")
	w.login(boss)
	for path, field := range map[string]string{"": "input[name=run]", "playground": "#text"} {
		w.do(chromedp.Navigate(w.base + path))
		wrote := w.write(field, "half a word")
		reload(other)
		w.says("login")
		if to := evaluate[string](w, `document.querySelector("#connection p:not([hidden]) a").href`); to != w.base+"login" {
			t.Errorf("the link leads to %s", to)
		}
		wrote()
		reload(boss)
		w.says("")
		wrote()
	}
	w.do(chromedp.Navigate(w.base))
	w.says("")
	evaluate[int](w, `fetch("/console/logout", {method: "POST"}).then(r => r.status)`)
	w.says("login")
}

// streamProxy is a proxy before a server that holds the events of streams back.
type streamProxy struct {
	*httptest.Server
	opened atomic.Int32 // the streams so far
	open   atomic.Int32 // those that the browser has not left
	held   atomic.Int32 // how many of them, the first ones, get no events any more
	asked  atomic.Bool  // a stream has asked not to be held back

	hung atomic.Pointer[chan struct{}] // requests are not answered until it is closed; nil: they are
}

func newStreamProxy(t *testing.T, server string) *streamProxy {
	t.Helper()
	to, err := url.Parse(strings.TrimSuffix(server, "/mcp"))
	if err != nil {
		t.Fatal(err)
	}
	p := &streamProxy{}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
		},
		FlushInterval: -1,
		ModifyResponse: func(r *http.Response) error {
			if strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
				p.asked.Store(r.Header.Get("X-Accel-Buffering") == "no")
				p.open.Add(1)
				context.AfterFunc(r.Request.Context(), func() { p.open.Add(-1) })
				r.Body = &heldBody{r.Body, p, p.opened.Add(1), r.Request.Context()}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }, // the browser has left
	}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hung := p.hung.Load(); hung != nil {
			select {
			case <-*hung:
			case <-r.Context().Done():
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(p.CloseClientConnections)
	return p
}

// heldBody is the body of a stream through a streamProxy.
type heldBody struct {
	io.ReadCloser
	proxy  *streamProxy
	number int32
	ctx    context.Context // ends when the browser leaves
}

// Read implements io.Reader.
func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.number <= b.proxy.held.Load() {
		<-b.ctx.Done()
		return 0, b.ctx.Err()
	}
	return n, err
}

// later has a page believe that its clock has gone on by some time, as after a sleep.
func (w *window) later(milliseconds int) {
	w.t.Helper()
	evaluate[bool](w, fmt.Sprintf(`(now => { Date.now = () => now() + %d; return true })(Date.now)`, milliseconds))
}

// TestPageWithoutEvents: where a proxy holds events back, an open page is up to date all the same. So it is when the browser has slept for a
// day and its stream is dead without an end: it opens another one.
func TestPageWithoutEvents(t *testing.T) {
	t.Parallel()
	const boss = "oc_token-of-the-boss"
	config := bossConfig(t, t.TempDir(), boss)
	s := serveHTTP(t, config, "--console")
	proxy := newStreamProxy(t, s.url)
	w := (&httpServer{url: proxy.URL + "/mcp"}).openWindow(t, isAway...)
	proxy.held.Store(math.MaxInt32)
	w.login(boss)
	s.runBeside(t, config, "held")
	w.later(25_000)
	w.lists("held.json")
	w.says("")
	if !proxy.asked.Load() {
		t.Error("the stream does not ask proxies to let its events through")
	}
	proxy.held.Store(0)
	w.do(chromedp.Navigate(w.base))
	s.runBeside(t, config, "told")
	w.lists("told.json")
	before := proxy.opened.Load()
	proxy.held.Store(before)
	s.runBeside(t, config, "slept")
	w.later(24 * 60 * 60 * 1000)
	w.lists("slept.json")
	s.runBeside(t, config, "awake")
	w.lists("awake.json")
	if proxy.opened.Load() == before {
		t.Error("the page has not opened another stream")
	}
	w.says("")
}

// TestNetworkHangs: an open page says that the connection is lost when nothing answers any more, without an error.
func TestNetworkHangs(t *testing.T) {
	t.Parallel()
	const boss = "oc_token-of-the-boss"
	s := serveHTTP(t, bossConfig(t, t.TempDir(), boss), "--console")
	proxy := newStreamProxy(t, s.url)
	w := (&httpServer{url: proxy.URL + "/mcp"}).openWindow(t, isAway...)
	w.login(boss)
	for _, path := range []string{"", "playground"} {
		opened := proxy.opened.Load()
		w.do(chromedp.Navigate(w.base + path))
		polltest.Until(t, "the page has a stream", func() bool { return proxy.opened.Load() > opened }, s.stderr)
		w.says("")
		hung := make(chan struct{})
		proxy.hung.Store(&hung)
		proxy.held.Store(math.MaxInt32)
		w.later(25_000)
		w.says("lost")
		proxy.held.Store(0)
		proxy.hung.Store(nil)
		close(hung)
		w.says("")
	}
}

// TestPagesInBackground: pages that were opened in the background hold no stream, of which a browser has six for all of them. One that is
// looked at then has one.
func TestPagesInBackground(t *testing.T) {
	t.Parallel()
	const boss = "oc_token-of-the-boss"
	config := bossConfig(t, t.TempDir(), boss)
	s := serveHTTP(t, config, "--console")
	proxy := newStreamProxy(t, s.url)
	w := (&httpServer{url: proxy.URL + "/mcp"}).openWindow(t)
	w.login(boss)
	w.do(func(ctx context.Context, target *chromedp.Target) (none chromedp.Void, err error) {
		_, err = cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
			Source: `Object.defineProperty(document, "hidden", {value: true, writable: true})`})
		return none, err
	})
	w.do(chromedp.Navigate(w.base))
	polltest.Until(t, "all streams are closed", func() bool { return proxy.opened.Load() > 1 && proxy.open.Load() == 0 }, s.stderr)
	s.runBeside(t, config, "unseen")
	evaluate[bool](w, `(document.hidden = false) || document.dispatchEvent(new Event("visibilitychange"))`)
	w.lists("unseen.json")
	if got := proxy.open.Load(); got != 1 {
		t.Errorf("a page that is looked at has %d streams, want 1", got)
	}
}
