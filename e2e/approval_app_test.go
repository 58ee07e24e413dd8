//go:build e2e && unix

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
)

const (
	approvalURI = "ui://onecall/approval"
	// restrictivePolicy is what a host must enforce for an app that declares no domain.
	restrictivePolicy = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
		"media-src 'self' data:; connect-src 'none'"
)

// noting is a configuration with a function that adds a line to a file.
const noting = `
commands:
  note:
    run: [/bin/sh, -c, 'echo "$1" >>notes.txt', sh, "{text}", "{count}"]
    args: {text: {type: string}, count: {type: number}}
    optional: [count]
    effect: write
fs: {root: %q}
approve: write
access: {http: read_write}
`

// chatHost is a host of MCP Apps: a browser with the page of testdata/mcp/apps, and a client of a server.
type chatHost struct {
	session *sdk.ClientSession
	notes   string // the file of the notes
	page    string // the URL of the host's page
	app     string // the URL of the app
	browser context.Context
	frame   *chromedp.Node // the app
}

// openChat starts a server with a configuration after noting, and a host with a window of a width.
func openChat(t *testing.T, more string, width int64) *chatHost {
	t.Helper()
	folder := t.TempDir()
	config := filepath.Join(folder, "onecall.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, noting+more, folder), 0o600); err != nil {
		t.Fatal(err)
	}
	h := &chatHost{notes: filepath.Join(folder, "notes.txt")}
	capabilities := &sdk.ClientCapabilities{}
	capabilities.AddExtension("io.modelcontextprotocol/ui", map[string]any{"mimeTypes": []string{"text/html;profile=mcp-app"}})
	client := sdk.NewClient(&sdk.Implementation{Name: "host", Version: "1"}, &sdk.ClientOptions{Capabilities: capabilities})
	var err error
	if h.session, err = client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: serveHTTP(t, config).url}, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.session.Close() })
	h.servePages(t)
	h.browser = openBrowser(t, width, "/favicon.ico")
	h.do(t, chromedp.Navigate(h.page))
	return h
}

// servePages serves the host's page, and the app from another origin, with the policy that the specification demands.
func (h *chatHost) servePages(t *testing.T) {
	t.Helper()
	script := filepath.Join(t.TempDir(), "host.js")
	entry, err := filepath.Abs("../testdata/mcp/apps/host.mjs")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "node", "../testdata/mcp/apps/bundle.mjs", npmPackages(t), entry,
		script).CombinedOutput(); err != nil {
		t.Fatalf("bundle.mjs: %v: %s", err, out)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `<!doctype html><meta name="viewport" content="width=device-width"><body style="margin:0"><script src="host.js"></script>`)
	})
	mux.HandleFunc("GET /host.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, script) })
	mux.HandleFunc("POST /call", func(w http.ResponseWriter, r *http.Request) {
		var params sdk.CallToolParams
		if err := json.NewDecoder(r.Body).Decode(&params); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		result, err := h.session.CallTool(r.Context(), &params)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(result)
	})
	host := httptest.NewServer(mux)
	t.Cleanup(host.Close)
	read, err := h.session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: approvalURI})
	if err != nil || len(read.Contents) != 1 || read.Contents[0].MIMEType != "text/html;profile=mcp-app" {
		t.Fatalf("resources/read: %+v, %v", read, err)
	}
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Security-Policy", restrictivePolicy)
		fmt.Fprint(w, read.Contents[0].Text)
	}))
	t.Cleanup(app.Close)
	h.page, h.app = host.URL, app.URL
}

// call calls chain as the model does.
func (h *chatHost) call(t *testing.T, args string) (result *sdk.CallToolResult, text string) {
	t.Helper()
	result, err := h.session.CallTool(t.Context(), &sdk.CallToolParams{Name: "chain", Arguments: json.RawMessage(args)})
	if err != nil {
		t.Fatal(err)
	}
	return result, result.Content[0].(*sdk.TextContent).Text
}

// show calls chain, and shows the app beside the answer. It returns the answer.
func (h *chatHost) show(t *testing.T, args, context string) (text string) {
	t.Helper()
	result, text := h.call(t, args)
	encoded, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	h.do(t, chromedp.Evaluate[chromedp.Void](fmt.Sprintf("show(%q, %s, %s, %s)", h.app, args, encoded, context), chromedp.EvalAwaitPromise))
	frames, err := chromedp.Run(h.browser, chromedp.Nodes(chromedp.CSS("iframe")))
	if err != nil {
		t.Fatal(err)
	}
	h.frame = frames[0]
	return text
}

func (h *chatHost) do(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(h.browser, actions...); err != nil {
		t.Fatal(err)
	}
}

// press presses keys.
func (h *chatHost) press(t *testing.T, keys string) {
	t.Helper()
	for _, key := range keys {
		h.do(t, chromedp.KeyEvent(string(key)))
	}
}

// click clicks on an element of the app.
func (h *chatHost) click(t *testing.T, selector string) {
	t.Helper()
	h.do(t, chromedp.Click(chromedp.CSS(selector), chromedp.FromNode(h.frame)))
}

// untilEnd has a poll end with the browser's context.
var untilEnd = chromedp.WithPollingTimeout(0)

// inApp waits until an expression in the app has a value other than false, 0 and the like, and returns it.
func inApp[T any](t *testing.T, h *chatHost, expression string) T {
	t.Helper()
	value, err := chromedp.Run(h.browser, chromedp.Poll[T](expression, chromedp.WithPollingInFrame(h.frame), untilEnd))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// read returns the text of the app once it has decided what a person can do.
func (h *chatHost) read(t *testing.T) string {
	t.Helper()
	return inApp[string](t, h, `(!document.querySelector("#decision").hidden || document.querySelector("#status").textContent) && `+
		`document.querySelector("main").innerText`)
}

// outcome returns what the app says once the decision is recorded.
func (h *chatHost) outcome(t *testing.T) string {
	t.Helper()
	return inApp[string](t, h, `(text => /^(Approved|Denied)/.test(text) && text)(document.querySelector("#status").innerText)`)
}

// said waits for the app's message in the chat, and returns it.
func (h *chatHost) said(t *testing.T) (text string) {
	t.Helper()
	text, err := chromedp.Run(h.browser, chromedp.Poll[string]("window.messages.shift()", untilEnd))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// noted returns the lines of the notes.
func (h *chatHost) noted(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(h.notes)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Fields(string(data))
}

// TestApprovalApp decides in the app of a host, by the keyboard alone. Each write is made once, after the agent has resumed, or never.
func TestApprovalApp(t *testing.T) {
	t.Parallel()
	h := openChat(t, "", 1280)
	text := h.show(t, `{"steps":[{"sh.note":{"text":"one"}},{"expr":"1+1"}]}`, `{"theme":"light"}`)
	run := gjson.Get(text, "resume").Str
	shown := h.read(t)
	for _, want := range []string{"1 call waits for approval", "sh.note", "write", `"one"`, "Nothing undoes it.", "The plan: 2 steps"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the app does not show %q: %s", want, shown)
		}
	}
	takePicture(h.browser, t, "light")
	inApp[bool](t, h, `document.querySelector("#reason").focus() ?? true`)
	h.press(t, "\t\r") // the first button
	if said := h.said(t); !strings.Contains(said, "I approved the calls that "+run) {
		t.Errorf("the app said %q", said)
	}
	if lines := h.noted(t); len(lines) != 0 {
		t.Errorf("written before a resume: %q", lines)
	}
	for range 2 {
		_, text = h.call(t, fmt.Sprintf(`{"resume":%q}`, run))
	}
	if lines := h.noted(t); len(lines) != 1 || lines[0] != "one" {
		t.Errorf("written: %q, want one line; the last answer was %s", lines, text)
	}

	text = h.show(t, `{"steps":[{"sh.note":{"text":"two"}}]}`, `{"theme":"dark"}`)
	h.read(t)
	inApp[bool](t, h, `document.querySelector("#reason").focus() ?? true`)
	h.press(t, "not today\r\t\t ") // Enter decides nothing, the space is on the second button
	if said := h.said(t); !strings.Contains(said, "I denied the calls that "+gjson.Get(text, "resume").Str) ||
		!strings.HasSuffix(said, "Reason: not today") {
		t.Errorf("the app said %q", said)
	}
	if status := h.outcome(t); status != "Denied. The agent is told." {
		t.Errorf("the status is %q", status)
	}
	if lines := h.noted(t); len(lines) != 1 {
		t.Errorf("written: %q, want nothing after a denial", lines)
	}
}

// TestApprovalAppHosts: a host that passes on no messages leaves it to the person to tell the agent, and one that passes on no calls leaves
// the decision to the terminal.
func TestApprovalAppHosts(t *testing.T) {
	t.Parallel()
	h := openChat(t, "", 1280)
	h.do(t, chromedp.Evaluate[chromedp.Void]("window.capabilities = {serverTools: {}}"))
	text := h.show(t, `{"steps":[{"sh.note":{"text":"one"}}]}`, `{}`)
	run := gjson.Get(text, "resume").Str
	h.read(t)
	h.click(t, "#approve")
	if got := h.outcome(t); got != "Approved. Tell the agent to go on with "+run+"." {
		t.Errorf("the status is %q", got)
	}
	h.call(t, fmt.Sprintf(`{"resume":%q}`, run))
	if lines := h.noted(t); len(lines) != 1 {
		t.Errorf("written: %q, want one line", lines)
	}
	h.do(t, chromedp.Evaluate[chromedp.Void]("window.capabilities = {}"))
	text = h.show(t, `{"steps":[{"sh.note":{"text":"two"}}]}`, `{}`)
	if shown := h.read(t); !strings.Contains(shown, "onecall approve "+gjson.Get(text, "resume").Str) {
		t.Errorf("the app does not name the command: %s", shown)
	}
	inApp[bool](t, h, `document.querySelector("#decision").hidden`)
}

// TestApprovalAppMany shows calls that the answer has no room for: the app fetches them, and all but one are approved.
func TestApprovalAppMany(t *testing.T) {
	t.Parallel()
	h := openChat(t, "", 1280)
	var items []string
	for i := range 130 {
		items = append(items, fmt.Sprintf(`"note-%d-%s"`, i, strings.Repeat("x", 100)))
	}
	text := h.show(t, `{"onError":"continue","steps":[{"sh.note":{"text":"$item"},"forEach":"$input.items"}],"input":{"items":[`+strings.Join(items, ",")+`]}}`, `{}`)
	if gjson.Get(text, "error.calls").Exists() {
		t.Fatalf("the answer has room for all calls, so nothing is tested: %s", text)
	}
	if shown := h.read(t); !strings.Contains(shown, "130 calls wait") || !strings.Contains(shown, "note-99-") ||
		strings.Contains(shown, "note-100-") || !strings.Contains(shown, "Show 30 more") {
		t.Errorf("want 130 calls, the first 100 of them: %.2000s", shown)
	}
	takePicture(h.browser, t, "many")
	h.click(t, ".calls li:last-child button")
	h.click(t, ".calls li:last-child input")
	if button := inApp[string](t, h, `document.querySelector("#approve").innerText`); button != "Approve 129, deny 1" {
		t.Errorf("the button is %q", button)
	}
	h.click(t, "#approve")
	if said := h.said(t); !strings.Contains(said, "I approved 129 and denied 1, at 0[129].") {
		t.Errorf("the app said %q", said)
	}
	_, text = h.call(t, fmt.Sprintf(`{"resume":%q}`, gjson.Get(text, "resume").Str))
	if lines := h.noted(t); len(lines) != 129 || strings.Contains(strings.Join(lines, " "), "note-129-") {
		t.Errorf("%d lines, want 129, without the call that was denied: %s", len(lines), text)
	}
}

// TestApprovalAppShows checks what a narrow app shows of hostile values, of answers that need no approval, and where a person approves.
func TestApprovalAppShows(t *testing.T) {
	t.Parallel()
	h := openChat(t, "approveBy: person\nbudget: {maxTotalTokens: 0}\n", 390)
	value := `<img src=x onerror=alert(1)></pre>` + "\u202eevil\u200b" + strings.Repeat("long", 50_000)
	args, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	text := h.show(t, `{"trace":"full","steps":[{"sh.note":{"text":`+string(args)+`,"count":12345678901234567890.10}}]}`, `{"theme":"dark"}`)
	shown := h.read(t)
	for _, want := range []string{`<img src=x onerror=alert(1)></pre>\u{202e}evil\u{200b}long`, "12345678901234567890.10",
		"Show all 200,", "onecall approve " + gjson.Get(text, "resume").Str} {
		if !strings.Contains(shown, want) {
			t.Errorf("the app does not show %q: %.2000s", want, shown)
		}
	}
	if len(shown) > 10_000 {
		t.Errorf("%d characters are shown at once", len(shown))
	}
	inApp[bool](t, h, `!document.querySelector("img, #decision:not([hidden])")`)
	if width := inApp[int](t, h, `document.documentElement.scrollWidth`); width != 390 {
		t.Errorf("the app is %d pixels wide, want 390", width)
	}
	if back := inApp[string](t, h, `getComputedStyle(document.querySelector("main")).backgroundColor`); back != "rgb(27, 28, 30)" {
		t.Errorf("the background is %s, want it dark", back)
	}
	takePicture(h.browser, t, "narrow-dark")
	h.click(t, "dd button")
	if shown := h.read(t); len(shown) < 200_000 {
		t.Errorf("%d characters, want all of the value", len(shown))
	}

	h.do(t, chromedp.Evaluate[chromedp.Void]("window.heights.length = 0"))
	h.show(t, `{"steps":[{"expr":"1+1"}]}`, `{}`)
	if height, err := chromedp.Run(h.browser, chromedp.Poll[string](`window.heights.join()`, untilEnd)); err != nil || height != "0" {
		t.Errorf("the app is %s pixels high, %v, want none where nothing waits", height, err)
	}
	if lines := h.noted(t); len(lines) != 0 {
		t.Errorf("written: %q", lines)
	}
}
