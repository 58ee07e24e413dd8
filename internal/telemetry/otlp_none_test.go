//go:build notrace

package telemetry_test

import (
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/telemetry"
)

// TestBuiltWithoutTraces holds that a build without them does not start where they are asked for.
func TestBuiltWithoutTraces(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
	if _, err := telemetry.New(nil); fault.CodeOf(err) != fault.NotSupported {
		t.Error(err)
	}
	t.Setenv("OTEL_SDK_DISABLED", "true")
	if _, err := telemetry.New(nil); err != nil {
		t.Error(err)
	}
}
