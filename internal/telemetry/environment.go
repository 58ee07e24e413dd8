package telemetry

import (
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// environment are the variables of OpenTelemetry (its specification, "Environment Variable Specification" and "OTLP
// Exporter"). The exporter reads them itself, and goes on with its defaults where it cannot use one. Here is what it must not be
// left: which exporter is meant, and what is secret.
type environment func(name string) string

func (e environment) get(name string) string { return strings.TrimSpace(e(name)) }

// otlp is a variable of the exporter: that for traces wins over that for all signals.
func (e environment) otlp(name string) (variable, value string) {
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_TRACES_" + name, "OTEL_EXPORTER_OTLP_" + name} {
		if value := e.get(variable); value != "" {
			return variable, value
		}
	}
	return "OTEL_EXPORTER_OTLP_" + name, ""
}

// wanted tells whether there are to be traces.
func (e environment) wanted() (bool, *fault.Error) {
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
		return false, fault.New(fault.NotSupported, "OTEL_TRACES_EXPORTER is %.50q: onecall sends traces by otlp, or none", exporter)
	}
}

// asError is f as an error that is nil where f is.
func asError(f *fault.Error) error {
	if f == nil {
		return nil
	}
	return f
}
