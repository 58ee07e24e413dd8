//go:build notrace

package telemetry_test

import (
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/telemetry"
)

// TestBuiltWithoutTraces checks that a build without traces does not start if the environment asks for them.
func TestBuiltWithoutTraces(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
	if _, err := telemetry.New(nil); fault.CodeOf(err) != fault.NotSupported {
		t.Errorf("New with an endpoint: got error %v, want not_supported", err)
	}
	t.Setenv("OTEL_SDK_DISABLED", "true")
	if _, err := telemetry.New(nil); err != nil {
		t.Errorf("New with OTEL_SDK_DISABLED: got error %v, want none", err)
	}
}
