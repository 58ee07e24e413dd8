package state_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/transcript"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/state"
	"github.com/onecall-mcp/onecall/steps/stepstest"
)

// open returns the functions of a source over a new journal in memory.
func open(t testing.TB, o state.Options) (*state.Source, *steps.Registry) {
	t.Helper()
	j, err := journal.New(&journal.Memory{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	o.Journal = func() *journal.Journal { return j }
	source := state.New(&o)
	registry, err := steps.NewRegistry(source.Functions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return source, registry
}

// as returns the context of a caller's calls.
func as(ctx context.Context, caller string) context.Context {
	return steps.WithCallbacks(ctx, &steps.Callbacks{Caller: caller})
}

// call returns the answer of a call, or its code and message.
func call(ctx context.Context, r *steps.Registry, function, args string) string {
	entry, err := r.Resolve(function)
	if err != nil {
		return err.Error()
	}
	raw, err := entry.Call(ctx, []byte(args))
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// TestBlocks: a value that holds a block is refused, since its handle would name nothing later; its bytes are kept as any other text.
func TestBlocks(t *testing.T) {
	t.Parallel()
	_, registry := open(t, state.Options{})
	ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{Caller: "ann", Blocks: &steps.Blocks{Memory: unlimited{}}})
	block, err := steps.KeepBlock(ctx, &steps.Block{Type: "image", MIME: "image/png", Bytes: []byte("bytes")})
	if err != nil {
		t.Fatal(err)
	}
	for _, function := range []string{"state.set", "state.append"} {
		answer := call(ctx, registry, function, `{"key":"k","value":{"photo":`+string(block)+`}}`)
		if !strings.Contains(answer, "handle of a block") {
			t.Errorf("%s: got %s, want that it refuses the handle", function, answer)
		}
	}
	if answer := call(ctx, registry, "state.set", `{"key":"k","value":"Ynl0ZXM="}`); !strings.Contains(answer, `"version"`) {
		t.Errorf("the bytes: got %s", answer)
	}
}

// unlimited is the memory of a run without bounds.
type unlimited struct{}

func (unlimited) KeepBlock(int) error     { return nil }
func (unlimited) HoldArguments(int) error { return nil }
func (unlimited) ReleaseArguments(int)    {}

func TestConformance(t *testing.T) {
	t.Parallel()
	stepstest.Run(t, stepstest.Options{
		New: func(t *testing.T) steps.Source {
			source, registry := open(t, state.Options{})
			for _, args := range []string{`{"key":"k","value":1}`, `{"key":"text","value":"t"}`} {
				if got := call(t.Context(), registry, "state.set", args); !strings.HasPrefix(got, `{"version"`) {
					t.Fatal(got)
				}
			}
			return source
		},
		Args: map[string]string{
			"state.set": `{"key":"k","value":{"a":[1]},"ttl":"90s"}`, "state.append": `{"key":"list","value":null}`,
			"state.delete": `{"key":"gone"}`, "state.get": `{"key":"k"}`, "state.list": `{}`, "state.checkpoint": `{}`,
			"state.unlock": `{"token":"gone::lock"}`,
		},
		Fails: map[string][]string{
			"state.set":    {`{"key":"k","value":1,"ifVersion":99}`, `{"key":"k","value":1,"space":"session"}`},
			"state.append": {`{"key":"text","value":1}`},
			"state.delete": {`{"key":"k","ifVersion":99}`, `{"key":"none","value":1}`},
			"state.get":    {`{"key":"none"}`},
			"state.list":   {`{"space":"session"}`},
			"state.lock":   {`{"name":"l","ttl":"11m"}`},
			"state.unlock": {`{"token":"x"}`},
		},
	})
}

var moment = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:]*Z`)

// TestCalls makes the calls of testdata/calls.txt one after another, each by the caller before its colon; the indented line is the answer.
func TestCalls(t *testing.T) {
	t.Parallel()
	_, registry := open(t, state.Options{MaxBytes: 1000, Anonymous: "http",
		Spaces: map[string][]string{"team": {"token:ann", "token:bob"}}})
	sessions := map[string]*steps.Session{"ann1": {}, "ann2": {}, "http1": {}, "http2": {}}
	transcript.FileLines(t, "testdata/calls.txt", func(line string) string {
		caller, rest, _ := strings.Cut(line, ": ")
		function, args, _ := strings.Cut(rest, " ")
		if function == "END" {
			sessions[caller].End()
			return "ended"
		}
		ctx := as(t.Context(), "token:"+strings.TrimRight(caller, "12"))
		if strings.HasPrefix(caller, "http") {
			ctx = as(t.Context(), "http")
		}
		if session := sessions[caller]; session != nil {
			ctx = steps.WithSession(ctx, session)
		}
		args = strings.ReplaceAll(args, "LONG", strings.Repeat("x", 1000))
		args = strings.ReplaceAll(args, "XXXXXXX", strings.Repeat("x", 700))
		return moment.ReplaceAllString(call(ctx, registry, "state."+function, args), "TIME")
	})
}

// TestExpires: a value is there until its time has passed, and one that names no time as long as the options say.
func TestExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, registry := open(t, state.Options{TTL: time.Hour})
		defer source.Close()
		call(t.Context(), registry, "state.set", `{"key":"short","value":1,"ttl":"10s"}`)
		call(t.Context(), registry, "state.set", `{"key":"hour","value":2}`)
		for _, want := range []string{"short hour", "hour", ""} {
			for _, key := range []string{"short", "hour"} {
				got := call(t.Context(), registry, "state.get", `{"key":"`+key+`"}`)
				if there := strings.HasPrefix(got, `{"value"`); there != strings.Contains(want, key) {
					t.Errorf("%s: %s, want there: %q", key, got, want)
				}
			}
			time.Sleep(time.Hour - time.Second)
		}
	})
}

// TestManyAppend: elements that many append at once are all there, in one order.
func TestManyAppend(t *testing.T) {
	t.Parallel()
	_, registry := open(t, state.Options{})
	const many = 50
	var wait sync.WaitGroup
	for i := range many {
		wait.Go(func() {
			if got := call(t.Context(), registry, "state.append", fmt.Sprintf(`{"key":"list","value":%d}`, i)); !strings.Contains(got, "length") {
				t.Error(got)
			}
		})
	}
	wait.Wait()
	got := call(t.Context(), registry, "state.get", `{"key":"list"}`)
	for i := range many {
		if !regexp.MustCompile(fmt.Sprintf(`[\[,]%d[,\]]`, i)).MatchString(got) {
			t.Errorf("%d is lost: %s", i, got)
		}
	}
	if !strings.Contains(got, fmt.Sprintf(`"version":%d,`, many)) {
		t.Errorf("%s, want version %d", got, many)
	}
}

// TestRunOfItsOwn: a call without a run is recorded as a run of its caller, and a failed one, too.
func TestRunOfItsOwn(t *testing.T) {
	t.Parallel()
	j, err := journal.New(&journal.Memory{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	registry, err := steps.NewRegistry(state.New(&state.Options{Journal: func() *journal.Journal { return j }}).Functions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	call(as(t.Context(), "token:ann"), registry, "state.set", `{"key":"k","value":1}`)
	call(as(t.Context(), "token:ann"), registry, "state.set", `{"key":"k","value":1,"ifVersion":9}`)
	rows, err := j.List(t.Context(), &journal.Filter{})
	if err != nil || len(rows) != 2 {
		t.Fatalf("%d runs, error %v; want 2", len(rows), err)
	}
	for i, want := range []fault.Outcome{fault.Failed, fault.Applied} {
		past, err := j.Read(t.Context(), rows[i].ID, nil)
		if err != nil || past.Row.Caller != "token:ann" || len(past.Calls()) != 1 || past.Calls()[0].Outcome != want {
			t.Errorf("run %d is %+v, %v; want one call of ann that is %s", i, past, err, want)
		}
	}
}
