//go:build !notrace

package telemetry_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/internal/telemetry"
	"github.com/onecall-mcp/onecall/steps"
)

// TestSpans checks what a collector gets of a chain: one span for the chain and one for each step, in the form of the semantic conventions,
// in the caller's trace, and without arguments, results and messages.
func TestSpans(t *testing.T) {
	s := newSink(t)
	setTraceEnv(t, s, "OTEL_SERVICE_NAME", "tools", "OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test", "OTEL_EXPORTER_OTLP_HEADERS",
		"authorization=Bearer%20"+secret, "OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	b := start(t, slog.LevelInfo, telemetry.Options{Version: "1.2.3"})
	ctx := telemetry.WithCall(context.Background(), "", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "vendor=x")
	b.run(telemetry.WithCall(ctx, "chain", "", ""), mixed)
	if err := b.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if s.headers.Get("Authorization") != "Bearer "+secret || s.resource["service.name"] != "tools" ||
		s.resource["service.version"] != "1.2.3" ||
		s.resource["deployment.environment"] != "test" || s.resource["host.name"] == "" {
		t.Errorf("got headers %v, resource %v, want the bearer token, tools 1.2.3, test and a host", s.headers, s.resource)
	}
	line := b.out.records(t, "request")[0]
	byID := map[string]*otlp.Span{}
	for _, span := range s.spans {
		byID[string(span.SpanId)] = span
		if fmt.Sprintf("%x", span.TraceId) != "0af7651916cd43dd8448eb211c80319c" || span.TraceState != "vendor=x" ||
			span.EndTimeUnixNano < span.StartTimeUnixNano {
			t.Errorf("got span %v, want the caller's trace and state, and an end after its start", span)
		}
	}
	var tree []string
	for _, span := range s.spans {
		within := "the caller"
		if parent := byID[string(span.ParentSpanId)]; parent != nil {
			within = attributes(parent.Attributes)["onecall.step.at"]
			if parent.StartTimeUnixNano > span.StartTimeUnixNano || parent.EndTimeUnixNano < span.EndTimeUnixNano {
				t.Errorf("the span %s is not within its parent %s", span.Name, parent.Name)
			}
		}
		attrs := attributes(span.Attributes)
		tree = append(tree, fmt.Sprintf("%s|%s|%q|%s|%s|%s", attrs["onecall.step.at"], span.Name, within,
			strings.ToLower(span.Kind.String()[10:]), attrs["onecall.step.status"], attrs["error.type"]))
	}
	slices.Sort(tree)
	if want := []string{
		`/steps/0|execute_tool test.echo|""|internal|ok|`,
		`/steps/1/chain/steps/0|execute_tool test.write|"/steps/1"|internal|ok|`,
		`/steps/1|chain|""|internal|ok|`,
		`/steps/2|execute_tool test.echo|""|internal|ok|`,
		`/steps/3|execute_tool test.fail|""|internal|failed|function_failed`,
		`|tools/call chain|"the caller"|server||function_failed`,
	}; !slices.Equal(tree, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(tree, "\n"), strings.Join(want, "\n"))
	}
	root := s.byName("tools/call chain")[0]
	attrs := attributes(root.Attributes)
	for key, want := range map[string]string{
		"mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "chain",
		"onecall.chain.id":     line.Get("chain_id").Str,
		"onecall.request.kind": "chain", "onecall.steps": "5", "onecall.steps.skipped": "1", "onecall.calls": "6",
	} {
		if attrs[key] != want {
			t.Errorf("%s is %q, want %q", key, attrs[key], want)
		}
	}
	if root.Status.Code != otlp.Status_STATUS_CODE_ERROR || root.Status.Message != "" {
		t.Errorf("got status %v, want an error without a message", root.Status)
	}
	step := attributes(s.byName("execute_tool test.write")[0].Attributes)
	if step["gen_ai.tool.name"] != "test.write" || step["gen_ai.operation.name"] != "execute_tool" ||
		step["onecall.step.effect"] != "write" || step["onecall.calls"] != "1" {
		t.Errorf("got attributes %v, want one write call of test.write", step)
	}
	if line.Get("trace_id").Str != "0af7651916cd43dd8448eb211c80319c" || line.Get("span_id").Str != fmt.Sprintf("%x", root.SpanId) {
		t.Errorf("got %s, want the ids of the caller's trace and of the span %x", line.Raw, root.SpanId)
	}
	if strings.Contains(string(s.raw), secret) || strings.Contains(string(s.raw), "token:ci") ||
		strings.Contains(string(s.raw), "is not good") {
		t.Error("a secret, the caller or a message was sent to the collector")
	}
	wantLines(t, page(t, b), `onecall_trace_spans_total 6`, `onecall_trace_spans_sent_total 6`, `onecall_trace_spans_failed_total 0`)
}

// TestSpanTimes checks that the span of a request begins when the request arrives, before it is read, and lasts as long as the request.
func TestSpanTimes(t *testing.T) {
	s := newSink(t)
	setTraceEnv(t, s)
	b := start(t, slog.LevelError, telemetry.Options{})
	arrived := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	_, end := b.Request(context.Background(), &chain.RequestInfo{Kind: chain.KindPass, Started: arrived})
	end(&chain.RequestEnd{Took: 7 * time.Second})
	if err := b.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if span := s.byName("pass")[0]; span.StartTimeUnixNano != uint64(arrived.UnixNano()) ||
		span.EndTimeUnixNano != uint64(arrived.Add(7*time.Second).UnixNano()) {
		t.Errorf("got span %v, want 7s from %v", span, arrived)
	}
}

// TestLogsOfSteps checks that a line that is logged in a step has the ids of the step's span.
func TestLogsOfSteps(t *testing.T) {
	s := newSink(t)
	setTraceEnv(t, s)
	b := start(t, slog.LevelInfo, telemetry.Options{})
	b.run(context.Background(), `{"steps":[{"fn":"test.echo"}]}`)
	if err := b.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	line, span := b.out.records(t, "called")[0], s.byName("execute_tool test.echo")[0]
	if line.Get("span_id").Str != fmt.Sprintf("%x", span.SpanId) || line.Get("trace_id").Str != fmt.Sprintf("%x", span.TraceId) {
		t.Errorf("got %s, want the ids of the span %v", line.Raw, span)
	}
	if root := s.byName("chain")[0]; root.Kind != otlp.Span_SPAN_KIND_INTERNAL || len(root.ParentSpanId) > 0 ||
		root.Status.Code != otlp.Status_STATUS_CODE_UNSET {
		t.Errorf("got root span %v, want kind internal, no parent and status unset", root)
	}
}

// TestWhenTracesAreSent checks when there are no traces, and that no collector is called then.
func TestWhenTracesAreSent(t *testing.T) {
	parentPrefix := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"
	for name, test := range map[string]struct {
		set   []string
		flags string
		spans int
	}{
		"nothing is set":               {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", ""}, "1", 0},
		"the SDK is disabled":          {[]string{"OTEL_SDK_DISABLED", "TRUE"}, "1", 0},
		"no exporter":                  {[]string{"OTEL_TRACES_EXPORTER", "none"}, "1", 0},
		"an endpoint":                  {nil, "1", 2},
		"an endpoint of traces":        {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "own"}, "1", 2},
		"the caller does not trace":    {nil, "0", 0},
		"the sampler is off":           {[]string{"OTEL_TRACES_SAMPLER", "always_off"}, "1", 0},
		"always sampled out (ratio 0)": {[]string{"OTEL_TRACES_SAMPLER", "traceidratio", "OTEL_TRACES_SAMPLER_ARG", "0"}, "1", 0},
		"all, whatever callers want":   {[]string{"OTEL_TRACES_SAMPLER", "always_on"}, "0", 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSink(t)
			set := slices.Clone(test.set)
			if i := slices.Index(set, "own"); i >= 0 {
				set[i] = s.URL + "/own/path"
			}
			setTraceEnv(t, s, set...)
			b := start(t, slog.LevelInfo, telemetry.Options{})
			b.run(telemetry.WithCall(context.Background(), "", parentPrefix+test.flags, ""), `{"steps":[{"fn":"bare"}]}`)
			if err := b.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			if len(s.spans) != test.spans || test.spans == 0 && s.requests > 0 {
				t.Errorf("%d spans in %d requests, want %d spans", len(s.spans), s.requests, test.spans)
			}
			wantLines(t, page(t, b), fmt.Sprintf("onecall_trace_spans_sent_total %d", test.spans))
			if line := b.out.records(t, "request")[0]; line.Get("trace_id").Str != "0af7651916cd43dd8448eb211c80319c" {
				t.Errorf("got %s, want trace_id 0af7651916cd43dd8448eb211c80319c", line.Raw)
			}
		})
	}
}

// TestManySteps checks that a chain of very many steps has a limited number of spans, and counts the steps without one.
func TestManySteps(t *testing.T) {
	s := newSink(t)
	setTraceEnv(t, s)
	b := start(t, slog.LevelError, telemetry.Options{})
	answer := b.run(context.Background(), `{"lite":true,"steps":[{"forEach":"1..1500","chain":{"steps":[{"fn":"bare"}]}}],"return":"$0[-1]"}`)
	if string(answer.JSON) != `{"chain":"night.jsonl:7","result":1}` {
		t.Fatalf(`got %s, want {"chain":"night.jsonl:7","result":1}`, answer.JSON)
	}
	if err := b.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	// Spans for the request, the forEach step, and 999 of the inline steps.
	if n := len(s.byName("execute_tool bare")); n != 999 || len(s.spans) != 1001 {
		t.Errorf("%d spans, %d of them of bare; want 1001 and 999", len(s.spans), n)
	}
	var root *otlp.Span
	for _, span := range s.byName("chain") {
		if len(span.ParentSpanId) == 0 {
			root = span
		}
	}
	if attrs := attributes(root.Attributes); attrs["onecall.steps.untraced"] != "501" || attrs["onecall.calls"] != "1500" {
		t.Errorf("got attributes %v, want 1500 calls and 501 untraced steps", attrs)
	}
}

// TestCollectorHangs checks that neither chains nor Close wait for a collector that does not answer, and that nothing runs after
// Close.
func TestCollectorHangs(t *testing.T) {
	s := newSink(t)
	s.block = make(chan struct{}) // never closed: a chain that waits hangs the test
	setTraceEnv(t, s, "OTEL_BSP_MAX_QUEUE_SIZE", "100", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10",
		"OTEL_EXPORTER_OTLP_TIMEOUT", "600000", "OTEL_BSP_EXPORT_TIMEOUT", "600000") // so that only Close ends an export
	before := runtime.NumGoroutine()
	b := start(t, slog.LevelWarn, telemetry.Options{})
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for range 300 {
				if answer := b.run(context.Background(), `{"steps":[{"fn":"bare"},{"fn":"bare"}]}`); !answer.OK {
					t.Errorf("got %s, want ok", answer.JSON)
				}
			}
		})
	}
	running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := b.Close(ctx); fault.CodeOf(err) != fault.Timeout {
		t.Errorf("Close: %v, want %s", err, fault.Timeout)
	}
	polltest.Until(t, "no spans are sent after Close", func() bool { return s.abandoned.Load() > 0 })
	// Two goroutines may remain: one for the sink's listener, and one of the test.
	polltest.Until(t, "the goroutines end", func() bool {
		s.CloseClientConnections()
		return runtime.NumGoroutine() <= before+2
	}, goroutines{})
	if answer := b.run(context.Background(), `{"steps":[{"fn":"bare"}]}`); !answer.OK { // a chain runs even after Close
		t.Errorf("after Close: got %s, want ok", answer.JSON)
	}
	wantLines(t, page(t, b), `onecall_trace_spans_sent_total 0`)
}

// goroutines prints the stacks of all goroutines.
type goroutines struct{}

func (goroutines) String() string {
	stacks := make([]byte, 1<<20)
	return string(stacks[:runtime.Stack(stacks, true)])
}

// TestCollectorRefuses checks that failures are logged once, without the credentials for the collector.
func TestCollectorRefuses(t *testing.T) {
	s := newSink(t)
	s.status = http.StatusUnauthorized
	setTraceEnv(t, s, "OTEL_EXPORTER_OTLP_HEADERS", "api-key=another-secret,x="+secret, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
	b := start(t, slog.LevelWarn, telemetry.Options{})
	for range 20 {
		b.run(context.Background(), `{"steps":[{"fn":"test.echo"}]}`)
	}
	if err := b.Close(context.Background()); err != nil { // the collector got the spans, and refused them
		t.Error(err)
	}
	reports := b.out.records(t, "traces cannot be sent: they are lost until the collector accepts them")
	if len(reports) != 1 || reports[0].Get("level").Str != "WARN" || !strings.Contains(reports[0].Get("error").Str, "401") ||
		!strings.Contains(reports[0].Get("error").Str, "[redacted]") {
		t.Errorf("got %s, want one redacted warning of the 401", reports)
	}
	if strings.Contains(b.out.String(), secret) {
		t.Errorf("got log %s, want it without the secret", b.out)
	}
	wantLines(t, page(t, b), `onecall_trace_spans_failed_total 40`, `onecall_trace_spans_sent_total 0`)
}

// TestCollectorIsDown checks that a collector that is down costs chains nothing.
func TestCollectorIsDown(t *testing.T) {
	s := newSink(t)
	setTraceEnv(t, s, "OTEL_BSP_EXPORT_TIMEOUT", "100")
	s.Close()
	b := start(t, slog.LevelWarn, telemetry.Options{})
	for range 100 {
		if answer := b.run(context.Background(), `{"steps":[{"fn":"bare"}]}`); !answer.OK {
			t.Fatalf("got %s, want ok", answer.JSON)
		}
	}
	_ = b.Close(context.Background())
	if reports := b.out.records(t, "traces cannot be sent: they are lost until the collector accepts them"); len(reports) != 1 {
		t.Errorf("%d warnings, want 1: %s", len(reports), b.out)
	}
}

// TestEnvironment checks that settings with which traces could not be sent are refused at the start.
func TestEnvironment(t *testing.T) {
	for variable, test := range map[string]struct {
		value string
		code  fault.Code
		want  string
	}{
		"OTEL_EXPORTER_OTLP_PROTOCOL":        {"grpc", fault.NotSupported, "4318"},
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": {"http/json", fault.NotSupported, "http/protobuf"},
		"OTEL_TRACES_EXPORTER":               {"zipkin", fault.NotSupported, "otlp"},
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": {"collector:4318", fault.BadRequest, "http"},
		"OTEL_BSP_MAX_QUEUE_SIZE":            {"100000000000", fault.BadRequest, "1000000"},
		"OTEL_BSP_MAX_EXPORT_BATCH_SIZE":     {"-1", fault.BadRequest, "spans"},
		"OTEL_RESOURCE_ATTRIBUTES":           {"no-value", fault.BadRequest, "key=value"},
	} {
		t.Run(variable, func(t *testing.T) {
			s := newSink(t)
			setTraceEnv(t, s, "OTEL_TRACES_SAMPLER", "traceidratio", variable, test.value)
			_, err := telemetry.New(nil)
			if fault.CodeOf(err) != test.code || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), secret) {
				t.Errorf("got %v, want %s with %q and without secrets", err, test.code, test.want)
			}
			if strings.HasPrefix(variable, "OTEL_EXPORTER_OTLP_") && !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_") {
				t.Errorf("the error does not name the variable: %v", err)
			}
			t.Setenv("OTEL_SDK_DISABLED", "true")
			if _, err := telemetry.New(nil); err != nil {
				t.Errorf("the variable is validated although tracing is disabled: %v", err)
			}
		})
	}
}

// TestEndpointSecrets checks that credentials in the collector's address are refused, because errors show the address.
func TestEndpointSecrets(t *testing.T) {
	s := newSink(t)
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		for _, endpoint := range []string{"https://me:" + secret + "@collector", "https://" + secret + "@collector/v1/traces",
			"https://collector?key=" + secret, "https://collector#" + secret} {
			setTraceEnv(t, s, variable, endpoint)
			_, err := telemetry.New(nil)
			if fault.CodeOf(err) != fault.BadRequest || !strings.Contains(err.Error(), variable+" cannot") ||
				!strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_HEADERS") || strings.Contains(err.Error(), secret) {
				t.Errorf("%s: got %v, want bad_request with %s and OTEL_EXPORTER_OTLP_HEADERS, without the secret", endpoint, err, variable)
			}
		}
		t.Setenv(variable, "")
	}
}

// TestStepWithoutRequest checks that a step in the context of no request has no span, and does no harm.
func TestStepWithoutRequest(t *testing.T) {
	s := newSink(t)
	setTraceEnv(t, s)
	b := start(t, slog.LevelError, telemetry.Options{})
	_, end := b.Step(context.Background(), chain.StepInfo{At: "/steps/0", Effect: steps.Read})
	end(chain.StepEnd{Status: "ok", Elements: -1})
	if err := b.Close(context.Background()); err != nil || s.requests > 0 {
		t.Errorf("Close: got %v, %d requests, want no error and 0", err, s.requests)
	}
}
