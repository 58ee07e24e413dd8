package telemetry

import (
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// environment looks up the environment variables of OpenTelemetry (see its "Environment Variable Specification" and "OTLP Exporter"). The
// exporter reads them itself and falls back to defaults for invalid values. This type handles what must not be left to the exporter: the
// choice of the exporter, and secrets.
type environment func(name string) string

func (e environment) get(name string) string { return strings.TrimSpace(e(name)) }

// otlp returns the variable of the exporter whose name ends with name, and its value; "": it is not set. The variable for traces takes
// precedence over the one for all signals.
func (e environment) otlp(name string) (variable, value string) {
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_TRACES_" + name, "OTEL_EXPORTER_OTLP_" + name} {
		if value := e.get(variable); value != "" {
			return variable, value
		}
	}
	return "OTEL_EXPORTER_OTLP_" + name, ""
}

// requested reports whether the environment asks for traces.
func (e environment) requested() (bool, *fault.Error) {
	if strings.EqualFold(e.get("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch exporter := e.get("OTEL_TRACES_EXPORTER"); exporter {
	case "":
		_, endpoint := e.otlp("ENDPOINT")
		return endpoint != "", nil
	case "otlp":
		return true, nil
	case "none":
		return false, nil
	default:
		return false, fault.New(fault.NotSupported, "OTEL_TRACES_EXPORTER is %.50q: onecall only supports otlp and none", exporter)
	}
}

// asError converts f to an error that is nil if f is nil.
func asError(f *fault.Error) error {
	if f == nil {
		return nil
	}
	return f
}
