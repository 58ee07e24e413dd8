//go:build e2e && unix

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// TestConsoleEnter: Enter in the reason and in a checkbox decides nothing. A button does, with the reason.
func TestConsoleEnter(t *testing.T) {
	t.Parallel()
	const boss = "oc_token-of-the-boss"
	folder := t.TempDir()
	config := clitest.Write(t, folder, "onecall.yaml", fmt.Sprintf(`
commands: {note: {run: [/bin/sh, -c, 'echo done >>notes.txt'], effect: write}}
fs: {root: %q}
approve: write
access: {tokens: [{name: boss, sha256: %q, tier: admin, console: approve}]}
`, folder, tokenHash(boss)))
	s := serveHTTP(t, config, "--console")
	note := map[string]any{"fn": "sh.note"}
	text, _ := stateless(t, s.url).with(boss).tool(t, "chain", map[string]any{"steps": []any{note, note}})
	run := gjson.Get(text, "resume").Str
	if run == "" {
		t.Fatal(text)
	}
	w := s.openWindow(t)
	w.login(boss)
	for _, query := range []string{"", "?at=0"} {
		w.do(chromedp.Navigate(w.base + "runs/" + run + "/approve" + query))
		evaluate[bool](w, `document.querySelector("[name=reason]").focus() ?? true`)
		w.press("not this\rnor that\r")
		evaluate[bool](w, `document.querySelector("[type=checkbox]").focus() ?? true`)
		w.press(" ")
		w.follow()
		if !evaluate[bool](w, `document.querySelector("[type=checkbox]").checked`) {
			t.Error("after Enter in a checkbox it is not chosen any more")
		}
		w.do(chromedp.Navigate(w.base + "runs/" + run))
		w.do(chromedp.WaitVisible(chromedp.CSS("a[href$='/approve']")))
	}
	w.do(chromedp.Navigate(w.base + "runs/" + run + "/approve"))
	evaluate[bool](w, `document.querySelector("[name=reason]").focus() ?? true`)
	w.press("not this\rnor that\r")
	evaluate[bool](w, `document.querySelector("button[value=deny-all]").click() ?? true`)
	w.do(chromedp.WaitVisible(chromedp.CSS("#live")))
	if page := evaluate[string](w, `document.body.innerText`); !strings.Contains(page, "not this nor that") {
		t.Errorf("the denied run has no reason: %s", page)
	}
	if _, err := os.Stat(filepath.Join(folder, "notes.txt")); err == nil {
		t.Error("a denied call was made")
	}
}
