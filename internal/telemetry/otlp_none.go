//go:build notrace

package telemetry

import (
	"context"
	"os"

	"go.opentelemetry.io/otel/trace"

	"github.com/onecall-mcp/onecall/fault"
)

// startTraces refuses to start if the environment asks for traces: this build has no exporter.
func startTraces(string, *reporter) (trace.Tracer, func(context.Context) error, error) {
	wanted, f := environment(os.Getenv).requested()
	if f == nil && wanted {
		f = fault.New(fault.NotSupported,
			"the environment asks for traces (OTEL_EXPORTER_OTLP_ENDPOINT), and this onecall was built without them: "+
				"set OTEL_SDK_DISABLED=true, or use a build with traces")
	}
	return nil, nil, asError(f)
}
