package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/memstore"
	"github.com/onecall-mcp/onecall/budget/storetest"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/internal/telemetry"
	"github.com/onecall-mcp/onecall/steps"
)

// page returns the metrics as a reader gets them.
func page(t testing.TB, b *bench) string {
	t.Helper()
	w := httptest.NewRecorder()
	b.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Fatalf("got %d, %v, want 200 with text/plain; version=0.0.4", w.Code, w.Header())
	}
	return w.Body.String()
}

// wantLines checks that the metrics have these lines.
func wantLines(t testing.TB, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+text, "\n"+line+"\n") {
			name, _, _ := strings.Cut(line, "{")
			t.Errorf("the metrics lack %s:\n%s", line, strings.Join(regexp.MustCompile(`(?m)^`+name+`.*$`).FindAllString(text, -1), "\n"))
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	b := start(t, slog.LevelInfo, telemetry.Options{
		Version:  "1.2.3",
		Sessions: func() int { return 7 }, Running: func() int { return 3 },
		Sources: func() []steps.SourceInfo {
			return []steps.SourceInfo{
				{Name: "files", Status: steps.Status{State: steps.StateReady}, Functions: map[string]bool{"files.a": true, "files.b": true}},
				{Name: "lazy", Status: steps.Status{State: steps.StateIdle}},
				{Name: "gone", Status: steps.Status{State: steps.StateRetrying}},
				{Name: "off", Status: steps.Status{State: steps.StateDisabled}},
			}
		},
	})
	b.run(context.Background(), mixed)
	b.run(context.Background(), mixed)
	b.run(context.Background(), `{"steps":[{"fn":"bare"},{"fn":"down.get"}]}`)
	b.run(context.Background(), `{"steps":[{"fn":"`+secret+`"}]}`)
	b.run(context.Background(),
		`{"budget":{"maxTotalTokens":150},"steps":[{"fn":"test.echo","args":{"long":"`+strings.Repeat("many words ", 500)+`"}}]}`)
	b.engine.Call(context.Background(), &chain.Call{Function: "test.panic"}, nil)
	_, end := b.Request(context.Background(), &chain.RequestInfo{Kind: secret})
	end(ended(fault.Busy))
	b.Refused("token")
	b.Refused("token")
	b.Reloaded(nil)
	b.Reloaded(errors.New("no"))
	b.Stored(t.Context(), "sessions", "take", time.Millisecond, fault.New(fault.Unavailable, "down"))
	text := page(t, b)
	wantLines(t, text,
		`onecall_requests_total{code="function_failed",kind="chain"} 2`,
		`onecall_requests_total{code="unavailable",kind="chain"} 1`,
		`onecall_requests_total{code="compile",kind="chain"} 1`,
		`onecall_requests_total{code="ok",kind="chain"} 1`,
		`onecall_requests_total{code="busy",kind="other"} 1`,
		`onecall_requests_total{code="internal",kind="call"} 1`, `onecall_requests_total{code="internal",kind="chain"} 0`,
		`onecall_request_duration_seconds_count{kind="chain"} 5`,
		`onecall_steps_total{status="ok"} 10`,
		`onecall_steps_total{status="failed"} 4`,
		`onecall_calls_total{code="ok",function="test.echo",source="test"} 9`,
		`onecall_calls_total{code="function_failed",function="test.fail",source="test"} 2`,
		`onecall_calls_total{code="unavailable",function="down.get",source="down"} 1`,
		`onecall_calls_total{code="internal",function="test.panic",source="test"} 1`,
		`onecall_calls_total{code="ok",function="bare",source="none"} 1`,
		`onecall_call_duration_seconds_count{source="test"} 14`,
		`onecall_calls_running{source="test"} 0`,
		`onecall_probes_total 1`, `onecall_lean_answers_total 0`, `onecall_cached_calls_total 0`,
		`onecall_requests_running 3`, `onecall_sessions 7`,
		`onecall_sources{state="ready"} 1`, `onecall_sources{state="idle"} 1`, `onecall_sources{state="retrying"} 1`,
		`onecall_sources{state="failed"} 0`, `onecall_sources{state="disabled"} 1`, `onecall_sources{state="starting"} 0`,
		`onecall_source_ready{source="files"} 1`, `onecall_source_ready{source="lazy"} 1`, `onecall_source_ready{source="gone"} 0`,
		`onecall_source_functions{source="files"} 2`,
		`onecall_source_tool_lock_differences{source="files"} 0`,
		`onecall_refused_total{reason="token"} 2`,
		`onecall_config_reloads_total{result="ok"} 2`, `onecall_config_reloads_total{result="failed"} 1`,
		`onecall_config_last_reload_successful 0`,
		`onecall_store_operations_total{code="unavailable",operation="take",store="sessions"} 1`,
		`onecall_store_operations_total{code="ok",operation="put",store="results"} 1`,
		`onecall_store_operation_duration_seconds_count{operation="put",store="results"} 1`,
		`onecall_build_info{go_version="`+runtime.Version()+`",version="1.2.3"} 1`,
		`onecall_trace_spans_total 0`,
	)
	for _, positive := range []string{`onecall_answer_tokens_total{kind="chain"}`, `onecall_kept_tokens_total`,
		`onecall_config_last_reload_success_timestamp_seconds`, `process_open_fds`, `go_goroutines`} {
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(positive) + ` [1-9]`).MatchString(text) {
			t.Errorf("%s is missing or not positive", positive)
		}
	}
	if strings.Contains(text, secret) || strings.Contains(text, `source_ready{source="off"}`) {
		t.Error("the metrics show a secret or a disabled source")
	}
	if problems, err := promlint.New(strings.NewReader(text)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("lint: got %v, %v, want no problem", problems, err)
	}
}

// TestBoundedLabels checks that the number of series is limited, however many functions and reasons there are.
func TestBoundedLabels(t *testing.T) {
	t.Parallel()
	b := start(t, slog.LevelError, telemetry.Options{})
	var fns []steps.Function
	for i := range 1000 {
		fns = append(fns, steps.Function{Spec: steps.Spec{Name: fmt.Sprintf("s%d.f%d", i%200, i), Effect: steps.Read},
			Call: func(context.Context, []byte) ([]byte, error) { return []byte("1"), nil }})
	}
	registry, err := steps.NewRegistry(fns, nil)
	if err != nil {
		t.Fatal(err)
	}
	var calling sync.WaitGroup
	for _, entry := range b.Wrap(registry).All() {
		calling.Go(func() {
			for range 2 {
				if _, err := entry.Call(context.Background(), []byte("{}")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 100 {
		b.Refused(fmt.Sprint("reason ", i))
	}
	calling.Wait()
	text := page(t, b)
	functions := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^onecall_calls_total\{.*function="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		functions[match[1]] = true
	}
	sources := strings.Count(text, "\nonecall_call_duration_seconds_count{")
	if len(functions) != 501 || !functions["other"] || sources != 101 || strings.Count(text, "\nonecall_refused_total{") != 31 {
		t.Errorf("%d functions, want 501; %d sources, want 101; want 31 reasons", len(functions), sources)
	}
	sum := 0
	for _, match := range regexp.MustCompile(`(?m)^onecall_calls_total\{.*\} (\d+)$`).FindAllStringSubmatch(text, -1) {
		n := 0
		_, _ = fmt.Sscan(match[1], &n)
		sum += n
	}
	if sum != 2000 {
		t.Errorf("%d calls are counted, want 2000", sum)
	}
}

// TestMetricsPanic checks that a panic while the metrics are read leaves out only the metric that panics.
func TestMetricsPanic(t *testing.T) {
	t.Parallel()
	b := start(t, slog.LevelError, telemetry.Options{
		Sessions: func() int { panic("for a test") },
		Sources: func() []steps.SourceInfo {
			return []steps.SourceInfo{{Name: "not \xff UTF-8"}, {Name: "good", Status: steps.Status{State: steps.StateReady}}}
		},
	})
	text := page(t, b)
	wantLines(t, text, `onecall_requests_running 0`, `onecall_source_ready{source="good"} 1`)
	if strings.Contains(text, "onecall_sessions") {
		t.Error("the metrics have onecall_sessions, whose function panics")
	}
}

// TestRunning checks the counts of running requests, and of calls that their callers have abandoned.
func TestRunning(t *testing.T) {
	t.Parallel()
	b := start(t, slog.LevelError, telemetry.Options{})
	_, end := b.Request(context.Background(), &chain.RequestInfo{Kind: chain.KindPass})
	release, entered := make(chan struct{}), make(chan struct{})
	registry, err := steps.NewRegistry([]steps.Function{{Spec: steps.Spec{Name: "slow.call"},
		Call: func(context.Context, []byte) ([]byte, error) {
			close(entered)
			<-release
			return []byte("1"), nil
		}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-entered; cancel() }()
	if _, err := b.Wrap(registry).All()[0].Call(ctx, []byte("{}")); fault.CodeOf(err) != fault.Cancelled {
		t.Fatalf("got error %v, want cancelled", err)
	}
	wantLines(t, page(t, b), `onecall_requests_running 1`, `onecall_calls_running{source="slow"} 1`,
		`onecall_calls_total{code="ok",function="slow.call",source="slow"} 0`)
	close(release)
	end(&chain.RequestEnd{})
	text := ""
	polltest.Until(t, "the call has ended and is counted", func() bool { // a page does not have all metrics of one moment
		text = page(t, b)
		return strings.Contains(text, "\nonecall_calls_running{source=\"slow\"} 0\n") &&
			strings.Contains(text, "\nonecall_calls_total{code=\"ok\",function=\"slow.call\",source=\"slow\"} 1\n")
	})
	wantLines(t, text, `onecall_requests_running 0`)
}

// TestDriver checks that counting a store does not change its behavior.
func TestDriver(t *testing.T) {
	t.Parallel()
	b := start(t, slog.LevelError, telemetry.Options{})
	storetest.Run(t, func(t *testing.T) budget.Driver {
		store, err := memstore.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		return b.Driver("memory", store)
	})
	t.Run("operations are counted", func(t *testing.T) {
		b := start(t, slog.LevelError, telemetry.Options{})
		store, err := memstore.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		d := b.Driver("memory", store)
		_, err = d.Get(context.Background(), "none", nil)
		if !errors.Is(err, budget.ErrNotFound) {
			t.Errorf("got error %v, want %v", err, budget.ErrNotFound)
		}
		done, cancel := context.WithCancel(context.Background())
		cancel()
		_ = d.Delete(done, "none")
		_ = d.Touch(context.Background(), "none", time.Now())
		_ = d.Close()
		_ = d.Put(context.Background(), "none", budget.Entry{})
		wantLines(t, page(t, b),
			`onecall_store_operations_total{code="not_found",operation="get",store="memory"} 1`,
			`onecall_store_operations_total{code="cancelled",operation="delete",store="memory"} 1`,
			`onecall_store_operations_total{code="not_found",operation="touch",store="memory"} 1`,
			`onecall_store_operations_total{code="unavailable",operation="put",store="memory"} 1`)
	})
}

// TestOpenMetrics checks that a reader may ask for OpenMetrics, and that many may ask at once.
func TestOpenMetrics(t *testing.T) {
	t.Parallel()
	b := start(t, slog.LevelError, telemetry.Options{})
	server := httptest.NewServer(b.Handler())
	defer server.Close()
	var reading sync.WaitGroup
	for range 20 {
		reading.Go(func() {
			request, _ := http.NewRequest(http.MethodGet, server.URL, nil)
			request.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
			response, err := server.Client().Do(request)
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			body, _ := io.ReadAll(response.Body)
			switch {
			case response.StatusCode == http.StatusServiceUnavailable: // too many at once
			case response.StatusCode != http.StatusOK || !strings.HasSuffix(string(body), "# EOF\n"):
				t.Errorf("got %d, %.200s, want 200 and a page that ends with # EOF", response.StatusCode, body)
			}
			b.run(context.Background(), `{"steps":[{"fn":"bare"}]}`)
		})
	}
	reading.Wait()
}
