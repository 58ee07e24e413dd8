//go:build e2e && unix

package e2e

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// TestPlaygroundInBrowser: faults of a chain are shown as it is typed, without taking the text or the focus away, and a run is answered.
func TestPlaygroundInBrowser(t *testing.T) {
	t.Parallel()
	const boss = "oc_token-of-the-boss"
	w := serveHTTP(t, bossConfig(t, t.TempDir(), boss), "--console").openWindow(t)
	w.do(chromedp.Navigate(w.base+"login"), chromedp.SendKeys("#token", boss), chromedp.Submit("#token"), chromedp.WaitVisible("nav"),
		chromedp.Navigate(w.base+"playground"), chromedp.SendKeys("#text", `{"steps":[{"expr":"6 *"}]}`))
	w.await(`document.querySelector("#verdict").textContent.includes("bad_expression")`)
	if text := evaluate[string](w, `document.activeElement.id + " " + document.activeElement.value`); text != `text {"steps":[{"expr":"6 *"}]}` {
		t.Errorf("after the check, what is typed in is %q", text)
	}
	w.do(chromedp.SetValue("#text", `{"steps":[{"expr":"6 * 7"}]}`), chromedp.SendKeys("#text", " "))
	w.await(`document.querySelector("#verdict svg") && document.querySelector("#verdict").textContent.includes("nothing is wrong")`)
	w.do(chromedp.Click(`button[value="run"]`), chromedp.WaitVisible("details"))
	w.await(`document.querySelector("pre.block").textContent == "42"`)
}
