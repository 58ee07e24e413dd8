// Package telemetry shows operators what onecall does. It provides logs (log/slog) in which the records of one request share a chain id,
// which callers get, too; metrics for Prometheus; and OpenTelemetry traces with a span for each request and each step.
//
// It is a chain.Observer, so package chain does not depend on it. It records names, codes and numbers, but no arguments, results or
// tokens. Messages of errors may repeat some of those. They are logged only at level debug, without the configuration's secrets;
// messages of internal errors are always logged, with their causes.
//
// Traces are sent over HTTP if the standard environment variables of OpenTelemetry ask for them. A build with the tag `notrace` has no
// exporter, and refuses to start if the variables ask for one.
package telemetry
