package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onecall-mcp/onecall/steps"
)

// collector provides the metrics whose values are read from elsewhere whenever the metrics are read.
type collector struct {
	o       *Options
	running *atomic.Int64 // the number of requests in progress, used if o.Running is nil

	requests, sessions, sources, ready, functions, differences *prometheus.Desc
}

func newCollector(o *Options, running *atomic.Int64) *collector {
	clone := *o
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
	}
	return &collector{
		o: &clone, running: running,
		requests:    describe("requests_running", "Calls of tools in progress."),
		sessions:    describe("sessions", "Sessions of clients."),
		sources:     describe("sources", "Sources by state.", "state"),
		ready:       describe("source_ready", "Whether the functions of a source can be called. Disabled sources are left out.", "source"),
		functions:   describe("source_functions", "Functions that a source offers.", "source"),
		differences: describe("source_tool_lock_differences", "Functions of a source that are not as onecall.lock says, with toolLock.", "source"),
	}
}

// Describe implements prometheus.Collector.
func (s *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.requests, s.sessions, s.sources, s.ready, s.functions, s.differences} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (s *collector) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		if m, err := prometheus.NewConstMetric(d, prometheus.GaugeValue, value, labels...); err == nil { // skips labels that are not UTF-8
			to <- m
		}
	}
	running := func() int { return int(s.running.Load()) }
	if s.o.Running != nil {
		running = s.o.Running
	}
	safely(func() { gauge(s.requests, float64(running())) })
	if s.o.Sessions != nil {
		safely(func() { gauge(s.sessions, float64(s.o.Sessions())) })
	}
	if s.o.Sources != nil {
		safely(func() { s.collectSources(s.o.Sources(), gauge) })
	}
}

// safely calls f and recovers from a panic: then only that metric is missing.
func safely(f func()) {
	defer func() { _ = recover() }()
	f()
}

// states are all states of sources. Each has a metric, even if no source is in it.
var states = []steps.State{steps.StateStarting, steps.StateReady, steps.StateIdle, steps.StateRetrying, steps.StateFailed,
	steps.StateDisabled, steps.StateLocked}

func (s *collector) collectSources(sources []steps.SourceInfo, gauge func(*prometheus.Desc, float64, ...string)) {
	count := map[steps.State]int{}
	for _, source := range sources {
		count[source.State]++
		gauge(s.functions, float64(len(source.Functions)), source.Name)
		gauge(s.differences, float64(len(source.Differing)), source.Name)
		switch source.State {
		case steps.StateReady, steps.StateIdle:
			gauge(s.ready, 1, source.Name)
		case steps.StateDisabled, steps.StateLocked:
		default:
			gauge(s.ready, 0, source.Name)
		}
	}
	for _, state := range states {
		gauge(s.sources, float64(count[state]), string(state))
	}
}
