//go:build e2e && unix

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/console"
)

// window is a window of a browser with the console.
type window struct {
	t    testing.TB
	base string
	ctx  context.Context
}

// openWindow opens a window for the console of a server. excused are as for openBrowser.
func (s *httpServer) openWindow(t testing.TB, excused ...string) *window {
	t.Helper()
	return &window{t, strings.TrimSuffix(s.url, "/mcp") + console.Path, openBrowser(t, 1280, excused...)}
}

// login logs in with a token, by the keyboard.
func (w *window) login(token string) {
	w.t.Helper()
	w.do(chromedp.Navigate(w.base))
	w.await(`document.activeElement.id == "token"`)
	w.press(token + "\r")
	w.do(chromedp.WaitVisible(chromedp.CSS("#live")))
}

func (w *window) do(actions ...chromedp.Action[chromedp.Void]) {
	w.t.Helper()
	if err := chromedp.Do(w.ctx, actions...); err != nil {
		page, _ := chromedp.Run(w.ctx, chromedp.Evaluate[string](`document.documentElement.outerHTML`))
		w.t.Fatalf("%v: %s", err, page)
	}
}

// evaluate returns the value of an expression in the page.
func evaluate[T any](w *window, expression string) T {
	w.t.Helper()
	value, err := chromedp.Run(w.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		w.t.Fatalf("%.200s: %v", expression, err)
	}
	return value
}

// await waits until an expression in the page is true.
func (w *window) await(expression string) {
	w.t.Helper()
	if _, err := chromedp.Run(w.ctx, chromedp.Poll[bool](expression)); err != nil {
		w.t.Fatalf("%s: %v: %s", expression, err, evaluate[string](w, `document.documentElement.outerHTML`))
	}
}

// lists waits until the page lists a run of a chain.
func (w *window) lists(chain string) {
	w.t.Helper()
	w.await(fmt.Sprintf(`[...document.querySelectorAll("td")].some(e => e.textContent == %q)`, chain))
}

// press presses keys.
func (w *window) press(keys string) {
	w.t.Helper()
	for _, key := range keys {
		w.do(chromedp.KeyEvent(string(key)))
	}
}

// look shows a page at a width in a color scheme.
func (w *window) look(path string, width int64, scheme string) {
	w.t.Helper()
	w.do(chromedp.EmulateViewport(width, 900), func(ctx context.Context, t *chromedp.Target) (none chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return none, err
	}, chromedp.Navigate(w.base+path))
	takePicture(w.ctx, w.t, fmt.Sprintf("console-%s-%d-%s", strings.NewReplacer("/", "-", "?", "-").Replace(path), width, scheme))
}

// TestConsoleInBrowser: a person logs in by keyboard, and the list of runs shows the runs of other processes by itself, without touching
// what the person does. In no width and color scheme does the browser, its policy for the page or axe-core complain.
func TestConsoleInBrowser(t *testing.T) {
	t.Parallel()
	axe := axeScript(t)
	const boss = "oc_token-of-the-boss"
	config := bossConfig(t, t.TempDir(), boss)
	s := serveHTTP(t, config, "--console")
	s.runBeside(t, config, "earlier")
	w := s.openWindow(t, "/runs/run_nothing") // is no run, and says so with its status
	w.login(boss)
	w.lists("earlier.json")
	evaluate[bool](w, `document.querySelector("input[name=run]").focus() ?? true`)
	w.press("run_half")
	s.runBeside(t, config, "later") // by a process that the server knows nothing of
	w.lists("later.json")
	if at := evaluate[string](w, `document.activeElement.name + " " + document.activeElement.value`); at != "run run_half" {
		t.Errorf("after the update the focus and its text are %q", at)
	}
	s.runBeside(t, config, "last")
	w.lists("last.json")
	w.do(chromedp.Navigate(w.base))
	first := evaluate[string](w, `document.querySelector("#live tbody a").getAttribute("href")`)
	for _, path := range []string{"", "?status=failed", "login", "savings", "functions", "functions/state.get", "chains", "playground",
		"sources", "approvals", "runs/run_nothing",
		strings.TrimPrefix(first, console.Path)} {
		for _, width := range []int64{390, 1280} {
			for _, scheme := range []string{"light", "dark"} {
				w.look(path, width, scheme)
				w.wantAccessible(axe, fmt.Sprintf("%q, %d pixels, %s", path, width, scheme))
			}
		}
	}
}

// axeScript returns the script of axe-core.
func axeScript(t *testing.T) string {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(npmPackages(t), "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(script)
}

// wantAccessible checks the page that is shown.
func (w *window) wantAccessible(axe, where string) {
	w.t.Helper()
	if evaluate[bool](w, `document.documentElement.scrollWidth > innerWidth`) {
		w.t.Errorf("%s: the page is wider than the window", where)
	}
	found := evaluate[string](w, axe+`
axe.run().then(r => JSON.stringify(r.violations.map(v => ({id: v.id, at: v.nodes.map(n => n.html)}))))`)
	for _, v := range gjson.Parse(found).Array() {
		w.t.Errorf("%s: %s: %.600s", where, v.Get("id").Str, v.Get("at").Raw)
	}
}
