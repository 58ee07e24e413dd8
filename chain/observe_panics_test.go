package chain_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
)

// saboteur is an observer that panics, or returns unusable values.
type saboteur struct{ where string }

func (s saboteur) Request(ctx context.Context, _ *chain.RequestInfo) (context.Context, func(*chain.RequestEnd)) {
	switch s.where {
	case "request":
		panic("observer")
	case "nothing":
		return nil, nil
	}
	return ctx, func(*chain.RequestEnd) {
		if s.where == "ended" {
			panic("observer")
		}
	}
}

func (s saboteur) Step(ctx context.Context, _ chain.StepInfo) (context.Context, func(chain.StepEnd)) {
	switch s.where {
	case "step":
		panic("observer")
	case "nothing":
		return nil, nil
	case "context":
		return brokenContext{ctx}, nil
	}
	return ctx, func(chain.StepEnd) {
		if s.where == "step ended" {
			panic("observer")
		}
	}
}

// brokenContext panics when a value is read from it.
type brokenContext struct{ context.Context }

func (brokenContext) Value(any) any { panic("a broken context") }

// TestObserversChangeNothing: for random chains, an observer, even one that panics, does not change the answer except for the times in it.
// The reports to a correct observer are consistent.
func TestObserversChangeNothing(t *testing.T) {
	t.Parallel()
	plain := engine(t, &world{}, chain.Options{})
	sabotaged := map[string]*chain.Engine{}
	for _, where := range []string{"request", "step", "ended", "step ended", "nothing"} {
		sabotaged[where] = engine(t, &world{}, chain.Options{Observer: saboteur{where}})
	}
	o := &watcher{}
	observed := engine(t, &world{}, chain.Options{Observer: o})
	rapid.Check(t, func(t *rapid.T) {
		request, _, lite := drawChain(t)
		run := func(e *chain.Engine) (string, fault.Code) {
			a := e.Run(context.Background(), request, nil)
			if code := fault.CodeOf(asError(a.Error)); a.OK || code == fault.Compile || gjson.GetBytes(request, "onError").Str == "continue" {
				return shapeOf(a.JSON, lite && a.OK), code
			}
			return "stopped by whichever step failed first", ""
		}
		want, code := run(plain)
		for where, e := range sabotaged {
			if got, c := run(e); got != want || c != code {
				t.Fatalf("with a panic in %s: got %s %s, want %s %s", where, c, got, code, want)
			}
		}
		o.requests, o.violations = nil, nil
		if got, c := run(observed); got != want || c != code {
			t.Fatalf("with an observer: got %s %s, want %s %s", c, got, code, want)
		}
		if len(o.requests) != 1 || o.requests[0].end == nil || len(o.violations) > 0 {
			t.Fatalf("%d reported requests, faults %q; want one that ended, and none", len(o.requests), o.violations)
		}
		r := o.requests[0]
		var calls int64
		began := 0
		for _, s := range r.steps {
			calls += s.end.Calls
			if s.end.Status != "skipped" {
				began++
			}
		}
		if calls != r.end.Calls || code != fault.Compile && began+r.end.Skipped != r.Steps {
			t.Fatalf("%d of %d calls and %d begun and %d skipped of %d steps reported, want all", calls, r.end.Calls, began, r.end.Skipped, r.Steps)
		}
	})
}

// shapeOf returns the part of an answer that does not depend on how long steps took and which of them was faster.
func shapeOf(answer []byte, bare bool) string {
	if bare {
		if token := gjson.GetBytes(answer, "continuation_token"); token.Exists() {
			return gjson.GetBytes(answer, "total_size").Raw + gjson.GetBytes(answer, "shape").Raw
		}
		return string(answer)
	}
	structType := gjson.ParseBytes(answer)
	if !structType.Get("ok").Bool() {
		return structType.Get("error.code").Raw + structType.Get("error.step").Raw + structType.Get("error.message").Raw
	}
	shape := structType.Get("usage.calls").Raw + "|" + structType.Get("usage.kept").Raw + "|"
	if result := structType.Get("result"); !result.Get("continuation_token").Exists() {
		return shape + result.Raw
	}
	return shape + structType.Get("result.shape").Raw
}

// TestDefectsHaveACause: the cause of a panic in the engine is available to logs, and not in the answer.
func TestDefectsHaveACause(t *testing.T) {
	t.Parallel()
	var reported *fault.Error
	o := funcObserver{step: func(ctx context.Context) (context.Context, func(chain.StepEnd)) {
		return brokenContext{ctx}, func(e chain.StepEnd) { reported = e.Err }
	}}
	answer := engine(t, &world{}, chain.Options{Observer: o}).Run(context.Background(), []byte(`{"steps":[{"fn":"test.echo"}]}`), nil)
	if answer.OK || answer.Error.Code != fault.Internal || strings.Contains(string(answer.JSON), "broken context") {
		t.Fatalf("got %s, want internal without the cause", answer.JSON)
	}
	if reported == nil || reported.Err == nil || !strings.Contains(reported.Err.Error(), "a broken context") ||
		!strings.Contains(reported.Err.Error(), "run.(*Run)") {
		t.Errorf("the reported error lacks the cause: %v", reported)
	}
}

// TestDefectsOfRequestsHaveACause: the cause of a panic outside of all steps is also available to logs, and not in the answer.
func TestDefectsOfRequestsHaveACause(t *testing.T) {
	t.Parallel()
	var reported *fault.Error
	o := funcObserver{request: func(ctx context.Context) (context.Context, func(*chain.RequestEnd)) {
		return brokenContext{ctx}, func(e *chain.RequestEnd) { reported = e.Err }
	}}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	answer := engine(t, &world{}, chain.Options{Observer: o}).Run(ctx, []byte(`{"steps":[{"fn":"test.echo"}]}`), nil)
	if answer.OK || answer.Error.Code != fault.Internal || answer.Error.At != "" || strings.Contains(string(answer.JSON), "broken context") ||
		!strings.Contains(answer.Error.Message, "stopped this request") {
		t.Fatalf("got %s, want internal of the request, without the cause", answer.JSON)
	}
	if reported == nil || reported.Err == nil || !strings.Contains(reported.Err.Error(), "a broken context") ||
		!strings.Contains(reported.Err.Error(), "chain.(*Engine).Run") {
		t.Errorf("the reported error lacks the cause: %v", reported)
	}
}

type funcObserver struct {
	request func(context.Context) (context.Context, func(*chain.RequestEnd)) // nil: that method is not replaced
	step    func(context.Context) (context.Context, func(chain.StepEnd))
}

func (o funcObserver) Request(ctx context.Context, _ *chain.RequestInfo) (context.Context, func(*chain.RequestEnd)) {
	if o.request != nil {
		return o.request(ctx)
	}
	return ctx, nil
}

func (o funcObserver) Step(ctx context.Context, _ chain.StepInfo) (context.Context, func(chain.StepEnd)) {
	return o.step(ctx)
}

// identifier is an observer that gives ids.
type identifier struct {
	funcObserver
	give func(ctx context.Context) (context.Context, string)
}

func (i identifier) Identify(ctx context.Context, _ string) (context.Context, string) {
	return i.give(ctx)
}

// TestIdentify: a front end gets the id and the context of the observer, or its own context if the observer gives none.
func TestIdentify(t *testing.T) {
	t.Parallel()
	type key struct{}
	plain := context.Background()
	identify := func(give func(ctx context.Context) (context.Context, string)) (context.Context, string) {
		return engine(t, &world{}, chain.Options{Observer: identifier{give: give}}).Identify(plain, "")
	}
	local, id := identify(func(ctx context.Context) (context.Context, string) { return context.WithValue(ctx, key{}, 7), "x7" })
	if id != "x7" || local.Value(key{}) != 7 {
		t.Errorf("id %q, context %v; want x7 and one that holds 7", id, local)
	}
	for name, give := range map[string]func(ctx context.Context) (context.Context, string){
		"no id":      func(ctx context.Context) (context.Context, string) { return context.WithValue(ctx, key{}, 7), "" },
		"no context": func(context.Context) (context.Context, string) { return nil, "x7" },
		"a panic":    func(context.Context) (context.Context, string) { panic("observer") },
	} {
		if local, id := identify(give); local != plain || id != "" {
			t.Errorf("%s: id %q, context %v; want none and the given one", name, id, local)
		}
	}
	for name, o := range map[string]chain.Options{"no observer": {}, "one without ids": {Observer: &watcher{}}} {
		if local, id := engine(t, &world{}, o).Identify(plain, ""); local != plain || id != "" {
			t.Errorf("%s: id %q, context %v; want none and the given one", name, id, local)
		}
	}
}
