package telemetry

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
)

// What stands in every record that belongs to a request.
const (
	keyChain = "chain_id" // as in the request's span
	keyStep  = "step"     // the JSON Pointer of the step
	keyTrace = "trace_id" // where the request is traced, or its caller traces it
	keySpan  = "span_id"
)

// LogHandler gives a handler that adds to each record, from its context, the id of the request that it belongs to, the step,
// and the ids of its trace. They stand at the top, outside of all groups.
func LogHandler(next slog.Handler) slog.Handler {
	if _, is := next.(*logHandler); is {
		return next
	}
	return &logHandler{next: next, bare: next}
}

// logHandler keeps beside the handler that records go to how it was made, since what is added after a group was opened would
// stand in it.
type logHandler struct {
	next    slog.Handler
	bare    slog.Handler // before all that follows
	made    []func(slog.Handler) slog.Handler
	grouped bool
}

// Enabled implements slog.Handler.
func (h *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(h.grouped, func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.with(true, func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

func (h *logHandler) with(grouped bool, make func(slog.Handler) slog.Handler) slog.Handler {
	return &logHandler{next: make(h.next), bare: h.bare, made: append(slices.Clip(h.made), make), grouped: grouped}
}

// Handle implements slog.Handler.
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	var room [4]slog.Attr
	attrs := placed(ctx, room[:0])
	switch {
	case len(attrs) == 0:
	case h.grouped:
		to := h.bare.WithAttrs(slices.Clone(attrs))
		for _, make := range h.made {
			to = make(to)
		}
		return to.Handle(ctx, r)
	default:
		r = r.Clone()
		r.AddAttrs(attrs...)
	}
	return h.next.Handle(ctx, r)
}

// placed appends what the context knows of the place of a record.
func placed(ctx context.Context, attrs []slog.Attr) []slog.Attr {
	if p := placeOf(ctx); p != nil {
		if p.chain != "" {
			attrs = append(attrs, slog.String(keyChain, p.chain))
		}
		if p.at != "" {
			attrs = append(attrs, slog.String(keyStep, p.at))
		}
	}
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		attrs = append(attrs, slog.String(keyTrace, span.TraceID().String()), slog.String(keySpan, span.SpanID().String()))
	}
	return attrs
}

// levelOf is the level of a request's line. Most failures are for their callers to mend, and must wake nobody.
func levelOf(f *fault.Error) slog.Level {
	if f == nil {
		return slog.LevelInfo
	}
	switch f.Code {
	case fault.Internal:
		return slog.LevelError
	case fault.Unavailable, fault.Timeout:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// line is a record that is being put together: what is nothing is left out.
type line struct {
	attrs []slog.Attr
}

func (l *line) text(key, value string) {
	if value != "" {
		l.attrs = append(l.attrs, slog.String(key, value))
	}
}

func (l *line) number(key string, value int64) {
	if value != 0 {
		l.attrs = append(l.attrs, slog.Int64(key, value))
	}
}

func (l *line) mark(key string, value bool) {
	if value {
		l.attrs = append(l.attrs, slog.Bool(key, true))
	}
}

func (l *line) took(d time.Duration) {
	l.attrs = append(l.attrs, slog.Float64("ms", float64(d.Microseconds())/1000))
}

// who says whose request it is, and what for.
func (l *line) who(r *request) {
	o := r.about
	l.text("kind", string(o.Kind))
	if tool := toolOf(r); tool != string(o.Kind) { // a chain comes by the tool of that name
		l.text("tool", tool)
	}
	l.text("caller", clip(o.Caller))
	l.text("label", clip(o.Label))
	l.text("name", clip(o.Name))
}

// lineRoom is how many members a line has at most, or nearly so.
const lineRoom = 20

func (t *Telemetry) logRequest(r *request, e *chain.Ended) {
	ctx, o := context.Context(r), r.about
	level := levelOf(e.Err)
	if !t.log.Enabled(ctx, level) {
		return
	}
	l := line{make([]slog.Attr, 0, lineRoom)}
	l.who(r)
	l.text("fn", e.Function)
	l.attrs = append(l.attrs, slog.String("code", codeOf(e.Err)))
	l.text("faults", codesOf(e.Faults))
	l.number("steps", int64(o.Steps))
	l.number("skipped", int64(e.Skipped))
	l.number("calls", e.Calls)
	l.number("cached", e.Cached)
	l.number("tokens", int64(e.Tokens))
	l.number("kept", int64(e.Kept))
	l.mark("probe", e.Probe)
	l.mark("lean", e.Lean)
	l.number("warnings", int64(e.Warnings))
	l.number("request_bytes", int64(o.Bytes))
	l.number("answer_bytes", int64(e.Bytes))
	l.took(e.Took)
	if s := r.slowest.Load(); s != nil && o.Kind == chain.KindChain { // a call has one function, and its line both
		l.text("slowest", s.fn)
		l.attrs = append(l.attrs, slog.Int64("ms_slowest", s.took.Milliseconds()))
	}
	t.explain(ctx, &l, e.Err)
	t.log.LogAttrs(ctx, level, "request", l.attrs...)
}

func (t *Telemetry) logStep(s *step, e chain.StepEnded) {
	if !t.log.Enabled(s, slog.LevelDebug) {
		return
	}
	l := line{make([]slog.Attr, 0, lineRoom)}
	l.text("fn", s.fn)
	l.text("effect", s.effect.String())
	l.text("status", e.Status)
	l.text("reason", e.Reason)
	if e.Err != nil {
		l.text("code", string(e.Err.Code))
		l.number("http_status", int64(e.Err.Status)) // that the service answered
		if e.Function != s.fn {
			l.text("failed", e.Function)
		}
	}
	if e.Elements >= 0 {
		l.attrs = append(l.attrs, slog.Int("elements", e.Elements))
	}
	l.number("calls", e.Calls)
	l.took(e.Took)
	t.explain(s, &l, e.Err)
	t.log.LogAttrs(s, slog.LevelDebug, "step", l.attrs...)
}

// explain adds an error's message where all is told. That of a defect is told always, and its cause with it: nobody can mend
// it who does not know where it is.
func (t *Telemetry) explain(ctx context.Context, l *line, f *fault.Error) {
	if f == nil || f.Code != fault.Internal && !t.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	l.text("at", f.At)
	l.text("error", t.told(f.Message, maxText))
	if f.Code == fault.Internal && f.Err != nil {
		l.text("cause", t.told(f.Err.Error(), maxCause))
	}
}

// told is a text of others without secrets, cut afterwards: a part of a secret could not be told from another word.
func (t *Telemetry) told(text string, most int) string { return fault.Clip(t.scrub(text), most) }

// codesOf are the different codes of faults, in their order.
func codesOf(faults []*fault.Error) string {
	var codes []string
	for _, f := range faults {
		if code := string(f.Code); !slices.Contains(codes, code) {
			codes = append(codes, code)
		}
	}
	return strings.Join(codes, ",")
}

// The most bytes of a text of others in a line, and of the cause of a defect, which has a stack.
const (
	maxText  = 500
	maxCause = 8 << 10
)

func clip(text string) string { return fault.Clip(text, maxText) }
