package telemetry_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/telemetry"
	"github.com/onecall-mcp/onecall/steps"
)

// TestRequestLine checks the only line of a request at level info, and that everything that belongs to the request has its id.
func TestRequestLine(t *testing.T) {
	t.Parallel()
	b := start(t, slog.LevelInfo, telemetry.Options{})
	answer := b.run(context.Background(), mixed)
	list := b.out.records(t, "request")
	if len(list) != 1 {
		t.Fatalf("%d request lines, want 1:\n%s", len(list), b.out)
	}
	line := list[0]
	for key, want := range map[string]any{
		"level": "INFO", "kind": "chain", "caller": "token:ci", "label": "night.jsonl:7", "name": "nightly", "code": "function_failed",
		"steps": 5.0, "skipped": 1.0, "calls": 6.0, "answer_bytes": float64(len(answer.JSON)), "request_bytes": float64(len(mixed)),
	} {
		if got := line.Get(key).Value(); got != want {
			t.Errorf("%s is %v, want %v in %s", key, got, want, line.Raw)
		}
	}
	if id := line.Get("chain_id").Str; len(id) != 16 || line.Get("tokens").Int() == 0 || !line.Get("ms").Exists() ||
		line.Get("step").Exists() || line.Get("trace_id").Exists() {
		t.Errorf("got %s, want an id of 16 bytes, tokens and ms, and neither step nor trace_id", line.Raw)
	}
	var positions []string
	for _, one := range b.out.records(t, "called") {
		if one.Get("chain_id").Str != line.Get("chain_id").Str {
			t.Errorf("got %s, want the request's chain_id %s", one.Raw, line.Get("chain_id").Str)
		}
		positions = append(positions, one.Get("step").Str)
	}
	slices.Sort(positions)
	if want := []string{"/steps/0", "/steps/1/chain/steps/0", "/steps/2", "/steps/2", "/steps/2", "/steps/3"}; !slices.Equal(positions, want) {
		t.Errorf("calls of the steps %q, want %q", positions, want)
	}
	if len(b.out.records(t, "step")) > 0 || strings.Contains(b.out.String(), secret) {
		t.Errorf("got log %s, want neither lines of steps nor the secret", b.out.String())
	}
	b.run(context.Background(), mixed)
	if list := b.out.records(t, "request"); list[0].Get("chain_id").Str == list[1].Get("chain_id").Str {
		t.Error("two requests have the same chain_id")
	}
}

// TestDebugLines checks that each step has a line at level debug, and that errors are logged without secrets.
func TestDebugLines(t *testing.T) {
	t.Parallel()
	b := start(t, slog.LevelDebug, telemetry.Options{})
	b.run(context.Background(), mixed)
	var got []string
	for _, one := range b.out.records(t, "step") {
		got = append(got,
			one.Get("step").Str+" "+one.Get("fn").Str+" "+one.Get("effect").Str+" "+one.Get("status").Str+" "+one.Get("code").Str+" "+
				one.Get("elements").Raw+" "+one.Get("calls").Raw)
		if !one.Get("ms").Exists() || one.Get("level").Str != "DEBUG" {
			t.Errorf("got %s, want ms and level DEBUG", one.Raw)
		}
	}
	slices.Sort(got)
	want := []string{"/steps/0 test.echo read ok   1", "/steps/1  write ok   1", "/steps/1/chain/steps/0 test.write write ok   1",
		"/steps/2 test.echo read ok  3 3", "/steps/3 test.fail read failed function_failed  1"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	line := b.out.records(t, "request")[0]
	if line.Get("error").Str != "the token [redacted] is not good" || line.Get("at").Str != "/steps/3" {
		t.Errorf("got %s, want the redacted error at /steps/3", line.Raw)
	}
	if strings.Contains(b.out.String(), secret) {
		t.Errorf("got log %s, want it without the secret", b.out.String())
	}
	b.run(context.Background(), `{"steps":[{"fn":"nope"},{"fn":"nope"},{"fn":"test.echo","args":{"a":"$7"}}]}`)
	if line := b.out.records(t, "request")[1]; line.Get("code").Str != "compile" ||
		line.Get("faults").Str != "unknown_function,bad_reference" ||
		line.Get("calls").Exists() {
		t.Errorf("got %s, want compile with unknown_function,bad_reference, and no calls", line.Raw)
	}
}

// TestServiceStatus checks that the line of a step has the HTTP status of its service's answer.
func TestServiceStatus(t *testing.T) {
	t.Parallel()
	b := start(t, slog.LevelDebug, telemetry.Options{})
	_, end := b.Step(context.Background(), chain.StepInfo{At: "/steps/0", Function: "shop.get"})
	f := fault.New(fault.FunctionFailed, "shop.get answered 500")
	f.Status = 500
	end(chain.StepEnd{Status: "failed", Function: "shop.get", Err: f, Elements: -1})
	b.run(context.Background(), `{"steps":[{"fn":"test.fail"}]}`)
	if list := b.out.records(t, "step"); list[0].Get("http_status").Int() != 500 || list[1].Get("http_status").Exists() {
		t.Errorf("got log %s, want http_status 500 in the first step only", b.out.String())
	}
}

// TestLevels checks the level at which the end of a request is logged: only problems that operators can fix are errors or warnings.
func TestLevels(t *testing.T) {
	t.Parallel()
	want := map[fault.Code]string{fault.Internal: "ERROR", fault.Unavailable: "WARN", fault.Timeout: "WARN"}
	for _, code := range append(fault.Codes(), "") {
		b := start(t, slog.LevelDebug, telemetry.Options{})
		_, end := b.Request(context.Background(), &chain.RequestInfo{Kind: chain.KindChain})
		level := want[code]
		if level == "" {
			level = "INFO"
		}
		if end(ended(code)); b.out.records(t, "request")[0].Get("level").Str != level {
			t.Errorf("%s: want level %s: %s", code, level, b.out)
		}
	}
	b := start(t, slog.LevelWarn, telemetry.Options{})
	b.run(context.Background(), `{"steps":[{"fn":"test.fail"}]}`)
	b.run(context.Background(), `{"steps":[{"fn":"down.get"}]}`)
	if list := b.out.records(t, "request"); len(list) != 1 || list[0].Get("code").Str != "unavailable" || list[0].Get("error").Exists() {
		t.Errorf("at level warn, want only the unavailable request: %s", b.out)
	}
}

func ended(code fault.Code) *chain.RequestEnd {
	if code == "" {
		return &chain.RequestEnd{}
	}
	f := fault.New(code, "for a test")
	f.Err = errors.New("the cause: " + secret)
	return &chain.RequestEnd{Err: f}
}

// TestCauseOfDefects checks that only the cause of a defect is logged at each level, without secrets.
func TestCauseOfDefects(t *testing.T) {
	t.Parallel()
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelError} {
		b := start(t, level, telemetry.Options{})
		_, end := b.Request(context.Background(), &chain.RequestInfo{Kind: chain.KindChain})
		end(ended(fault.Internal))
		_, end = b.Request(context.Background(), &chain.RequestInfo{Kind: chain.KindChain})
		end(ended(fault.Unavailable))
		list := b.out.records(t, "request")
		if list[0].Get("cause").Str != "the cause: [redacted]" || list[0].Get("error").Str != "for a test" {
			t.Errorf("got log %s, want the redacted cause, and the error for a test", b.out.String())
		}
		if len(list) > 1 && (list[1].Get("cause").Exists() || list[1].Get("error").Exists() != (level == slog.LevelDebug)) {
			t.Errorf("got %s, want no cause, and an error: %t", list[1].Raw, level == slog.LevelDebug)
		}
	}
	large := start(t, slog.LevelError, telemetry.Options{})
	_, end := large.Request(context.Background(), &chain.RequestInfo{Kind: chain.KindChain})
	f := fault.New(fault.Internal, "a defect")
	f.Err = errors.New(strings.Repeat("x", 8<<10-5) + secret + strings.Repeat("y", 1<<20)) // clipped in the secret, a part would remain
	end(&chain.RequestEnd{Err: f})
	if cause := large.out.records(t, "request")[0].Get("cause").Str; len(cause) > 8<<10+10 || len(cause) < 8<<10 || strings.Contains(cause, "hunt") {
		t.Errorf("the cause has %d bytes, want about %d: …%s", len(cause), 8<<10, cause[len(cause)-20:])
	}
	b := start(t, slog.LevelError, telemetry.Options{})
	b.run(context.Background(), `{"steps":[{"fn":"test.panic"}]}`)
	if cause := b.out.records(t, "request")[0].Get("cause").Str; !strings.Contains(cause, "for a test") ||
		!strings.Contains(cause, "telemetry_test.functions") {
		t.Errorf("the cause lacks the panic's stack: %s", cause)
	}
}

// TestTool checks that a line names the tool of its request. The line of a delivery has nothing else to identify it.
func TestTool(t *testing.T) {
	t.Parallel()
	b := start(t, slog.LevelInfo, telemetry.Options{})
	b.engine.Deliver(telemetry.WithCall(context.Background(), "search", "", ""), []byte(`{}`), nil, nil)
	b.engine.Deliver(context.Background(), []byte(`{}`), nil, nil)
	b.run(telemetry.WithCall(context.Background(), "chain", "", ""), `{"steps":[{"fn":"bare"}]}`)
	list := b.out.records(t, "request")
	if list[2].Get("tool").Exists() || list[0].Get("tool").Str != "search" || list[0].Get("kind").Str != "deliver" ||
		list[1].Get("tool").Exists() {
		t.Errorf("got log %s, want a tool in the first request only: search, of kind deliver", b.out.String())
	}
}

// TestLogHandler checks that the added attributes are at the top level, whatever groups and attributes a logger has.
func TestLogHandler(t *testing.T) {
	t.Parallel()
	b := start(t, slog.LevelInfo, telemetry.Options{})
	log := slog.New(telemetry.LogHandler(slog.NewJSONHandler(b.out, nil)))
	ctx, _ := b.Request(context.Background(), &chain.RequestInfo{Kind: chain.KindCall})
	ctx, _ = b.Step(ctx, chain.StepInfo{At: "/steps/4"})
	log.InfoContext(ctx, "plain", "a", 1)
	log.With("b", 2).WithGroup("g").With("c", 3).InfoContext(ctx, "grouped", "a", 1)
	log.WithGroup("g").With("c", 3).Info("without")
	plain, grouped, without := b.out.records(t, "plain")[0], b.out.records(t, "grouped")[0], b.out.records(t, "without")[0]
	for _, line := range []string{plain.Raw, grouped.Raw} {
		if !strings.Contains(line, `"step":"/steps/4"`) {
			t.Errorf("got %s, want step /steps/4", line)
		}
	}
	if plain.Get("chain_id").Str == "" || plain.Get("chain_id").Str != grouped.Get("chain_id").Str || plain.Get("a").Int() != 1 {
		t.Errorf("got %s and %s, want the same chain_id, and a 1 in the first", plain.Raw, grouped.Raw)
	}
	if grouped.Get("b").Int() != 2 || grouped.Get("g.c").Int() != 3 || grouped.Get("g.a").Int() != 1 || grouped.Get("g.chain_id").Exists() {
		t.Errorf("got %s, want b 2, and c 3 and a 1 in the group g, without chain_id", grouped.Raw)
	}
	if without.Get("chain_id").Exists() || without.Get("g.c").Int() != 3 {
		t.Errorf("got %s, want c 3 in the group g, and no chain_id", without.Raw)
	}
	if h := log.Handler(); telemetry.LogHandler(h) != h {
		t.Error("LogHandler wraps a handler that already is one")
	}
}

// TestCallersTrace checks that the log lines of a request have its caller's trace even if onecall sends no traces.
func TestCallersTrace(t *testing.T) {
	t.Parallel()
	b := start(t, slog.LevelInfo, telemetry.Options{})
	ctx := telemetry.WithCall(context.Background(), "", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "")
	b.run(ctx, `{"steps":[{"fn":"bare"}]}`)
	if line := b.out.records(t, "request")[0]; line.Get("trace_id").Str != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf("got %s, want trace_id 0af7651916cd43dd8448eb211c80319c", line.Raw)
	}
	for _, bad := range []string{"", "x", "00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n", strings.Repeat("0", 1<<20)} {
		b := start(t, slog.LevelInfo, telemetry.Options{})
		b.run(telemetry.WithCall(context.Background(), "", bad, "a=b"), `{"steps":[{"fn":"bare"}]}`)
		if line := b.out.records(t, "request")[0]; line.Get("trace_id").Exists() {
			t.Errorf("the invalid traceparent %.60q has a trace_id: %s", bad, line.Raw)
		}
	}
}

// TestLongTexts checks that texts of callers neither flood a log nor make lines of their own in it.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	b := start(t, slog.LevelInfo, telemetry.Options{})
	long := strings.Repeat("é\n", 10_000)
	_, end := b.Request(context.Background(), &chain.RequestInfo{Kind: chain.KindChain, Name: long, Label: long, Caller: long})
	end(&chain.RequestEnd{})
	line := b.out.records(t, "request")[0]
	if name := line.Get("name").Str; len(line.Raw) > 4000 || !strings.HasSuffix(name, "…") || strings.ContainsRune(name, '�') {
		t.Errorf("got %d bytes, want at most 4000, and a name that ends with an ellipsis: %.100s", len(line.Raw), line.Raw)
	}
}

// FuzzParent checks that no trace headers of a caller stop a request.
func FuzzParent(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=b,c=d")
	f.Add("00-", "=,")
	f.Fuzz(func(t *testing.T, parent, state string) {
		b := start(t, slog.LevelInfo, telemetry.Options{})
		if answer := b.run(telemetry.WithCall(context.Background(), "", parent, state),
			`{"lite":true,"steps":[{"fn":"bare"}]}`); string(answer.JSON) == "" || !answer.OK {
			t.Fatalf("got %s, want ok", answer.JSON)
		}
		if len(b.out.records(t, "request")) != 1 {
			t.Fatalf("got log %s, want one request", b.out.String())
		}
	})
}

// TestNilOptions checks that telemetry works without options, and with a step without a request.
func TestNilOptions(t *testing.T) {
	t.Parallel()
	none, err := telemetry.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, end := none.Step(context.Background(), chain.StepInfo{At: "/steps/0"})
	end(chain.StepEnd{Status: "ok", Elements: -1})
	registry, err := steps.NewRegistry(functions(slog.New(slog.DiscardHandler)), nil)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := chain.New(&chain.Options{Functions: none.Wrap(registry), Observer: none})
	if err != nil {
		t.Fatal(err)
	}
	if answer := engine.Run(context.Background(), []byte(`{"steps":[{"fn":"bare"}]}`), nil); !answer.OK {
		t.Errorf("got %s, want ok", answer.JSON)
	}
	for range 2 {
		if err := none.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// TestIdentify checks that a request in a context with an id has this id, as do lines logged before it begins, and that the next request
// has another.
func TestIdentify(t *testing.T) {
	t.Parallel()
	b := start(t, slog.LevelInfo, telemetry.Options{})
	log := slog.New(telemetry.LogHandler(slog.NewJSONHandler(b.out, nil)))
	seen := map[string]bool{}
	for range 50 {
		ctx, id := b.engine.Identify(context.Background(), "")
		if len(id) != 16 || seen[id] {
			t.Fatalf("the id %q has %d bytes, want 16; seen before: %t", id, len(id), seen[id])
		}
		seen[id] = true
		log.WarnContext(ctx, "at the transport", "is", id)
		b.run(ctx, `{"name":"`+id+`","steps":[{"fn":"test.echo"}]}`)
		b.engine.Refuse(ctx, []*fault.Error{fault.New(fault.Busy, "later")}, &chain.Caller{Label: id})
	}
	count := 0
	for _, message := range []string{"at the transport", "request", "called"} {
		for _, line := range b.out.records(t, message) {
			if id := line.Get("chain_id").Str; !seen[id] || message == "request" && line.Get("name").Str != id && line.Get("label").Str != id ||
				message == "at the transport" && line.Get("is").Str != id {
				t.Errorf("got %s, want the chain_id that its request was given", line.Raw)
			}
			count++
		}
	}
	if count != 4*50 {
		t.Errorf("%d lines, want %d", count, 4*50)
	}
	ctx, id := b.Identify(context.Background(), "")
	if _, again := b.Identify(context.Background(), id); again != id {
		t.Errorf("Identify(%q) returns %q, want the given id", id, again)
	}
	outer, _ := b.Request(ctx, &chain.RequestInfo{Kind: chain.KindChain})
	inner, _ := b.Request(outer, &chain.RequestInfo{Kind: chain.KindCall}) // a function's own call of an engine is a separate request
	log.InfoContext(outer, "outer")
	log.InfoContext(inner, "inner")
	if b.out.records(t, "outer")[0].Get("chain_id").Str != id || b.out.records(t, "inner")[0].Get("chain_id").Str == id {
		t.Errorf("got outer %v, inner %v, want chain_id %s for outer only", b.out.records(t, "outer"), b.out.records(t, "inner"), id)
	}
}
