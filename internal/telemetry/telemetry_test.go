package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/memstore"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	secrets "github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/internal/syncbuf"
	"github.com/onecall-mcp/onecall/internal/telemetry"
	"github.com/onecall-mcp/onecall/steps"
)

// secret is in the arguments, results, errors and configurations of these tests. No output may contain it.
const secret = "hunter2-hunter2"

// functions returns the functions of these tests. Each logs, in the context of its call, that it was called.
func functions(log *slog.Logger) []steps.Function {
	fn := func(name string, effect steps.Effect, call steps.Call) steps.Function {
		return steps.Function{Spec: steps.Spec{Name: name, Effect: effect, EffectDeclared: true, Timeout: 290 * time.Second},
			Call: func(ctx context.Context, args []byte) ([]byte, error) {
				log.WarnContext(ctx, "called", "fn", name)
				return call(ctx, args)
			}}
	}
	return []steps.Function{
		fn("test.echo", steps.Read, func(_ context.Context, args []byte) ([]byte, error) { return bytes.Clone(args), nil }),
		fn("test.write", steps.Write, func(_ context.Context, args []byte) ([]byte, error) { return bytes.Clone(args), nil }),
		fn("test.fail", steps.Read, func(context.Context, []byte) ([]byte, error) {
			return nil, fault.New(fault.FunctionFailed, "the token %s is not good", secret)
		}),
		fn("down.get", steps.Read, func(context.Context, []byte) ([]byte, error) {
			return nil, fault.New(fault.Unavailable, "down refuses %s", secret)
		}),
		fn("test.panic", steps.Read, func(context.Context, []byte) ([]byte, error) { panic("for a test") }),
		fn("slow.get", steps.Read, func(ctx context.Context, args []byte) ([]byte, error) {
			select {
			case <-time.After(time.Duration(gjson.GetBytes(args, "ms").Int()) * time.Millisecond):
				return []byte("1"), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}),
		fn("bare", steps.Read, func(context.Context, []byte) ([]byte, error) { return []byte("1"), nil }),
	}
}

// bench is an engine that telemetry observes, and its log.
type bench struct {
	*telemetry.Telemetry
	engine *chain.Engine
	out    *lines
}

// lines is a log in JSON.
type lines struct{ syncbuf.Buffer }

// records returns the lines with a message.
func (l *lines) records(t testing.TB, message string) (matches []gjson.Result) {
	t.Helper()
	for text := range strings.SplitSeq(strings.TrimSpace(l.String()), "\n") {
		if text == "" {
			continue
		}
		if !json.Valid([]byte(text)) {
			t.Fatalf("a line is not JSON: %s", text)
		}
		if one := gjson.Parse(text); one.Get("msg").Str == message {
			matches = append(matches, one)
		}
	}
	return matches
}

func start(t testing.TB, level slog.Level, o telemetry.Options) *bench {
	t.Helper()
	b := &bench{out: &lines{}}
	log := slog.New(telemetry.LogHandler(slog.NewJSONHandler(b.out, &slog.HandlerOptions{Level: level})))
	o.Log, o.Scrub = log, secrets.New([]string{secret}).Text
	var err error
	if b.Telemetry, err = telemetry.New(&o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	registry, err := steps.NewRegistry(functions(log), nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := memstore.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	results, err := budget.NewResults(b.Driver("results", store), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { results.Close() })
	if b.engine, err = chain.New(&chain.Options{Functions: b.Wrap(registry), Results: results, Observer: b.Telemetry}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) run(ctx context.Context, request string) *chain.Answer {
	return b.engine.Run(ctx, []byte(request), &chain.Caller{ID: "token:ci", Label: "night.jsonl:7"})
}

// mixed is a chain with a step of each kind, and with secrets.
const mixed = `{"name":"nightly","onError":"continue","steps":[
	{"fn":"test.echo","args":{"value":"` + secret + `"}},
	{"chain":{"steps":[{"fn":"test.write","args":{"value":"$input.v"}}]},"args":{"v":"$0.value"}},
	{"fn":"test.echo","forEach":"1..3"},
	{"fn":"test.fail"},
	{"fn":"test.echo","args":{"value":"$3"}}]}`
