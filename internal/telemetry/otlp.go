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

// scope is the name under which spans are told.
const scope = "github.com/onecall-mcp/onecall"

// startTraces starts traces where the environment asks for them; else the tracer is nil. stop sends what waits, and returns
// when its context ends at the latest.
func startTraces(version string, r *reporter) (tracer trace.Tracer, stop func(context.Context) error, err error) {
	env := environment(os.Getenv)
	if wanted, f := env.wanted(); f != nil || !wanted {
		return nil, nil, asError(f)
	}
	if f := env.check(); f != nil {
		return nil, nil, f
	}
	r.secrets = env.secrets()
	tell := func(said string) { r.log.Warn("OpenTelemetry failed", "error", clip(r.scrub(r.secrets.Text(said)))) }
	otel.SetLogger(funcr.New(func(_, said string) { tell(said) }, funcr.Options{})) // errors alone; its own logger writes to stderr
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { tell(err.Error()) }))
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	exporter, err := otlptracehttp.New(ctx) // it reads the environment, and calls nobody yet
	if err != nil {
		return nil, nil, unusable("OTEL_EXPORTER_OTLP_*", r.secrets.Text(err.Error()))
	}
	about, err := describe(ctx, version)
	if err != nil {
		return nil, nil, unusable("OTEL_RESOURCE_ATTRIBUTES", "it must hold key=value pairs, separated by commas")
	}
	tracer, stop = provide(&reporting{exporter, r}, about, version)
	return tracer, stop, nil
}

// describe says who tells the spans.
func describe(ctx context.Context, version string) (*resource.Resource, error) {
	return resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "onecall"), attribute.String("service.version", cmp.Or(version, "dev"))),
		resource.WithTelemetrySDK(),
		resource.WithHost(),    // replicas are told apart by it
		resource.WithFromEnv(), // last: it wins
	)
}

// provide makes a tracer whose spans go to an exporter, in batches and beside what runs: where too many wait they are dropped.
func provide(to sdktrace.SpanExporter, about *resource.Resource, version string) (trace.Tracer, func(context.Context) error) {
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(to), sdktrace.WithResource(about))
	stop := func(ctx context.Context) error {
		err := provider.Shutdown(ctx)
		if ctx.Err() != nil { // what is being sent is given up, so that nothing goes on after this
			err = errors.Join(err, to.Shutdown(context.WithoutCancel(ctx)))
		}
		return err
	}
	return provider.Tracer(scope, trace.WithInstrumentationVersion(cmp.Or(version, "dev"))), stop
}

// reporting is an exporter whose failures are told by the reporter, and by nobody else.
type reporting struct {
	sdktrace.SpanExporter
	reporter *reporter
}

// ExportSpans implements sdktrace.SpanExporter.
func (e *reporting) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	e.reporter.sent(len(spans), e.SpanExporter.ExportSpans(ctx, spans))
	return nil
}
