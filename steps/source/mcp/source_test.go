package mcp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
	"github.com/onecall-mcp/onecall/steps/stepstest"
)

// transports are the ways to reach the good server.
var transports = map[string]func(t testing.TB) *mcpsource.Options{
	"stdio": func(t testing.TB) *mcpsource.Options { return childOptions(t, "good") },
	"stdio 2025-11-25": func(t testing.TB) *mcpsource.Options {
		o := childOptions(t, "good")
		o.Protocol = protocol.Stateful
		return o
	},
	"http stateless": func(t testing.TB) *mcpsource.Options {
		return &mcpsource.Options{Name: "shelf", URL: listen(t, httpServer(goodServer(testEnd(t)), &sdk.StreamableHTTPOptions{Stateless: true}))}
	},
	"http json": func(t testing.TB) *mcpsource.Options {
		return &mcpsource.Options{Name: "shelf", URL: listen(t, httpServer(goodServer(testEnd(t)),
			&sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true}))}
	},
	"http sessions": func(t testing.TB) *mcpsource.Options {
		return &mcpsource.Options{Name: "shelf", Protocol: protocol.Stateful, URL: listen(t, httpServer(goodServer(testEnd(t)), nil))}
	},
	"sse": func(t testing.TB) *mcpsource.Options {
		server := goodServer(testEnd(t))
		return &mcpsource.Options{Name: "shelf", SSE: true, URL: listen(t, sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return server },
			nil))}
	},
}

// testEnd returns a channel that is closed when the test ends, before the servers of listen are closed.
func testEnd(t testing.TB) <-chan struct{} {
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	return stop
}

// listen serves on loopback until the test ends.
func listen(t testing.TB, h http.Handler) string {
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.CloseClientConnections()
		go server.Close() // waits for handlers that another cleanup ends
	})
	return server.URL
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, options := range transports {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stepstest.Run(t, stepstest.Options{
				New: func(t *testing.T) steps.Source {
					s := openReady(t, options(t))
					return s
				},
				Args: map[string]string{"shelf.get": `{"name":"a"}`, "shelf.put": `{"name":"b"}`, "shelf.echo": `{"a":[1.50,{"b":"<&>"}]}`,
					"shelf.media": `{}`},
				Fails:          map[string][]string{"shelf.get": {`{"name":"none"}`}},
				AssumedEffects: true,
			})
		})
	}
}

func TestEveryTransport(t *testing.T) {
	t.Parallel()
	for name, options := range transports {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openSource(t, options(t))
			if status := await(t, s, steps.StateReady); status.Version != "shelf 1.2" || status.Error != nil {
				t.Errorf("got status %+v, want version shelf 1.2", status)
			}
			if got, want := mustCall(t, s, "shelf.get", `{"name":"é\u00e9"}`), `{"name":"é\u00e9","n":12345678901234567890,"x":1.50}`; got != want {
				t.Errorf("structuredContent changed: got %s, want %s", got, want)
			}
			if got := mustCall(t, s, "shelf.echo", `{"b":1.50,"a":12345678901234567890}`); got != `{"b":1.50,"a":12345678901234567890}` {
				t.Errorf("got %s, want the arguments unchanged", got)
			}
			if got := mustCall(t, s, "shelf.put", `{"name":"x"}`); got != `"put"` {
				t.Errorf("text: got %s, want put", got)
			}
			f := mustFail(t.Context(), t, s, "shelf.get", `{"name":"none"}`, fault.FunctionFailed)
			if f.Message != "there is no such thing" || f.Body != nil || f.Outcome != "" {
				t.Errorf("isError: got %+v, want there is no such thing as message alone, and no outcome", f)
			}
			checkMedia(t, s)
			if name != "http json" { // it has no stream for notifications
				checkNotifications(t, s, name != "sse")
			}
			checkCancel(t, s)
			checkChangedList(t, s)
		})
	}
}

// TestLargeArguments: arguments that the SDK does not encode reach the server as they are.
func TestLargeArguments(t *testing.T) {
	t.Parallel()
	s := openReady(t, childOptions(t, "good"))
	for _, n := range []int{60 << 10, 64 << 10, 3 << 20} {
		args := fmt.Sprintf(`{"a":%q,"b":"arguments"}`, strings.Repeat("é", n))
		if got := mustCall(t, s, "shelf.echo", args); got != args {
			t.Errorf("with %d characters the server got %d bytes, want %d", n, len(got), len(args))
		}
	}
}

func checkMedia(t *testing.T, s *mcpsource.Source) {
	t.Helper()
	ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{Blocks: &steps.Blocks{}})
	result, err := function(t, s, "shelf.media").Call(ctx, []byte(`{}`))
	text, blocks := string(result), steps.CallbacksOf(ctx).Blocks.Within(result)
	if err != nil || len(blocks) != 2 {
		t.Fatalf("media: got %s, %v with %d blocks, want 2", result, err, len(blocks))
	}
	want := `[{"a": 1},{"type":"image","mimeType":"image/png","size":5,"data":"` + blocks[0].Handle + `"},` +
		`{"type":"resource","uri":"a://t","mimeType":"text/plain","text":"hi"},` +
		`{"type":"resource","uri":"a://b","mimeType":"application/pdf","size":7,"data":"` + blocks[1].Handle + `"},`
	if !strings.HasPrefix(text, want) || gjson.Get(text, "4.uri").Str != "a://l" {
		t.Errorf("media: got %s, want %s", text, want)
	}
	if string(blocks[0].Bytes) != "12345" || len(blocks[1].Bytes) != 7 {
		t.Errorf("got the bytes %q and %q, want 12345 and 7 more", blocks[0].Bytes, blocks[1].Bytes)
	}
}

// checkNotifications checks that the messages of a call reach its callbacks before it returns.
func checkNotifications(t *testing.T, s *mcpsource.Source, ordered bool) {
	t.Helper()
	var mu sync.Mutex
	var done []float64
	var logged []string
	ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{
		Progress: func(_ context.Context, d, total float64, message string) {
			mu.Lock()
			defer mu.Unlock()
			if total == 3 && message == "step" {
				done = append(done, d)
			}
		},
		Log: func(_ context.Context, level, logger string, data []byte) {
			mu.Lock()
			defer mu.Unlock()
			logged = append(logged, level+" "+logger+" "+string(data))
		},
	})
	// If the log level is set at all, it is set in the background after the start.
	for late := time.Now().Add(patience); ; {
		if _, err := function(t, s, "shelf.tell").Call(ctx, []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		received := len(logged) > 0
		mu.Unlock()
		if received || time.Now().After(late) {
			break
		}
		done = nil
	}
	mu.Lock()
	defer mu.Unlock()
	if ordered && !slices.Equal(done, []float64{0, 1, 2}) {
		t.Errorf("got progress %v, want 0, 1, 2", done)
	}
	if len(logged) == 0 || logged[0] != `warning l {"x":1}` {
		t.Errorf("got logs %q, want warning l {\"x\":1} first", logged)
	}
}

func checkCancel(t *testing.T, s *mcpsource.Source) {
	t.Helper()
	begun := filepath.Join(t.TempDir(), "begun")
	ctx, expire := expiring(t.Context())
	go func() {
		poll(func() bool { _, err := os.Stat(begun); return err == nil })
		expire()
	}()
	if f := mustFail(ctx, t, s, "shelf.wait", fmt.Sprintf(`{"begun":%q}`, begun), fault.Timeout); f.Outcome != fault.SentUnknown {
		t.Errorf("a write whose context expired has outcome %q, want sent_unknown", f.Outcome)
	}
	ctx, abort := context.WithCancelCause(t.Context())
	go abort(fault.New(fault.Busy, "given up"))
	if f := mustFail(ctx, t, s, "shelf.wait", `{}`, fault.Busy); f.Message != "given up" || f.Outcome == "" {
		t.Errorf("a call cancelled with a cause: got %+v, want given up and an outcome", f)
	}
	if s.Status().State != steps.StateReady {
		t.Errorf("a cancelled call ended the session: %+v", s.Status())
	}
}

// expiringContext has a deadline that passes when the test decides.
type expiringContext struct {
	context.Context
	done chan struct{}
}

// expiring returns a context that expire ends like a deadline.
func expiring(parent context.Context) (ctx context.Context, expire func()) {
	c := &expiringContext{parent, make(chan struct{})}
	return c, func() { close(c.done) }
}

func (c *expiringContext) Done() <-chan struct{} { return c.done }

func (c *expiringContext) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func checkChangedList(t *testing.T, s *mcpsource.Source) {
	t.Helper()
	mustCall(t, s, "shelf.more", `{}`)
	has := func(name string) bool {
		return slices.ContainsFunc(s.Functions(), func(fn steps.Function) bool { return fn.Name == name })
	}
	until(t, s, func() bool { return has("shelf.added") && !has("shelf.remove") })
	if got := mustCall(t, s, "shelf.added", `{}`); got != `"added"` {
		t.Errorf("the added tool: got %s, want \"added\"", got)
	}
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*mcpsource.Options{
		"nil": nil, "no name": {Command: "x"}, "a dot": {Name: "a.b", Command: "x"}, "neither": {Name: "a"},
		"both": {Name: "a", Command: "x", URL: "http://h"}, "scheme": {Name: "a", URL: "ftp://h"}, "no host": {Name: "a", URL: "http://"},
		"headers": {Name: "a", Command: "x", Headers: map[string]string{"A": "b"}}, "bad header": {Name: "a", URL: "http://h", Headers: map[string]string{"A b": "c"}},
		"args": {Name: "a", URL: "http://h", Args: []string{"x"}}, "protocol": {Name: "a", Command: "x", Protocol: "2030-01-01"},
		"negative": {Name: "a", Command: "x", StartTimeout: -1}, "env": {Name: "a", Command: "x", Env: map[string]string{"A=": ""}},
		"NUL": {Name: "a", Command: "x\x00"},
	} {
		if _, err := mcpsource.New(o); fault.CodeOf(err) != fault.BadRequest {
			t.Errorf("%s: %v, want bad_request", name, err)
		}
	}
	_, err := mcpsource.New(&mcpsource.Options{Name: "a", URL: "http://u:hidden1@[::1"})
	if err == nil || strings.Contains(err.Error(), "hidden1") {
		t.Errorf("New of the URL: %v, want an error that does not show it", err)
	}
}

func TestCloseEndsCalls(t *testing.T) {
	t.Parallel()
	for name, options := range transports {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openReady(t, options(t))
			done := startWaiting(t, s)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			select {
			case err := <-done:
				if fault.CodeOf(err) != fault.Unavailable {
					t.Errorf("the running call: got %v, want unavailable", err)
				}
			case <-time.After(patience):
				t.Fatal("the running call did not return")
			}
			if f := mustFail(t.Context(), t, s, "shelf.put", `{}`, fault.Unavailable); f.Outcome != fault.NotSent {
				t.Errorf("a call after Close: got %+v, want not_sent", f)
			}
		})
	}
}
