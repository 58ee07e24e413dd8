// Package telemetry tells an operator what onecall does: logs (log/slog) in which all that belongs to one request has one
// chain id, which callers are given too, metrics for Prometheus, and OpenTelemetry traces with a span for each request and each step.
//
// It is a chain.Observer, so that a chain knows nothing of it. What it tells are names, codes and numbers: no arguments, no
// results, no tokens. The messages of errors, which may repeat some of them, are logged at the level debug only, without the
// configuration's secrets; those of defects, with their causes, always.
//
// Traces are sent where the standard environment variables of OpenTelemetry ask for it, over HTTP. A build with the tag
// `notrace` has no exporter, and refuses to start where the variables ask for one.
package telemetry
