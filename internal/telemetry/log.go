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

// Keys in every record that belongs to a request.
const (
	keyChain = "chain_id" // the id of the request, as in its span
	keyStep  = "step"     // the JSON Pointer of the step
	keyTrace = "trace_id" // present if the request or its caller is traced
	keySpan  = "span_id"
)

// LogHandler returns a handler that adds to each record the request's id, the step, and the ids of the trace, taken from its context.
// They are at the top level, outside of all groups.
func LogHandler(next slog.Handler) slog.Handler {
	if _, is := next.(*logHandler); is {
		return next
	}
	return &logHandler{next: next, bare: next}
}

// logHandler also remembers how next was derived from bare: if there is a group, Handle adds its attributes to bare and derives again,
// because attributes added to next would be in the group.
type logHandler struct {
	next    slog.Handler
	bare    slog.Handler // next without the attributes and groups that the functions in derived add
	derived []func(slog.Handler) slog.Handler
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

func (h *logHandler) with(grouped bool, derive func(slog.Handler) slog.Handler) slog.Handler {
	return &logHandler{next: derive(h.next), bare: h.bare, derived: append(slices.Clip(h.derived), derive), grouped: grouped}
}

// Handle implements slog.Handler.
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	var buffer [4]slog.Attr
	attrs := locationAttrs(ctx, buffer[:0])
	switch {
	case len(attrs) == 0:
	case h.grouped:
		next := h.bare.WithAttrs(slices.Clone(attrs))
		for _, derive := range h.derived {
			next = derive(next)
		}
		return next.Handle(ctx, r)
	default:
		r = r.Clone()
		r.AddAttrs(attrs...)
	}
	return h.next.Handle(ctx, r)
}

// locationAttrs appends the attributes of the request, step and span of the context.
func locationAttrs(ctx context.Context, attrs []slog.Attr) []slog.Attr {
	if p := locationOf(ctx); p != nil {
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

// levelOf returns the level of a request's record. Most failures are for callers to fix and must not alert operators.
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

// line collects the attributes of a record.
type line []slog.Attr

// add appends an attribute unless its value is zero.
func (l *line) add(a slog.Attr) {
	switch v := a.Value; v.Kind() {
	case slog.KindString:
		if v.String() == "" {
			return
		}
	case slog.KindInt64:
		if v.Int64() == 0 {
			return
		}
	case slog.KindBool:
		if !v.Bool() {
			return
		}
	}
	*l = append(*l, a)
}

func elapsed(d time.Duration) slog.Attr { return slog.Float64("ms", float64(d.Microseconds())/1000) }

// addRequest adds the kind, tool and names of a request, and its caller.
func (l *line) addRequest(r *request) {
	o := r.observed
	l.add(slog.String("kind", string(o.Kind)))
	if r.tool != string(o.Kind) { // the tool of a chain has the same name
		l.add(slog.String("tool", r.tool))
	}
	l.add(slog.String("caller", clip(o.Caller)))
	l.add(slog.String("label", clip(o.Label)))
	l.add(slog.String("name", clip(o.Name)))
}

// lineCapacity is the number of attributes of the longest records, approximately.
const lineCapacity = 20

func (t *Telemetry) logRequest(r *request, e *chain.RequestEnd) {
	o, level := r.observed, levelOf(e.Err)
	if !t.log.Enabled(r, level) {
		return
	}
	l := make(line, 0, lineCapacity)
	l.addRequest(r)
	l.add(slog.String("fn", e.Function))
	l.add(slog.String("code", codeOf(e.Err)))
	if len(e.Faults) > 0 {
		l.add(slog.String("faults", codesOf(e.Faults)))
	}
	l.add(slog.Int("steps", o.Steps))
	l.add(slog.Int("skipped", e.Skipped))
	l.add(slog.Int64("calls", e.Calls))
	l.add(slog.Int64("cached", e.Cached))
	l.add(slog.Int("tokens", e.Tokens))
	l.add(slog.Int("kept", e.Stored))
	l.add(slog.Bool("probe", e.Probe))
	l.add(slog.Bool("lean", e.Lean))
	l.add(slog.Int("warnings", e.Warnings))
	l.add(slog.String("flows", clip(strings.Join(e.Flows, "; "))))
	l.add(slog.Int("request_bytes", o.Bytes))
	l.add(slog.Int("answer_bytes", e.Bytes))
	l = append(l, elapsed(e.Took))
	if s := r.slowest.Load(); s != nil && o.Kind == chain.KindChain { // a call has only one function, already in its record
		l = append(l, slog.String("slowest", s.fn), slog.Int64("ms_slowest", s.took.Milliseconds()))
	}
	if e.Err != nil {
		t.explain(r, &l, e.Err)
	}
	t.log.LogAttrs(r, level, "request", l...)
}

func (t *Telemetry) logStep(s *step, e chain.StepEnd) {
	l := make(line, 0, lineCapacity)
	l.add(slog.String("fn", s.fn))
	l.add(slog.String("effect", s.effect.String()))
	l.add(slog.String("status", e.Status))
	l.add(slog.String("reason", e.Reason))
	if e.Err != nil {
		l.add(slog.String("code", string(e.Err.Code)))
		l.add(slog.Int("http_status", e.Err.Status)) // as the service answered
		if e.Function != s.fn {
			l.add(slog.String("failed", e.Function))
		}
	}
	if e.Elements >= 0 {
		l = append(l, slog.Int("elements", e.Elements))
	}
	l.add(slog.Int64("calls", e.Calls))
	l = append(l, elapsed(e.Took))
	if e.Err != nil {
		t.explain(s, &l, e.Err)
	}
	t.log.LogAttrs(s, slog.LevelDebug, "step", l...)
}

// explain adds where an error occurred and its message, if level debug is enabled. For an internal error it always adds them and the cause,
// which are needed to fix it.
func (t *Telemetry) explain(ctx context.Context, l *line, f *fault.Error) {
	if f.Code != fault.Internal && !t.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	l.add(slog.String("at", f.At))
	l.add(slog.String("error", t.redact(f.Message, maxText)))
	if f.Code == fault.Internal && f.Err != nil {
		l.add(slog.String("cause", t.redact(f.Err.Error(), maxCause)))
	}
}

// redact removes secrets from a text and clips it afterwards, since a clipped secret could not be recognized.
func (t *Telemetry) redact(text string, limit int) string { return fault.Clip(t.scrub(text), limit) }

// codesOf returns the distinct codes of faults, in order, separated by commas.
func codesOf(faults []*fault.Error) string {
	var codes []string
	for _, f := range faults {
		if code := string(f.Code); !slices.Contains(codes, code) {
			codes = append(codes, code)
		}
	}
	return strings.Join(codes, ",")
}

// Maximum bytes of a text from outside, and of the cause of an internal error, which has a stack.
const (
	maxText  = 500
	maxCause = 8 << 10
)

func clip(text string) string { return fault.Clip(text, maxText) }
