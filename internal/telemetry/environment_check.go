//go:build !notrace

package telemetry

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
)

// check returns a fault for an unsupported protocol, an address of the collector that is invalid or may contain a secret, or a size at
// which OpenTelemetry would panic.
func (e environment) check() *fault.Error {
	return cmp.Or(e.checkProtocol(), e.checkEndpoints(), e.checkSize("OTEL_BSP_MAX_QUEUE_SIZE"), e.checkSize("OTEL_BSP_MAX_EXPORT_BATCH_SIZE"))
}

const maxQueue = 1_000_000 // spans

func (e environment) checkSize(variable string) *fault.Error {
	value := e.get(variable)
	if n, err := strconv.Atoi(value); value != "" && (err != nil || n < 1 || n > maxQueue) {
		return variableFault(variable, "it must be a number of spans from 1 to "+strconv.Itoa(maxQueue))
	}
	return nil
}

func (e environment) checkProtocol() *fault.Error {
	switch variable, protocol := e.otlp("PROTOCOL"); protocol {
	case "", "http/protobuf":
		return nil
	default:
		return fault.New(fault.NotSupported,
			"%s is %.50q: onecall sends traces by http/protobuf only, to the collector's port for HTTP (4318)", variable, protocol)
	}
}

func (e environment) checkEndpoints() *fault.Error {
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		value := e.get(variable)
		if value == "" {
			continue
		}
		u, err := url.Parse(value)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return variableFault(variable, "it must be an http or https URL, such as http://127.0.0.1:4318")
		}
		if u.User != nil || u.RawQuery != "" || u.Fragment != "" { // the exporter ignores these parts, and its errors would show them
			return variableFault(variable, "it must have no user, password, query or fragment: set OTEL_EXPORTER_OTLP_HEADERS for credentials")
		}
	}
	return nil
}

// secrets returns a scrubber of the values of headers, which are often keys: as written, decoded, and without the scheme of an
// Authorization header.
func (e environment) secrets() *secret.Scrubber {
	var secrets []string
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"} {
		for header := range strings.SplitSeq(e.get(variable), ",") {
			_, value, _ := strings.Cut(header, "=")
			decoded, _ := url.PathUnescape(value)
			secrets = append(secrets, header, value, decoded)
		}
	}
	return secret.New(secrets)
}

func variableFault(variable, why string) *fault.Error {
	return fault.New(fault.BadRequest, "the environment variable %s cannot be used: %s", variable, why)
}
