package temporal

import (
	"github.com/prometheus/client_golang/prometheus"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
)

// metricsHandler returns a handler that registers the SDK's metrics (https://docs.temporal.io/references/sdk-metrics) beside the process's
// own. If to is nil, there are no metrics, and the handler is nil.
func metricsHandler(to prometheus.Registerer) (client.MetricsHandler, error) {
	if to == nil {
		return nil, nil //nolint:nilnil // the SDK takes it for none
	}
	reader, err := exporter.New(exporter.WithRegisterer(to), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		return nil, err
	}
	return opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{
		Meter: metric.NewMeterProvider(metric.WithReader(reader)).Meter("temporal"),
	}), nil
}
