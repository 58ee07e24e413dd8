package chain_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// watcher is an observer that records all reports, and complains about reports in the wrong order.
type watcher struct {
	mu         sync.Mutex
	requests   []*observedRequest
	violations []string
}

type observedRequest struct {
	chain.RequestInfo
	end   *chain.RequestEnd
	steps []*watchedStep
}

type watchedStep struct {
	chain.StepInfo
	within string // At of the step around it
	end    *chain.StepEnd
}

type watchedKey struct{}

// watchedPosition is the value in the contexts of a watcher.
type watchedPosition struct {
	request *observedRequest
	step    *watchedStep
}

func (w *watcher) complain(format string, args ...any) {
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

func (w *watcher) Request(ctx context.Context, r *chain.RequestInfo) (context.Context, func(*chain.RequestEnd)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	copied := &observedRequest{RequestInfo: *r}
	w.requests = append(w.requests, copied)
	return context.WithValue(ctx, watchedKey{}, watchedPosition{request: copied}), func(e *chain.RequestEnd) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if copied.end != nil {
			w.complain("a request ended twice")
		}
		copied.end = e
		for _, s := range copied.steps {
			if s.end == nil {
				w.complain("%s did not end before its request", s.At)
			}
		}
	}
}

func (w *watcher) Step(ctx context.Context, s chain.StepInfo) (context.Context, func(chain.StepEnd)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	watched, ok := ctx.Value(watchedKey{}).(watchedPosition)
	if !ok {
		w.complain("%s runs without the context of the observer", s.At)
		return nil, nil
	}
	watching := &watchedStep{StepInfo: s}
	if watched.step != nil {
		watching.within = watched.step.At
	}
	if watched.request.end != nil {
		w.complain("%s began after its request had ended", s.At)
	}
	watched.request.steps = append(watched.request.steps, watching)
	watched.step = watching
	return context.WithValue(ctx, watchedKey{}, watched), func(e chain.StepEnd) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if watching.end != nil {
			w.complain("%s ended twice", s.At)
		}
		watching.end = &e
	}
}

// only returns the only request.
func (w *watcher) only(t testing.TB) *observedRequest {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.requests) != 1 || w.requests[0].end == nil || len(w.violations) > 0 {
		t.Fatalf("%d reported requests, faults %q; want one that ended, and none", len(w.requests), w.violations)
	}
	return w.requests[0]
}

// TestObservedTree checks the reports of a chain with all kinds of steps.
func TestObservedTree(t *testing.T) {
	t.Parallel()
	w, o := &world{}, &watcher{}
	e := engine(t, w, chain.Options{Observer: o})
	answer := e.Run(context.Background(), []byte(`{"name":"nightly","onError":"continue","trace":"none","steps":[
		{"fn":"test.items","args":{"n":3}},
		{"forEach":"$0.items","args":{"item":"$item"},"chain":{"steps":[{"fn":"test.echo","args":{"id":"$input.item.id"}}]}},
		{"fn":"test.echo","when":"false"},
		{"fn":"test.failIf","args":{"fail":true}},
		{"fn":"test.get","args":{"value":"$3"}},
		{"chain":{"steps":[{"fn":"test.fail"}]}},
		{"fn":"test.write","args":{"value":1}}],"return":"$0.total"}`), &chain.Caller{ID: "token:ci", Label: "a.jsonl:1"})
	r := o.only(t)
	if r.Kind != chain.KindChain || r.Caller != "token:ci" || r.Label != "a.jsonl:1" || r.Name != "nightly" || r.Steps != 7 || r.Bytes == 0 ||
		r.Started.IsZero() {
		t.Errorf("request %+v, want chain nightly of 7 steps, by token:ci with label a.jsonl:1", r.RequestInfo)
	}
	var got []string
	for _, s := range r.steps {
		text := fmt.Sprintf("%s in %q: %s %s each=%t → %s%s calls=%d of=%d", s.At, s.within, cmp.Or(s.StepInfo.Function, "chain"), s.Effect,
			s.ForEach, s.end.Status, s.end.Reason, s.end.Calls, s.end.Elements)
		if s.end.Err != nil {
			text += fmt.Sprintf(" %s by %s", s.end.Err.Code, s.end.Function)
		}
		got = append(got, text)
	}
	slices.Sort(got)
	want := []string{
		`/steps/0 in "": test.items read each=false → ok calls=1 of=-1`,
		`/steps/1 in "": chain read each=true → ok calls=3 of=3`,
		`/steps/1/chain/steps/0 in "/steps/1": test.echo read each=false → ok calls=1 of=-1`,
		`/steps/1/chain/steps/0 in "/steps/1": test.echo read each=false → ok calls=1 of=-1`,
		`/steps/1/chain/steps/0 in "/steps/1": test.echo read each=false → ok calls=1 of=-1`,
		`/steps/2 in "": test.echo read each=false → skippedwhen calls=0 of=-1`,
		`/steps/3 in "": test.failIf read each=false → failed calls=1 of=-1 function_failed by test.failIf`,
		`/steps/5 in "": chain read each=false → failed calls=1 of=-1 function_failed by test.fail`,
		`/steps/5/chain/steps/0 in "/steps/5": test.fail read each=false → failed calls=1 of=-1 function_failed by test.fail`,
		`/steps/6 in "": test.write write each=false → ok calls=1 of=-1`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	end := r.end
	if end.Err != answer.Error || end.Err.Code != fault.FunctionFailed || end.Function != "test.failIf" || end.Skipped != 2 ||
		end.Calls != 7 || end.Bytes != len(answer.JSON) || end.Took <= 0 {
		t.Errorf("end %+v, want function_failed of test.failIf, 7 calls, 2 skipped and %d bytes", end, len(answer.JSON))
	}
	if usage := gjson.GetBytes(answer.JSON, "usage"); end.Tokens != int(usage.Get("tokens").Int()) ||
		end.Stored != int(usage.Get("kept").Int()) {
		t.Errorf("%d tokens, %d stored; want those that the answer reports: %s", end.Tokens, end.Stored, usage.Raw)
	}
}

// TestObservedContext: a function runs in the context that the observer returned for its step.
func TestObservedContext(t *testing.T) {
	t.Parallel()
	o := &watcher{}
	var mu sync.Mutex
	var seen []string
	record := steps.Function{Spec: steps.Spec{Name: "test.note", Effect: steps.Read}, Call: func(ctx context.Context, _ []byte) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		watched, _ := ctx.Value(watchedKey{}).(watchedPosition)
		if watched.step != nil {
			seen = append(seen, watched.step.At)
		}
		return []byte("1"), nil
	}}
	e := engineOf(t, []steps.Function{record}, chain.Options{Observer: o}, false)
	e.Run(context.Background(), []byte(`{"steps":[{"fn":"test.note"},{"fn":"test.note","forEach":"1..2"},{"chain":{"steps":[{"fn":"test.note"}]}}]}`), nil)
	slices.Sort(seen)
	if want := []string{"/steps/0", "/steps/1", "/steps/1", "/steps/2/chain/steps/0"}; !slices.Equal(seen, want) {
		t.Errorf("%q, want %q", seen, want)
	}
	o.only(t)
}

// TestObservedKinds checks the report of each kind of request.
func TestObservedKinds(t *testing.T) {
	t.Parallel()
	ctx, lite := context.Background(), true
	for name, test := range map[string]struct {
		do   func(*chain.Engine) *chain.Answer
		kind chain.Kind
		code fault.Code
		fn   string
	}{
		"a chain":  {func(e *chain.Engine) *chain.Answer { return e.Run(ctx, []byte(`{"steps":[{"fn":"test.echo"}]}`), nil) }, chain.KindChain, "", ""},
		"not JSON": {func(e *chain.Engine) *chain.Answer { return e.Run(ctx, []byte(`{`), nil) }, chain.KindChain, fault.Compile, ""},
		"faults":   {func(e *chain.Engine) *chain.Answer { return e.Run(ctx, []byte(`{"steps":[{"fn":"test.nope"}]}`), nil) }, chain.KindChain, fault.Compile, ""},
		"a dry run": {func(e *chain.Engine) *chain.Answer {
			return e.Run(ctx, []byte(`{"dryRun":true,"steps":[{"fn":"test.echo"}]}`), nil)
		}, chain.KindPlan, "", ""},
		"a check": {func(e *chain.Engine) *chain.Answer {
			return e.Run(ctx, []byte(`{"steps":[{"fn":"test.echo"}]}`), &chain.Caller{Override: chain.Override{Check: true}})
		}, chain.KindPlan, "", ""},
		"a fetch": {func(e *chain.Engine) *chain.Answer { return e.Run(ctx, []byte(`{"continuation_token":"oc1_x"}`), nil) }, chain.KindFetch, fault.TokenExpired, ""},
		"a call": {func(e *chain.Engine) *chain.Answer {
			return e.Call(ctx, &chain.Call{Function: "echo", Lite: &lite}, nil)
		}, chain.KindCall, "", "test.echo"},
		"a failed call": {func(e *chain.Engine) *chain.Answer { return e.Call(ctx, &chain.Call{Function: "test.fail"}, nil) }, chain.KindCall, fault.FunctionFailed, "test.fail"},
		"no function":   {func(e *chain.Engine) *chain.Answer { return e.Call(ctx, &chain.Call{Function: "test.nope"}, nil) }, chain.KindCall, fault.UnknownFunction, ""},
		"a fetch by call": {func(e *chain.Engine) *chain.Answer {
			return e.Call(ctx, &chain.Call{Function: "test.echo", Args: []byte(`{"continuation_token":"oc1_x"}`)}, nil)
		}, chain.KindFetch, fault.TokenExpired, ""},
		"a delivery": {func(e *chain.Engine) *chain.Answer { return e.Deliver(ctx, []byte(`{"a":1}`), nil, nil) }, chain.KindDeliver, "", ""},
		"a refusal": {func(e *chain.Engine) *chain.Answer {
			return e.Refuse(ctx, []*fault.Error{fault.New(fault.Busy, "later")}, nil)
		}, chain.KindRefuse, fault.Busy, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &watcher{}
			answer := test.do(engine(t, &world{}, chain.Options{Observer: o}))
			r := o.only(t)
			if r.Kind != test.kind || fault.CodeOf(asError(r.end.Err)) != test.code || r.end.Function != test.fn || r.end.Err != answer.Error ||
				r.end.Tokens == 0 {
				t.Errorf("request %+v, end %+v; want %s, %q of %q: %s", r.RequestInfo, r.end, test.kind, test.code, test.fn, answer.JSON)
			}
		})
	}
}

func asError(f *fault.Error) error {
	if f == nil {
		return nil
	}
	return f
}

// TestObservedPass checks the report of a call that a front end makes without the engine.
func TestObservedPass(t *testing.T) {
	t.Parallel()
	o := &watcher{}
	ctx, end := engine(t, &world{}, chain.Options{Observer: o}).Observe(context.Background(),
		&chain.RequestInfo{Kind: chain.KindPass, Caller: "http"})
	if _, ok := ctx.Value(watchedKey{}).(watchedPosition); !ok {
		t.Error("the context lacks the observer's value")
	}
	end(&chain.RequestEnd{Err: fault.New(fault.Timeout, "slow"), Function: "test.echo", Calls: 1})
	end(&chain.RequestEnd{}) // a second end has no effect
	if r := o.only(t); r.Kind != chain.KindPass || r.Started.IsZero() || r.end.Took <= 0 || r.end.Err.Code != fault.Timeout ||
		r.end.Function != "test.echo" {
		t.Errorf("request %+v, end %+v; want pass, timeout, test.echo", r.RequestInfo, r.end)
	}
	plain := context.Background()
	got, end := engine(t, &world{}, chain.Options{}).Observe(plain, &chain.RequestInfo{Kind: chain.KindPass})
	if end(&chain.RequestEnd{}); got != plain {
		t.Error("Observe without an observer replaced the context")
	}
}

// TestObservedTokens: the reported tokens of results that are not in the answer are close to their real cost.
func TestObservedTokens(t *testing.T) {
	t.Parallel()
	counter := newCounter(t, 0)
	items := func(n int) []byte {
		e := engine(t, &world{}, chain.Options{})
		return e.Run(context.Background(), fmt.Appendf(nil, `{"lite":true,"steps":[{"fn":"test.items","args":{"n":%d}}]}`, n), nil).JSON
	}
	whole := counter.Count(items(300), -1)
	for name, test := range map[string]struct {
		request     string
		probe, lean bool
		stored      int
	}{
		"nothing":              {`{"steps":[{"fn":"test.items","args":{"n":3}}]}`, false, false, 0},
		"nothing, lite":        {`{"lite":true,"steps":[{"fn":"test.items","args":{"n":3}}]}`, false, false, 0},
		"intermediate":         {`{"steps":[{"fn":"test.items","args":{"n":300}}],"return":"$0.total"}`, false, false, whole},
		"intermediate, lite":   {`{"lite":true,"steps":[{"fn":"test.items","args":{"n":300}}],"return":"$0.total"}`, false, false, whole},
		"a probe":              {`{"budget":{"maxTotalTokens":400},"steps":[{"fn":"test.items","args":{"n":300}}]}`, true, false, whole},
		"a probe, lite":        {`{"lite":true,"budget":{"maxTotalTokens":400},"steps":[{"fn":"test.items","args":{"n":300}}]}`, true, false, whole},
		"a probe and one more": {`{"lite":true,"budget":{"maxTotalTokens":400},"steps":[{"fn":"test.items","args":{"n":300}},{"fn":"test.echo","args":{"a":"$0"}}]}`, true, false, 2 * whole},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &watcher{}
			answer := engine(t, &world{}, chain.Options{Observer: o}).Run(context.Background(), []byte(test.request), nil)
			end := o.only(t).end
			if end.Probe != test.probe || end.Lean != test.lean || math.Abs(float64(end.Stored-test.stored)) > .2*float64(test.stored) {
				t.Errorf("end %+v, want about %d tokens stored", end, test.stored)
			}
			if exact := counter.Count(answer.JSON, -1); end.Tokens != exact {
				t.Errorf("%d tokens, want %d: %s", end.Tokens, exact, answer.JSON)
			}
		})
	}
	o := &watcher{}
	engineOf(t, writingFunctions(), chain.Options{Observer: o}, true).Run(context.Background(),
		[]byte(`{"steps":[`+stepOf("do.write", wide(`"id":7`), "")+`]}`), nil)
	cost := counter.Count([]byte(wide(`"id":7`)), -1)
	if end := o.only(t).end; !end.Lean || end.Probe || math.Abs(float64(end.Stored-cost)) > .3*float64(cost) {
		t.Errorf("end %+v, want about %d tokens stored", end, cost)
	}
}
