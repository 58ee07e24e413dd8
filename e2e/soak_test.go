//go:build e2e && unix

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// mortalServerVariable makes the test binary an MCP server on stdio that exits when its tool is called with die.
const mortalServerVariable = "ONECALL_TEST_MORTAL"

func init() {
	if os.Getenv(mortalServerVariable) == "" {
		return
	}
	server := sdk.NewServer(&sdk.Implementation{Name: "mortal", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "live", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *sdk.CallToolRequest, in struct {
			Die bool `json:"die"`
		}) (*sdk.CallToolResult, any, error) {
			if in.Die {
				os.Exit(3)
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "alive"}}}, nil, nil
		})
	if err := server.Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// soakTime returns the duration of the soak: ten seconds, or the value of ONECALL_TEST_SOAK, such as 30m.
func soakTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("ONECALL_TEST_SOAK")
	if text == "" {
		return 10 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second {
		t.Fatalf("ONECALL_TEST_SOAK is %q: write a time of at least a second, such as 2m", text)
	}
	return d
}

// soakClients is the number of clients at a time.
const soakClients = 6

// soak is a server under load from changing clients.
type soak struct {
	*measuredServer
	slow           *slowService
	kinds          []soakKind
	done           [32]atomic.Int64 // the number of successful requests, by kind
	lastErr        [32]atomic.Value // the last error of each kind
	cancelledCalls atomic.Int64
	files, keys    atomic.Int64 // how many were made
}

// soakKind is a kind of request that clients make.
type soakKind struct {
	name string
	do   func(t *testing.T, s *soak, w *rawClient, n int) error
}

// TestSoak runs clients that make requests of every kind for a while. Memory, sockets and goroutines must not grow, and the latter two must
// return to their start when the clients have ended.
func TestSoak(t *testing.T) {
	t.Parallel()
	duration := soakTime(t)
	folder := t.TempDir()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	servers := map[string]server{
		"everything": npmServers(npmPackages(t), folder)["everything"],
		"mortal":     {Command: binary, Env: map[string]string{mortalServerVariable: "1"}},
		"absent":     {Command: "/no/such/program"},
	}
	slow := &slowService{url: silentService(t)}
	host := strings.TrimPrefix(slow.url, "http://")
	config := writeJSON(t, folder, "onecall.json", map[string]any{
		"mcpServers": servers, "access": map[string]any{"http": "read_write"}, "http": map[string]any{"allow": []string{host}},
		"fs":      map[string]any{"root": folder, "write": []string{"."}},
		"results": map[string]any{"ttl": "1s", "maxTtl": "2s", "maxBytes": "1MiB"}, "session": map[string]any{"maxTokens": 1_000_000},
	})
	s := &soak{measuredServer: serveMeasured(t, config), slow: slow, kinds: allSoakKinds()}
	checkServes(t, stateless(t, s.url))
	before := s.warmUp(t, duration/4) // after one-time allocations
	samples := map[string][]float64{}
	s.runClients(t, duration, func(now sample) {
		for name, value := range now {
			samples[name] = append(samples[name], value)
		}
	})
	for i, kind := range s.kinds {
		n := s.done[i].Load()
		t.Logf("%-12s %8d", kind.name, n)
		if n == 0 {
			t.Errorf("%s never succeeded: %v", kind.name, s.lastErr[i].Load())
		}
	}
	if duration >= time.Minute { // in a shorter soak caches still fill
		checkGrowth(t, samples, duration)
	}
	s.waitUntilSettled(t, before, map[string]float64{goroutinesUsed: 10, socketsUsed: 5}, func() {})
	checkServes(t, stateful(t, s.url), stateless(t, s.url))
}

// checkGrowth fails the test if a metric grew during a soak by more than it fluctuates.
func checkGrowth(t *testing.T, samples map[string][]float64, duration time.Duration) {
	t.Helper()
	for name, values := range samples {
		l := fitLine(values)
		growth := l.growth(len(values))
		t.Logf("%-32s mean %.0f, slope %+.3f%% an hour of the mean, growth %+.0f in %v, noise %.0f, %d samples", name, l.mean,
			100*growth/l.mean*float64(time.Hour)/float64(duration), growth, duration, l.noise, len(values))
		// A leak exceeds the fluctuation, the more the longer the run. The number of clients also varies.
		maxGrowth := 2*l.noise + 0.1*l.mean
		if name == goroutinesUsed || name == socketsUsed {
			maxGrowth += soakClients
		}
		if growth > maxGrowth && (name != memoryUsed || !raceEnabled) {
			t.Errorf("%s grew by %.0f, want at most %.0f, with a noise of %.0f", name, growth, maxGrowth, l.noise)
		}
	}
}

// silentService starts a service that never answers, and returns its URL.
func silentService(t *testing.T) (url string) {
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-stop:
		}
	}))
	t.Cleanup(func() {
		close(stop)
		server.Close()
	})
	return server.URL
}

// warmUp runs clients for a while and returns what the idle server uses.
func (s *soak) warmUp(t *testing.T, d time.Duration) sample {
	t.Helper()
	s.runClients(t, d, func(sample) {})
	time.Sleep(time.Second) // ended sessions are cleaned up
	return s.sample(t)
}

// runClients runs clients for a time, and takes a hundred samples meanwhile.
func (s *soak) runClients(t *testing.T, d time.Duration, observe func(sample)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var wg sync.WaitGroup
	for worker := range soakClients {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), uint64(d)))
			for ctx.Err() == nil && !t.Failed() {
				s.runClient(ctx, t, random)
			}
		})
	}
	ticker := time.NewTicker(d / 100)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ticker.C:
			observe(s.sample(t))
		case <-ctx.Done():
		}
	}
	wg.Wait()
}

// runClient runs one client, with or without a session, that makes some requests and disconnects.
func (s *soak) runClient(ctx context.Context, t *testing.T, random *rand.Rand) {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	w := &rawClient{url: s.url, client: &http.Client{Transport: transport, Timeout: clitest.TooLong}, version: statelessVersion}
	if random.IntN(2) == 0 {
		if err := w.open(t); err != nil {
			t.Error(err)
			return
		}
		defer func() {
			if err := w.end(); err != nil {
				t.Error(err)
			}
		}()
	}
	for n := range 1 + random.IntN(20) {
		if ctx.Err() != nil {
			return
		}
		i := random.IntN(len(s.kinds))
		if err := s.kinds[i].do(t, s, w, n); err != nil {
			if !errors.Is(err, errTransient) {
				t.Errorf("%s: %v", s.kinds[i].name, err)
			}
			s.lastErr[i].Store(err.Error())
			continue
		}
		s.done[i].Add(1)
	}
}

// errTransient marks an answer that is acceptable while an upstream restarts, or after a page has expired.
var errTransient = errors.New("temporarily unavailable")

// text calls the chain tool and returns the text of its answer.
func (s *soak) text(t *testing.T, w *rawClient, request string) (string, error) {
	return s.textOf(t, w, "chain", jsonOf(request))
}

func (s *soak) textOf(t *testing.T, w *rawClient, tool string, arguments any) (string, error) {
	body := w.message(t, "1", "tools/call", map[string]any{"name": tool, "arguments": arguments})
	r, err := w.try(t, http.MethodPost, body, nil)
	if err != nil {
		return "", err
	}
	text := r.answer().Get("result.content.0.text")
	if r.status != http.StatusOK || !text.Exists() {
		return "", fmt.Errorf("%d %.300s", r.status, r.body)
	}
	return text.Str, nil
}

func jsonOf(text string) any { return gjson.Parse(text).Value() }

// wantText returns a kind whose answer must contain a text.
func wantText(name, request, fragment string) soakKind {
	return soakKind{name, func(t *testing.T, s *soak, w *rawClient, _ int) error {
		text, err := s.text(t, w, strings.ReplaceAll(request, "SLOW", s.slow.url))
		return missingText(text, err, fragment)
	}}
}

// missingText returns err, or an error if text lacks fragment.
func missingText(text string, err error, fragment string) error {
	if err == nil && !strings.Contains(text, fragment) {
		err = fmt.Errorf("the answer lacks %s: %.300s", fragment, text)
	}
	return err
}

// allSoakKinds returns all kinds of requests that clients make.
func allSoakKinds() []soakKind {
	noops := strings.TrimSuffix(strings.Repeat(`{"fn":"expr.eval","args":{"expression":"6 * 7"}},`, 10), ",")
	return []soakKind{
		wantText("chain", `{"lite":true,"steps":[`+noops+`]}`, "42"),
		wantText("forEach", `{"lite":true,"steps":[{"fn":"expr.eval","forEach":"1..50","args":{"expression":"n * 2",`+
			`"vars":{"n":"$item"}}}],"return":"$0[49]"}`, "100"),
		wantText("fault", `{"steps":[{"fn":"expr.evil","args":{"x":1}}]}`, `"unknown_function"`),
		wantText("failure", `{"steps":[{"fn":"expr.eval","args":{"expression":"{a: 1}"}},{"fn":"expr.eval","args":{"expression":"x",`+
			`"vars":{"x":"$0.b"}}}]}`, `"reference_missing"`),
		wantText("upstream", `{"lite":true,"steps":[{"fn":"everything.echo","args":{"message":"hello"}}]}`, "hello"),
		wantText("absent", `{"steps":[{"fn":"absent.anything"}]}`, `"unavailable"`),
		wantText("timeout", `{"steps":[{"fn":"http.get","args":{"url":"SLOW"},"timeoutMs":20}]}`, `"timeout"`),
		wantText("dry run", `{"dryRun":true,"steps":[`+noops+`]}`, `"plan"`),
		{"pages", readPages},
		{"cancel", cancelCall},
		{"search", func(t *testing.T, s *soak, w *rawClient, _ int) error {
			text, err := s.textOf(t, w, "search", map[string]any{"query": "evaluate an expression", "again": true})
			return missingText(text, err, "expr.eval")
		}},
		{"mortal", callMortal},
		{"files", changeFiles},
		{"state", changeState},
		wantText("block", `{"lite":true,"steps":[{"everything.get-tiny-image":{}},{"everything.echo":{"message":"${$0[1].data}"}}]}`, "iVBOR"),
		wantText("format", `{"format":"auto","steps":[{"expr":"map(1..200, ({id: #, square: # * #}))"}]}`, `"format":"table"`),
		wantText("ifChanged", `{"ifChanged":true,"steps":[{"fs.cat":{"path":"onecall.json"}}]}`, `"ok":true`),
	}
}

// changeFiles writes, edits, reads and removes a file of its own.
func changeFiles(t *testing.T, s *soak, w *rawClient, _ int) error {
	name := fmt.Sprintf("changed-%d.txt", s.files.Add(1))
	text, err := s.text(t, w, strings.ReplaceAll(`{"lite":true,"steps":[{"fs.write":{"path":"NAME","text":"before"}},`+
		`{"fs.edit":{"path":"NAME","old":"before","new":"after"}},{"fs.cat":{"path":"NAME"},"id":"read"},{"fs.remove":{"path":"NAME"}}],`+
		`"return":"$read.text"}`, "NAME", name))
	return missingText(text, err, "after")
}

// changeState sets a value under a lock, reads it in another chain, and appends to it in a chain that fails and is undone. Without tokens,
// clients have state in their sessions only.
func changeState(t *testing.T, s *soak, w *rawClient, _ int) error {
	if w.session == "" {
		return errTransient
	}
	key := fmt.Sprintf("key-%d", s.keys.Add(1))
	for _, chain := range []struct{ request, fragment string }{
		{`{"lite":true,"common":{"space":"session"},"steps":[{"state.lock":{"name":"KEY"},"id":"held"},{"state.set":{"key":"KEY","value":[7]}},` +
			`{"state.unlock":{"token":"$held.token"}}],"return":"$1"}`, `{"version":`},
		{`{"onError":"undo","common":{"space":"session"},"steps":[{"state.append":{"key":"KEY","value":8}},` +
			`{"expr":"[$0.version][5].x"}]}`, `"outcome":"undone"`},
		{`{"lite":true,"common":{"space":"session"},"steps":[{"state.get":{"key":"KEY"}},{"state.delete":{"key":"KEY"}}],"return":"$0.value"}`, "[7]"},
	} {
		text, err := s.text(t, w, strings.ReplaceAll(chain.request, "KEY", key))
		if err := missingText(text, err, chain.fragment); err != nil {
			return err
		}
	}
	return nil
}

// readPages stores a large result and reads pages of it.
func readPages(t *testing.T, s *soak, w *rawClient, n int) error {
	text, err := s.text(t, w, `{"lite":true,"steps":[{"fn":"expr.eval","args":{"expression":"map(1..3000, ({id: #, text: 'some words'}))"}}]}`)
	if err != nil {
		return err
	}
	token := gjson.Get(text, "continuation_token").Str
	if token == "" {
		return fmt.Errorf("the answer to a large result is not a probe: %.300s", text)
	}
	text, err = s.text(t, w, fmt.Sprintf(`{"lite":true,"continuation_token":%q,"mode":"paginated","page":%d,"page_size":10}`, token, n+1))
	switch {
	case err != nil:
		return err
	case gjson.Get(text, "error.code").Str == "token_expired":
		return errTransient // results live for one second here, and the client was slower
	case gjson.Get(text, "items.0.id").Int() != int64(10*n+1):
		return fmt.Errorf("page %d: %.300s", n+1, text)
	}
	return nil
}

// cancelCall disconnects while a chain waits for a slow service.
func cancelCall(t *testing.T, s *soak, w *rawClient, _ int) error {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	id := fmt.Sprint("cancelled ", s.cancelledCalls.Add(1))
	r, err := w.try(t, http.MethodPost, w.message(t, strconv.Quote(id), "tools/call", s.slow.chain()),
		func(r *http.Request) { *r = *r.WithContext(ctx) })
	if err == nil {
		return fmt.Errorf("a call that never ends was answered: %d %.300s", r.status, r.body)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if w.session != "" { // a client with a session could still read the answer, so it must cancel the call
		_, err = w.try(t, http.MethodPost, w.message(t, "", "notifications/cancelled", map[string]any{"requestId": id}), nil)
		return err
	}
	return nil
}

// callMortal calls an upstream that dies during some calls and restarts.
func callMortal(t *testing.T, s *soak, w *rawClient, n int) error {
	die := n%5 == 4
	text, err := s.text(t, w, fmt.Sprintf(`{"lite":true,"steps":[{"fn":"mortal.live","args":{"die":%v},"timeoutMs":5000}]}`, die))
	switch code := gjson.Get(text, "error.code").Str; {
	case err != nil:
		return err
	case code == "unavailable" || code == "timeout" || die && code != "":
		return errTransient
	case text != `"alive"`:
		return fmt.Errorf("the upstream answered %.300s", text)
	}
	return nil
}
