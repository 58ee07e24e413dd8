// Package peers compares onecall with its users' alternatives: calls one by one, a gateway with scripts, and code modes, all in front of
// the same upstream.
package peers

import (
	"context"
	_ "embed"
	"errors"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	workers "github.com/onecall-mcp/onecall/bench/cmd/compare/work"
	"github.com/onecall-mcp/onecall/bench/load"
)

//go:embed peers.md
var text string

// Section is the section of calls over HTTP.
var Section = harness.Section{Name: "peers", Text: text, Parts: []harness.Part{{Name: "calls over HTTP", Measure: callsOverHTTP}}}

// eras are the kinds of upstream that are measured: of the first version of MCP without sessions, and of the last one with them.
var eras = []*era{
	{protocol: load.WithoutSessions, kind: "stateless (" + load.WithoutSessions + ")"},
	{protocol: load.WithSessions, kind: "with sessions (" + load.WithSessions + ")", suffix: "/sessions"},
}

// era is what was measured with one kind of upstream.
type era struct {
	protocol, kind string
	suffix         string // of the names of its figures
	arms           []*running
}

// arm returns the arm with a key.
func (e *era) arm(key string) *running {
	for _, a := range e.arms {
		if a.key == key {
			return a
		}
	}
	return nil
}

// bench is the section while it is measured.
type bench struct {
	*harness.Bench
	node    *harness.Node
	nodeErr error // why node is not installed
}

func callsOverHTTP(ctx context.Context, hb *harness.Bench) {
	b := &bench{Bench: hb}
	b.nodeErr = harness.Try(func() {
		b.node = b.Node(ctx, "bench/cmd/compare/peers/node")
		b.node.Note("@cloudflare/codemode", "@ai-sdk/code-mode", "@utcp/code-mode", "miniflare", "isolated-vm")
	})
	w := workers.Build(ctx, hb)
	b.Versions[report.SDK] = report.SDKVersion()
	p := plan{rounds: 45, block: 80 * time.Millisecond}
	if b.Short {
		p = plan{rounds: 10, block: 30 * time.Millisecond}
	}
	for _, e := range eras {
		b.Log("measuring with an upstream of %s", e.protocol)
		harness.In(e.protocol, func() { b.measure(ctx, e, w, p) })
		e.report(b)
	}
	b.words(eras)
}

// measure measures all arms in front of one upstream.
func (b *bench) measure(ctx context.Context, e *era, w *workers.Worker, p plan) {
	upstream := w.Serve(ctx, "upstream")
	defer upstream.Close()
	e.arms = nil
	for i := range arms {
		a := &running{arm: &arms[i], results: map[string]*result{}}
		defer a.close()
		e.arms = append(e.arms, a)
		if err := harness.Try(func() { a.begin(ctx, b, upstream.URL(e.protocol), e.protocol) }); err != nil {
			if a.fault = harness.OneLine(err); !errors.Is(err, harness.ErrNotHere) {
				a.fault = "does not start: " + a.fault
			}
			b.Log("%s %s", a.name, a.fault)
			a.close()
			harness.FailIf(a.required, "%s %s", a.name, a.fault)
		}
	}
	e.rounds(ctx, p)
	for _, a := range e.arms {
		for i := range works {
			r, why := a.result(&works[i])
			switch {
			case !a.required || !a.can(&works[i]):
			case r == nil:
				harness.Fail("%s at %q: %s", a.name, works[i].title, why)
			case r.errors > 0:
				harness.Fail("%s at %s failed %d times: %s", a.name, works[i].title, r.errors, r.fault)
			}
		}
		if a.process != nil && a.fault == "" {
			used, err := a.process.Usage()
			if a.used = used; err != nil {
				a.fault = "at the end: " + err.Error()
			}
		}
		a.close()
	}
}

// close ends the sessions and then the arm's processes. An error of the processes becomes the arm's fault.
func (a *running) close() {
	for _, s := range a.sessions {
		s.End()
	}
	a.sessions = nil
	if a.process == nil {
		return
	}
	if err := a.process.Close(); err != nil && !errors.Is(err, context.Canceled) && a.fault == "" {
		a.fault = "measured, but at its end: " + err.Error()
	}
}
