//go:build e2e && unix

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/polltest"
)

// tabTo presses Tab until an element that matches the selector has the focus, which must be visible there. Elements are gone through in
// their order, from the one that has the focus.
func (w *window) tabTo(selector string) {
	w.t.Helper()
	var passed []string
	for range 80 {
		w.press("\t")
		state := evaluate[string](w, fmt.Sprintf(`(e => {
			const shows = e => { const s = getComputedStyle(e); return s.outlineStyle != "none" && parseFloat(s.outlineWidth) >= 1 };
			const at = e.outerHTML.slice(0, 80);
			return !shows(e) && !shows(e.closest(".prism-code-editor") ?? e) ? "unseen " + at : e.matches(%q) ? "here" : at;
		})(document.activeElement)`, selector))
		if state == "here" {
			return
		}
		if passed = append(passed, state); strings.HasPrefix(state, "unseen ") && !strings.HasPrefix(state, "unseen <body") {
			w.t.Errorf("on the way to %s the focus is not visible: %s", selector, state)
		}
	}
	w.t.Fatalf("%s cannot be reached by Tab, but: %s", selector, strings.Join(passed, "\n"))
}

// enter goes to an element and presses Enter. It waits for another page.
func (w *window) enter(selector string) {
	w.t.Helper()
	w.tabTo(selector)
	w.follow()
}

// follow presses Enter, and waits for another page.
func (w *window) follow() {
	w.t.Helper()
	evaluate[bool](w, `window.left = true`)
	w.press("\r")
	polltest.Until(w.t, "Enter leads to another page", func() bool {
		there, err := chromedp.Run(w.ctx, chromedp.Evaluate[bool](`!window.left && document.readyState == "complete"`))
		return err == nil && there // while it is left, the page cannot be asked
	})
}

// wantAccessibleWhenNarrow checks the page that is shown on a narrow window.
func (w *window) wantAccessibleWhenNarrow(axe string) {
	w.t.Helper()
	w.do(chromedp.EmulateViewport(390, 900))
	w.wantAccessible(axe, evaluate[string](w, `location.pathname`)+", narrow")
	takePicture(w.ctx, w.t, "console-narrow-"+evaluate[string](w, `document.title.replaceAll("/", "")`))
	w.do(chromedp.EmulateViewport(1280, 900))
}

// hasText waits until the page has a text.
func (w *window) hasText(text string) {
	w.t.Helper()
	w.await(fmt.Sprintf(`document.body.innerText.includes(%q)`, text))
}

// TestConsoleByKeyboard: a failed run is corrected, resumed, approved, undone and compared by the keyboard alone, and so are functions,
// sources, chains and the playground used. The focus is visible wherever it is, and stays where it is when the page is brought up to date.
func TestConsoleByKeyboard(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(string(body), `"n":0`) {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
		fmt.Fprint(w, `{"id":"x"}`)
	}))
	t.Cleanup(service.Close)
	const boss = "oc_token-of-the-boss"
	axe, folder := axeScript(t), t.TempDir()
	inner, err := json.Marshal(upstreamOf(t, folder, "inner"))
	if err != nil {
		t.Fatal(err)
	}
	config := clitest.Write(t, folder, "onecall.yaml", fmt.Sprintf(`
mcpServers: {inner: %s}
http:
  allow: [%q]
  endpoints:
    order: {method: POST, url: "%[3]s/order", body: {n: $input.n}}
    drop: {method: DELETE, url: "%[3]s/order"}
    mail: {method: POST, url: "%[3]s/mail"}
functions: {http.order: {undo: {fn: http.drop}}, http.mail: {approve: write}}
access: {tokens: [{name: boss, sha256: %[4]q, tier: admin, console: approve}]}
`, inner, strings.TrimPrefix(service.URL, "http://"), service.URL, tokenHash(boss)))
	if err := os.Mkdir(folder+"/chains", 0o700); err != nil {
		t.Fatal(err)
	}
	clitest.Write(t, folder+"/chains", "double.chain.json", `{"params":{"n":{"type":"integer"}},"steps":[{"expr":"$input.n * 2"}]}`)
	s := serveHTTP(t, config, "--console")
	failing := clitest.Write(t, folder, "shop.chain.json",
		`{"name":"shop","steps":[{"fn":"http.order","args":{"n":1}},{"fn":"http.order","args":{"n":0}},{"http.mail":{}},{"http.mail":{}}]}`)
	for range 2 {
		cmd := clitest.Self(t, folder, "run", "--config", config, failing)
		cmd.Env = s.cmd.Env
		if out, err := cmd.Output(); clitest.ExitCode(err) != "1" {
			t.Fatalf("%v: %s", err, out)
		}
	}
	w := s.openWindow(t)
	w.login(boss)
	w.lists("shop")

	w.tabTo(`#live tbody a`)
	run := evaluate[string](w, `document.activeElement.textContent`)
	s.runBeside(t, config, "another") // a row above
	w.lists("another.json")
	if at := evaluate[string](w, `document.activeElement.textContent`); at != run {
		t.Errorf("after a change of the list the focus is on %q, want %q", at, run)
	}
	w.follow()
	w.hasText("Unprocessable")

	w.enter(`a[href$="/fix"]`)
	w.tabTo("#text")
	w.press(strings.Repeat(kb.ArrowRight, evaluate[int](w, `document.activeElement.value.indexOf('"n": 0') + 5`)) + kb.Delete + "2")
	w.enter(`button[value=preview]`)
	w.hasText("What a resume does")
	w.wantAccessibleWhenNarrow(axe)
	w.enter(`button[value=resume]`)
	w.hasText("Calls wait for approval")
	w.wantAccessibleWhenNarrow(axe)
	w.enter(`a[href$="/approve"]`)
	w.wantAccessibleWhenNarrow(axe)
	w.tabTo(`input[type=checkbox]`)
	w.press(" ")
	w.tabTo(`textarea[name=reason]`)
	w.press("go on")
	w.enter(`button[value=approve-all]`)
	w.hasText("approved")
	w.wantAccessibleWhenNarrow(axe)
	w.enter(`form[action$="/resume"] button`)
	w.await(`!!document.querySelector(".status.ok")`)

	w.do(chromedp.Navigate(w.base + "runs/" + run))
	w.enter(`a[href$="/compare"]`)
	w.hasText("They differ.")
	w.wantAccessibleWhenNarrow(axe)
	w.enter(`h1 a`)
	w.enter(`a[href$="/undo"]`)
	w.wantAccessibleWhenNarrow(axe)
	w.enter(`main button`)
	w.hasText("not undone")

	w.enter(`nav a[href$="/functions"]`)
	w.tabTo(`input[name=q]`)
	w.press("order")
	w.enter(`main form button`)
	w.enter(`a[href$="/functions/http.order"]`)
	w.hasText("http.order(")
	w.wantAccessibleWhenNarrow(axe)

	w.enter(`nav a[href$="/sources"]`)
	w.await(`!!document.querySelector("[action$='/sources/inner'] button") && !!document.querySelector(".status.ready")`)
	w.tabTo(`summary`)
	w.press("\r")
	own := filepath.Join(folder, "inner.own.yaml")
	if err := os.Rename(own, own+".away"); err != nil { // it cannot start again
		t.Fatal(err)
	}
	w.enter(`[action$="/sources/inner"] button`)
	waitForLog(t, s.stderr, "a source is restarted", 1)
	w.await(`!!document.querySelector(".status.retrying")`)
	evaluate[bool](w, `window.stays = true`)
	if err := os.Rename(own+".away", own); err != nil {
		t.Fatal(err)
	}
	w.await(`!!document.querySelector(".status.ready")`) // the page keeps itself up to date
	if !evaluate[bool](w, `!!window.stays`) {
		t.Error("the page of sources was left")
	}
	w.wantAccessibleWhenNarrow(axe)

	w.enter(`nav a[href$="/chains"]`)
	w.enter(`a[href$="/chains/chain.double"]`)
	w.wantAccessibleWhenNarrow(axe)
	w.tabTo(`[name="param.n"]`)
	w.press("21")
	w.enter(`main button`)
	w.await(`document.querySelector("pre.block").textContent == "42"`)

	w.enter(`nav a[href$="/playground"]`)
	w.await(`document.activeElement.id == "text"`)
	w.press(`{"steps":[{"expr":"6 * 7"}]}`)
	w.hasText("nothing is wrong")
	w.wantAccessibleWhenNarrow(axe)
	if at := evaluate[string](w, `document.activeElement.id`); at != "text" {
		t.Errorf("after the check the focus is on %q", at)
	}
	w.enter(`button[value=run]`)
	w.await(`document.querySelector("pre.block").textContent == "42"`)
	w.enter(`main form button`)
	w.await(`document.querySelector("#text").value.includes("6 * 7")`)
}
