//go:build !notrace

package telemetry

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
)

// check finds the first variable that cannot be used.
func (e environment) check() *fault.Error {
	for _, check := range []func() *fault.Error{e.checkProtocol, e.checkEndpoints, e.checkHeaders, e.checkTransfer, e.checkCertificates, e.checkSampler, e.checkBatches} {
		if f := check(); f != nil {
			return f
		}
	}
	return nil
}

func (e environment) checkProtocol() *fault.Error {
	switch variable, protocol := e.otlp("PROTOCOL"); protocol {
	case "", "http/protobuf":
		return nil
	default:
		return fault.New(fault.NotSupported, "%s is %.50q: onecall sends traces by http/protobuf only, to the collector's port for HTTP (4318)", variable, protocol)
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
			return unusable(variable, "it must be an http or https URL, such as http://127.0.0.1:4318")
		}
		if u.User != nil || u.RawQuery != "" || u.Fragment != "" { // of which the exporter sends nothing, and errors show all
			return unusable(variable, "a user, a password or a key does not belong in it: write OTEL_EXPORTER_OTLP_HEADERS")
		}
	}
	return nil
}

// headers are what the exporter sends with each request: often keys. No message shows their values.
func (e environment) headers(variable string) (values []string, f *fault.Error) {
	text := e.get(variable)
	if text == "" {
		return nil, nil
	}
	for i, header := range strings.Split(text, ",") {
		name, value, found := strings.Cut(header, "=")
		decoded, err := url.PathUnescape(value)
		if !found || err != nil || !httpguts.ValidHeaderFieldName(strings.TrimSpace(name)) || !httpguts.ValidHeaderFieldValue(decoded) {
			return nil, unusable(variable, "it must hold name=value pairs, separated by commas, and the "+ordinal(i+1)+" is none; values are percent-encoded")
		}
		values = append(values, value, strings.TrimSpace(decoded))
		if _, credentials, scheme := strings.Cut(strings.TrimSpace(decoded), " "); scheme {
			values = append(values, credentials) // of an Authorization header
		}
	}
	return values, nil
}

func ordinal(n int) string {
	if names := []string{"first", "second", "third"}; n <= len(names) {
		return names[n-1]
	}
	return strconv.Itoa(n) + "th"
}

var headerVariables = []string{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"}

func (e environment) checkHeaders() *fault.Error {
	for _, variable := range headerVariables {
		if _, f := e.headers(variable); f != nil {
			return f
		}
	}
	return nil
}

// secrets takes the values of headers out of what is told of failures.
func (e environment) secrets() *secret.Scrubber {
	var secrets []string
	for _, variable := range headerVariables {
		values, _ := e.headers(variable)
		secrets = append(secrets, values...)
	}
	return secret.New(secrets)
}

func (e environment) checkTransfer() *fault.Error {
	for _, of := range []string{"OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"} {
		if compression := e.get(of + "COMPRESSION"); !slices.Contains([]string{"", "none", "gzip"}, compression) {
			return unusable(of+"COMPRESSION", "use gzip or none")
		}
		if f := e.checkNumber(of+"TIMEOUT", maxMillis, "milliseconds"); f != nil {
			return f
		}
	}
	return nil
}

// Bounds of numbers.
const (
	maxMillis = 10 * 60 * 1000
	maxQueue  = 1_000_000
)

func (e environment) checkNumber(variable string, most int, unit string) *fault.Error {
	value := e.get(variable)
	if value == "" {
		return nil
	}
	if n, err := strconv.Atoi(value); err != nil || n < 1 || n > most {
		return unusable(variable, "it must be a number of "+unit+" from 1 to "+strconv.Itoa(most))
	}
	return nil
}

func (e environment) checkCertificates() *fault.Error {
	for _, of := range []string{"OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"} {
		if file := e.get(of + "CERTIFICATE"); file != "" {
			pem, err := os.ReadFile(file)
			if err != nil || !x509.NewCertPool().AppendCertsFromPEM(pem) {
				return unusable(of+"CERTIFICATE", "it must name a file with certificates in PEM")
			}
		}
		certificate, key := e.get(of+"CLIENT_CERTIFICATE"), e.get(of+"CLIENT_KEY")
		if certificate == "" && key == "" {
			continue
		}
		if _, err := tls.LoadX509KeyPair(certificate, key); err != nil {
			return unusable(of+"CLIENT_CERTIFICATE", "with "+of+"CLIENT_KEY it must name files with a certificate and its key in PEM")
		}
	}
	return nil
}

var samplers = []string{"always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"}

func (e environment) checkSampler() *fault.Error {
	sampler := strings.ToLower(e.get("OTEL_TRACES_SAMPLER"))
	if sampler != "" && !slices.Contains(samplers, sampler) {
		return unusable("OTEL_TRACES_SAMPLER", "use "+strings.Join(samplers, ", "))
	}
	arg := e.get("OTEL_TRACES_SAMPLER_ARG")
	if arg == "" || !strings.HasSuffix(sampler, "traceidratio") {
		return nil
	}
	if ratio, err := strconv.ParseFloat(arg, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
		return unusable("OTEL_TRACES_SAMPLER_ARG", "it must be a number from 0 to 1, the part of requests that are traced")
	}
	return nil
}

func (e environment) checkBatches() *fault.Error {
	for _, number := range []struct {
		name string
		most int
		unit string
	}{
		{"SCHEDULE_DELAY", maxMillis, "milliseconds"}, {"EXPORT_TIMEOUT", maxMillis, "milliseconds"},
		{"MAX_QUEUE_SIZE", maxQueue, "spans"}, {"MAX_EXPORT_BATCH_SIZE", maxQueue, "spans"},
	} {
		if f := e.checkNumber("OTEL_BSP_"+number.name, number.most, number.unit); f != nil {
			return f
		}
	}
	return nil
}

func unusable(variable, why string) *fault.Error {
	return fault.New(fault.BadRequest, "the environment variable %s cannot be used: %s", variable, why)
}
