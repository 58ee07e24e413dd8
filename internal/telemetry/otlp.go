//go:build !notrace

package telemetry

import (
	"cmp"
	"context"
	"errors"
	"os"
	"time"

	"github.com/go-logr/logr/funcr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// scope is the instrumentation scope of spans.
const scope = "github.com/onecall-mcp/onecall"

// startTraces starts traces if the environment asks for them; otherwise tracer and stop are nil. stop sends the remaining spans. It returns
// at the latest when its context ends.
func startTraces(version string, r *reporter) (tracer trace.Tracer, stop func(context.Context) error, err error) {
	env := environment(os.Getenv)
	if wanted, f := env.requested(); f != nil || !wanted {
		return nil, nil, asError(f)
	}
	if f := env.check(); f != nil {
		return nil, nil, f
	}
	r.secrets = env.secrets()
	logError := func(message string) {
		r.log.Warn("OpenTelemetry failed", "error", clip(r.scrub(r.secrets.Text(message))))
	}
	// errors only; the default logger writes to stderr
	otel.SetLogger(funcr.New(func(_, message string) { logError(message) }, funcr.Options{}))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logError(err.Error()) }))
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	exporter, err := otlptracehttp.New(ctx) // reads the environment, and connects later
	if err != nil {
		return nil, nil, variableFault("OTEL_EXPORTER_OTLP_*", r.secrets.Text(err.Error()))
	}
	res, err := newResource(ctx, version)
	if err != nil {
		return nil, nil, variableFault("OTEL_RESOURCE_ATTRIBUTES", "it must hold key=value pairs, separated by commas")
	}
	tracer, stop = newTracer(&reportingExporter{exporter, r}, res, version)
	return tracer, stop, nil
}

// newResource returns the resource that the spans belong to: this program on this host.
func newResource(ctx context.Context, version string) (*resource.Resource, error) {
	return resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "onecall"), attribute.String("service.version", cmp.Or(version, "dev"))),
		resource.WithTelemetrySDK(),
		resource.WithHost(),    // distinguishes replicas
		resource.WithFromEnv(), // last: takes precedence
	)
}

// newTracer returns a tracer whose spans are exported in batches in the background, and its stop as in startTraces. Spans are dropped if
// too many wait.
func newTracer(to sdktrace.SpanExporter, res *resource.Resource, version string) (trace.Tracer, func(context.Context) error) {
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(to), sdktrace.WithResource(res))
	stop := func(ctx context.Context) error {
		err := provider.Shutdown(ctx)
		if ctx.Err() != nil { // cancel the current export, so that nothing continues
			err = errors.Join(err, to.Shutdown(context.WithoutCancel(ctx)))
		}
		return err
	}
	return provider.Tracer(scope, trace.WithInstrumentationVersion(cmp.Or(version, "dev"))), stop
}

// reportingExporter is an exporter that leaves the logging of its failures to the reporter alone.
type reportingExporter struct {
	sdktrace.SpanExporter
	reporter *reporter
}

// ExportSpans implements sdktrace.SpanExporter.
func (e *reportingExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	e.reporter.exported(len(spans), e.SpanExporter.ExportSpans(ctx, spans))
	return nil
}
