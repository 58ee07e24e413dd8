package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps"
)

// maxSpans is how many steps of a request get a span at most: an inline chain in a forEach may have a million steps.
const maxSpans = 1000

// WithCall returns a context for the call of an existing MCP tool, possibly as part of the client's trace. tool is "" for the work of a
// worker. The other values are those of W3C Trace Context, from the HTTP headers `traceparent` and `tracestate` or the members of those
// names in MCP's `_meta`. Invalid ones are ignored. OTEL_TRACES_SAMPLER decides whether the request is traced; by default the caller does.
func WithCall(ctx context.Context, tool, traceparent, tracestate string) context.Context {
	if traceparent != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent, "tracestate": tracestate})
	}
	current := &location{tool: tool}
	if parent := locationOf(ctx); parent != nil {
		current.chain = parent.chain
	}
	return context.WithValue(ctx, locationKey{}, current)
}

// Attributes of spans. Those of OpenTelemetry are from its conventions for generative AI and MCP, which are in development.
const (
	keyErrorType = attribute.Key("error.type")
	keyOperation = attribute.Key("gen_ai.operation.name")
	keyTool      = attribute.Key("gen_ai.tool.name")
	keyMethod    = attribute.Key("mcp.method.name")

	keyChainID  = attribute.Key("onecall.chain.id")
	keyKind     = attribute.Key("onecall.request.kind")
	keySteps    = attribute.Key("onecall.steps")
	keySkipped  = attribute.Key("onecall.steps.skipped")
	keyUntraced = attribute.Key("onecall.steps.untraced")
	keyCalls    = attribute.Key("onecall.calls")
	keyCached   = attribute.Key("onecall.calls.cached")
	keyTokens   = attribute.Key("onecall.answer.tokens")
	keyStored   = attribute.Key("onecall.kept.tokens")
	keyProbe    = attribute.Key("onecall.answer.probe")
	keyAt       = attribute.Key("onecall.step.at")
	keyEffect   = attribute.Key("onecall.step.effect")
	keyStatus   = attribute.Key("onecall.step.status")
	keyReason   = attribute.Key("onecall.step.reason")
	keyElements = attribute.Key("onecall.step.elements")
	keyFailed   = attribute.Key("onecall.step.failed") // the failed function of an inline chain

	executeTool = "execute_tool"
)

// propagated returns a context that passes its span on to the servers that its calls reach, including whether the span is sampled.
func propagated(ctx context.Context) context.Context {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return steps.WithTrace(ctx, carrier["traceparent"], carrier["tracestate"])
}

// beginRequest starts the span of a request.
func (t *Telemetry) beginRequest(r *request) {
	o := r.observed
	name, kind := string(o.Kind), trace.SpanKindInternal
	attrs := append(make([]attribute.KeyValue, 0, 6), keyChainID.String(r.chain), keyKind.String(string(o.Kind)))
	if o.Steps > 0 {
		attrs = append(attrs, keySteps.Int(o.Steps))
	}
	if r.tool != "" {
		name, kind = "tools/call "+r.tool, trace.SpanKindServer
		attrs = append(attrs, keyMethod.String("tools/call"), keyOperation.String(executeTool), keyTool.String(r.tool))
	}
	ctx, span := t.tracer.Start(r.Context, name, trace.WithSpanKind(kind), trace.WithTimestamp(o.Started), trace.WithAttributes(attrs...))
	r.Context, r.span = propagated(ctx), span
}

func endRequest(r *request, e *chain.RequestEnd) {
	span := r.span
	if span.IsRecording() {
		attrs := append(make([]attribute.KeyValue, 0, 10), keyCalls.Int64(e.Calls), keyTokens.Int(e.Tokens))
		for _, count := range []struct {
			key attribute.Key
			n   int64
		}{{keyCached, e.Cached}, {keySkipped, int64(e.Skipped)}, {keyStored, int64(e.Stored)}, {keyUntraced, r.untraced.Load()}} {
			if count.n > 0 {
				attrs = append(attrs, count.key.Int64(count.n))
			}
		}
		if e.Probe {
			attrs = append(attrs, keyProbe.Bool(true))
		}
		if e.Err != nil {
			attrs = append(attrs, keyErrorType.String(string(e.Err.Code)))
			span.SetStatus(codes.Error, "")
		}
		span.SetAttributes(attrs...)
		r.t.metrics.spans.Inc()
	}
	span.End(trace.WithTimestamp(r.observed.Started.Add(e.Took)))
}

// beginStep starts the span of a step unless its request has too many.
func (t *Telemetry) beginStep(s *step) {
	r := s.request
	if r.spans.Add(1) > maxSpans {
		r.untraced.Add(1)
		return
	}
	attrs := append(make([]attribute.KeyValue, 0, 8), keyAt.String(s.at))
	name := "chain"
	if fn := s.fn; fn != "" {
		name = executeTool + " " + fn
		attrs = append(attrs, keyOperation.String(executeTool), keyTool.String(fn), keyEffect.String(s.effect.String()))
	}
	ctx, span := t.tracer.Start(s.Context, name, trace.WithAttributes(attrs...))
	if span.IsRecording() {
		t.metrics.spans.Inc()
	}
	s.Context, s.span = propagated(ctx), span
}

func endStep(s *step, e chain.StepEnd) {
	span := s.span
	if span.IsRecording() {
		attrs := append(make([]attribute.KeyValue, 0, 6), keyStatus.String(e.Status), keyCalls.Int64(e.Calls))
		if e.Reason != "" {
			attrs = append(attrs, keyReason.String(e.Reason))
		}
		if e.Elements >= 0 {
			attrs = append(attrs, keyElements.Int(e.Elements))
		}
		if e.Err != nil {
			attrs = append(attrs, keyErrorType.String(string(e.Err.Code)))
			if e.Function != s.fn {
				attrs = append(attrs, keyFailed.String(e.Function))
			}
			span.SetStatus(codes.Error, "")
		}
		span.SetAttributes(attrs...)
	}
	span.End()
}

// reporter counts the spans that were sent or lost, and logs failures to send them, at most once a minute.
type reporter struct {
	log     *slog.Logger
	scrub   func(string) string
	secrets *secret.Scrubber // the exporter's credentials
	metrics *metrics

	mu     sync.Mutex
	last   time.Time
	failed int // spans that could not be sent since last
}

// reportInterval is the minimum time between two records of failures to send.
const reportInterval = time.Minute

// exported counts the spans of an export, and logs its error (nil: none) unless one was logged less than reportInterval ago.
func (r *reporter) exported(spans int, err error) {
	if err == nil {
		add(r.metrics.spansSent, spans)
		return
	}
	add(r.metrics.spansFailed, spans)
	r.mu.Lock()
	r.failed += spans
	failed, now := r.failed, time.Now()
	due := r.last.IsZero() || now.Sub(r.last) >= reportInterval
	if due {
		r.last, r.failed = now, 0
	}
	r.mu.Unlock()
	if due {
		text := r.scrub(r.secrets.Text(err.Error()))
		r.log.Warn("traces cannot be sent: they are lost until the collector accepts them", "spans", failed, "error", clip(text))
	}
}
