//go:build e2e && unix

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/chain/journal/journaltest"
	"github.com/onecall-mcp/onecall/chain/journal/sqljournal"
	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/polltest"
)

// measuredRounds is how often what a benchmark of the console reports the median of is measured.
const measuredRounds = 11

// measuredConsole is the server of a console, and those who look at it.
type measuredConsole struct {
	*httpServer
	config string
	tools  *rawClient
	*consoleBrowser
	*window
}

// measureConsole serves the console of a journal with some runs.
func measureConsole(b *testing.B, runs int, more string) *measuredConsole {
	b.Helper()
	dir := b.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "onecall"), 0o700); err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(dir, "onecall", "journal.db")
	driver, err := sqljournal.OpenSQLite(path, nil)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := driver.List(b.Context(), &journal.Filter{Limit: 1}); err != nil { // makes the tables
		b.Fatal(err)
	}
	journaltest.Fill(b, path, filepath.Join(dir, "onecall.yaml"), runs)
	if err := driver.Close(); err != nil {
		b.Fatal(err)
	}
	const boss = "oc_token-of-the-boss"
	c := &measuredConsole{httpServer: &httpServer{stderr: new(logTail), ended: make(chan error, 1)}}
	c.config = clitest.Write(b, dir, "onecall.yaml",
		fmt.Sprintf("access: {tokens: [{name: boss, sha256: %q, tier: admin, console: approve}]}\n%s", tokenHash(boss), more))
	c.cmd = clitest.Self(b, dir, "serve", "--http", "127.0.0.1:0", "--config", c.config, "--console")
	c.cmd.Env = append(c.cmd.Env, "XDG_STATE_HOME="+dir)
	c.listen(b)
	c.tools, c.consoleBrowser, c.window = stateless(b, c.url).with(boss), c.browse(b, boss), c.openWindow(b)
	c.window.do(chromedp.Navigate(c.window.base+"login"), chromedp.SendKeys("#token", boss), chromedp.Submit("#token"),
		chromedp.WaitVisible("nav"))
	return c
}

// runID returns the id of the newest run of a chain.
func (c *measuredConsole) runID(b *testing.B, chain string) (id string) {
	b.Helper()
	polltest.Until(b, "the run is listed", func() bool {
		_, page := c.get("?chain=" + chain)
		found := regexp.MustCompile(`runs/(run_\w+)`).FindStringSubmatch(page)
		if found != nil {
			id = found[1]
		}
		return found != nil
	}, c.stderr)
	return id
}

// load reports how long a page takes to its last byte, and to its first paint in a browser that has its scripts and styles.
func (c *measuredConsole) load(b *testing.B, path string, right func(page string) bool) {
	b.Helper()
	var bytes, paint []float64
	for range measuredRounds {
		began := time.Now()
		status, page := c.get(path)
		bytes = append(bytes, millis(time.Since(began)))
		if status != http.StatusOK || !right(page) {
			b.Fatalf("status %d: %s", status, page)
		}
		c.window.do(chromedp.Navigate(c.window.base + path))
		paint = append(paint, evaluate[float64](c.window, `new Promise(done => new PerformanceObserver(list =>
			list.getEntriesByName("first-contentful-paint").forEach(e => done(e.startTime))).observe({type: "paint", buffered: true}))`))
	}
	b.ReportMetric(median(bytes), "ms-to-last-byte")
	b.ReportMetric(median(paint), "ms-to-paint")
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// BenchmarkConsolePages measures the first page beside many runs, and the page of a run of 20,000 events, through which it scrolls.
func BenchmarkConsolePages(b *testing.B) {
	for _, runs := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprintf("runs=%d", runs), func(b *testing.B) {
			c := measureConsole(b, runs, "")
			for b.Loop() {
				c.load(b, "", func(page string) bool { return strings.Count(page, "/runs/run_") >= 50 })
			}
		})
	}
	b.Run("events=20000", func(b *testing.B) {
		c := measureConsole(b, 1, "")
		if text, failed := c.tools.tool(b, "chain", map[string]any{"steps": []any{map[string]any{"state.set": map[string]any{"key": "k", "value": 1}}}}); failed {
			b.Fatal(text)
		}
		var steps []any
		for range 100 {
			steps = append(steps, map[string]any{"state.get": map[string]any{"key": "k"}, "forEach": "1..200"})
		}
		if text, failed := c.tools.tool(b, "chain", map[string]any{"name": "many", "lite": true, "return": 1, "steps": steps}); failed || text != "1" {
			b.Fatal(text)
		}
		path := "runs/" + c.runID(b, "many")
		for b.Loop() {
			c.load(b, path, func(page string) bool { return strings.Count(page, ">all 200</a>") == 100 })
			frame := evaluate[struct{ Median, Longest, Count float64 }](c.window, `new Promise(done => {
				document.querySelectorAll("details").forEach(e => { e.open = true; });
				const frames = [];
				let last, at;
				const next = now => {
					if (last) frames.push(now - last);
					last = now;
					if (at === scrollY) {
						frames.sort((a, b) => a - b);
						return done({Median: frames[frames.length >> 1], Longest: frames.at(-1), Count: frames.length});
					}
					at = scrollY;
					scrollBy(0, 400);
					requestAnimationFrame(next);
				};
				setTimeout(() => requestAnimationFrame(next), 1000);
			})`)
			if frame.Count < 20 {
				b.Fatalf("scrolled by %v frames", frame.Count)
			}
			b.ReportMetric(frame.Median, "ms/frame")
			b.ReportMetric(frame.Longest, "ms-longest-frame")
		}
	})
}

// holding configures sh.hold, which ends once its file, a pipe, is closed by its writer.
func holding(b *testing.B) string {
	return fmt.Sprintf(`
fs: {root: %q}
commands:
  hold: {run: [/bin/sh, -c, 'read x <"$1"; echo ended', sh, "{file}"], args: {file: {type: string}}, effect: write}
`, b.TempDir())
}

// BenchmarkConsoleLive measures how long after its end a step is on an open page of its run, which is one of the server.
func BenchmarkConsoleLive(b *testing.B) {
	c := measureConsole(b, 1, holding(b))
	for b.Loop() {
		c.live(b, "held", func(chain string) error {
			if text, failed := c.tools.tool(b, "chain", json.RawMessage(chain)); failed {
				return fmt.Errorf("%s", text)
			}
			return nil
		})
	}
}

// BenchmarkConsoleOthers measures the same of a run of another process, which writes to the same journal.
func BenchmarkConsoleOthers(b *testing.B) {
	c := measureConsole(b, 1, holding(b))
	for b.Loop() {
		c.live(b, "held", func(chain string) error {
			file := clitest.Write(b, b.TempDir(), "held.chain.json", chain)
			cmd := clitest.Self(b, filepath.Dir(c.config), "run", "--config", c.config, file)
			cmd.Env = c.cmd.Env
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
	}
}

// live runs a chain whose steps end one by one.
func (c *measuredConsole) live(b *testing.B, name string, start func(chain string) error) {
	b.Helper()
	var files, steps []string
	for i := range measuredRounds {
		files = append(files, filepath.Join(b.TempDir(), fmt.Sprint(i)))
		if err := syscall.Mkfifo(files[i], 0o600); err != nil {
			b.Fatal(err)
		}
		steps = append(steps, fmt.Sprintf(`{"sh.hold":{"file":%q}}`, files[i]))
	}
	ended := make(chan error, 1)
	go func() { ended <- start(fmt.Sprintf(`{"name":%q,"steps":[%s]}`, name, strings.Join(steps, ","))) }()
	c.window.do(chromedp.Navigate(c.window.base + "runs/" + c.runID(b, name)))
	var took []float64
	for i, file := range files {
		pipe, err := os.OpenFile(file, os.O_WRONLY, 0) // waits until the step reads
		if err != nil {
			b.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond) // the page is quiet
		began := time.Now()
		pipe.Close()
		evaluate[bool](c.window, fmt.Sprintf(`new Promise(done => {
			const shown = () => document.querySelectorAll("#live td .ok").length > %d && done(true);
			new MutationObserver(shown).observe(document.body, {childList: true, subtree: true, characterData: true, attributes: true});
			shown();
		})`, i))
		took = append(took, millis(time.Since(began)))
	}
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(median(took), "ms")
	b.ReportMetric(took[len(took)-1], "ms-longest")
}

// BenchmarkConsoleBeside compares chains of ten dependent calls over HTTP beside 20 open pages of the console with chains without them.
func BenchmarkConsoleBeside(b *testing.B) {
	const pages, chains = 20, 300
	server := sdk.NewServer(&sdk.Implementation{Name: "up", Version: "1"}, nil)
	type number struct {
		N int `json:"n"`
	}
	sdk.AddTool(server, &sdk.Tool{Name: "next", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *sdk.CallToolRequest, in number) (*sdk.CallToolResult, number, error) {
			return nil, number{in.N + 1}, nil
		})
	up := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	b.Cleanup(up.Close)
	c := measureConsole(b, 10_000, fmt.Sprintf("mcpServers: {up: {url: %q}}\n", up.URL))
	request := `{"lite":true,"return":"$9.n","steps":[{"fn":"up.next","args":{"n":0}}`
	for i := range 9 {
		request += fmt.Sprintf(`,{"fn":"up.next","args":{"n":"$%d.n"}}`, i)
	}
	request += "]}"
	run := func() (each, all float64) {
		var took []float64
		for range chains {
			began := time.Now()
			if text, _ := c.tools.tool(b, "chain", json.RawMessage(request)); text != "10" {
				b.Fatal(text)
			}
			took = append(took, millis(time.Since(began)))
			all += took[len(took)-1]
		}
		return median(took), all
	}
	polltest.Until(b, "the function is there", func() bool {
		text, _ := c.tools.tool(b, "chain", json.RawMessage(request))
		return text == "10"
	}, c.stderr)
	for b.Loop() {
		var each, all, base, loads []float64
		for range measuredRounds {
			each0, all0 := run()
			loaded, leave := c.open(b, pages)
			before := loaded.Load()
			each1, all1 := run()
			loads = append(loads, float64(loaded.Load()-before))
			leave()
			each, all, base = append(each, each1/each0), append(all, all1/all0), append(base, each0)
		}
		if b.ReportMetric(median(loads), "page-loads"); median(loads) < pages {
			b.Fatalf("the pages were loaded %v times: they do not follow", loads)
		}
		b.ReportMetric(median(base), "ms-without")
		b.ReportMetric(median(each), "ratio-of-medians")
		b.ReportMetric(median(all), "ratio-of-all")
	}
}

// open opens the first page some times, as its script keeps it up to date, and counts how often it is loaded. It waits until all are.
func (c *measuredConsole) open(b *testing.B, pages int) (loaded *atomic.Int64, leave func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var all sync.WaitGroup
	loaded = new(atomic.Int64)
	get := func(path string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.consoleBrowser.base+path, http.NoBody)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Accept-Encoding", "gzip")
		return c.consoleBrowser.Do(r)
	}
	for range pages {
		changed := make(chan struct{}, 1)
		all.Go(func() {
			defer close(changed)
			stream, err := get("events")
			if err != nil {
				b.Error(err)
				return
			}
			defer stream.Body.Close()
			for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
				if lines.Text() == "event: changed" {
					select {
					case changed <- struct{}{}:
					default: // the page is loaded again anyway
					}
				}
			}
		})
		all.Go(func() {
			for range changed {
				r, err := get("")
				if err != nil {
					continue // the page was left
				}
				if n, err := io.Copy(io.Discard, r.Body); err == nil && r.StatusCode == http.StatusOK && n > 1000 {
					loaded.Add(1)
				}
				r.Body.Close()
			}
		})
	}
	polltest.Until(b, "all pages are loaded", func() bool { return loaded.Load() >= int64(pages) }, c.stderr)
	return loaded, func() {
		cancel()
		all.Wait()
	}
}
