package chain

import (
	"context"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// report is an observer that records the last request.
type report struct {
	began *RequestInfo
	ended *RequestEnd
}

func (o *report) Request(ctx context.Context, r *RequestInfo) (context.Context, func(*RequestEnd)) {
	o.began = r
	return ctx, func(e *RequestEnd) { o.ended = e }
}

func (*report) Step(ctx context.Context, _ StepInfo) (context.Context, func(StepEnd)) {
	return ctx, nil
}

// TestUndecodedIsObserved: a request that a defect stops before it is decoded is reported, with its end.
func TestUndecodedIsObserved(t *testing.T) {
	t.Parallel()
	functions, err := steps.NewRegistry(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := &report{}
	e, err := New(&Options{Functions: functions, Observer: o})
	if err != nil {
		t.Fatal(err)
	}
	run := func(ctx context.Context) (a *Answer) {
		s := e.newRequest(&Caller{ID: "token:ci", Label: "a.jsonl:1"})
		defer s.finish(ctx, KindChain, &a)
		panic("while decoding")
	}
	a := run(t.Context())
	if a == nil || a.Error.Code != fault.Internal || o.began == nil || o.began.Kind != KindChain || o.began.Caller != "token:ci" ||
		o.began.Label != "a.jsonl:1" || o.began.Started.IsZero() {
		t.Fatalf("answer %+v, reported request %+v; want internal, and a chain of token:ci with label a.jsonl:1", a, o.began)
	}
	if o.ended == nil || o.ended.Err != a.Error || o.ended.Took <= 0 || o.ended.Bytes != len(a.JSON) {
		t.Errorf("reported end %+v, want the answer's error and %d bytes", o.ended, len(a.JSON))
	}
}
