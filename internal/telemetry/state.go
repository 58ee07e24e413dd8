package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onecall-mcp/onecall/steps"
)

// state collects what is asked for when the metrics are read.
type state struct {
	o       *Options
	running *atomic.Int64 // requests

	requests, sessions, sources, ready, functions *prometheus.Desc
}

func newState(o *Options, running *atomic.Int64) *state {
	own := *o
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
	}
	return &state{
		o: &own, running: running,
		requests:  describe("requests_running", "Calls of tools under way."),
		sessions:  describe("sessions", "Sessions of clients."),
		sources:   describe("sources", "Sources by where they stand.", "state"),
		ready:     describe("source_ready", "Whether the functions of a source can be called. Disabled sources are left out.", "source"),
		functions: describe("source_functions", "Functions that a source offers.", "source"),
	}
}

// Describe implements prometheus.Collector.
func (s *state) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.requests, s.sessions, s.sources, s.ready, s.functions} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (s *state) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		if m, err := prometheus.NewConstMetric(d, prometheus.GaugeValue, value, labels...); err == nil { // a label that is not UTF-8 is left out
			to <- m
		}
	}
	running := func() int { return int(s.running.Load()) }
	if s.o.Running != nil {
		running = s.o.Running
	}
	asked(func() { gauge(s.requests, float64(running())) })
	if s.o.Sessions != nil {
		asked(func() { gauge(s.sessions, float64(s.o.Sessions())) })
	}
	if s.o.Sources != nil {
		asked(func() { s.collectSources(s.o.Sources(), gauge) })
	}
}

// asked asks somebody else: who panics is left out, and the process goes on.
func asked(who func()) {
	defer func() { _ = recover() }()
	who()
}

var states = []steps.State{steps.StateStarting, steps.StateReady, steps.StateIdle, steps.StateRetrying, steps.StateFailed, steps.StateDisabled}

func (s *state) collectSources(sources []steps.SourceInfo, gauge func(*prometheus.Desc, float64, ...string)) {
	count := map[steps.State]int{}
	for _, source := range sources {
		count[source.State]++
		gauge(s.functions, float64(len(source.Functions)), source.Name)
		switch source.State {
		case steps.StateReady, steps.StateIdle:
			gauge(s.ready, 1, source.Name)
		case steps.StateDisabled:
		default:
			gauge(s.ready, 0, source.Name)
		}
	}
	for _, state := range states {
		gauge(s.sources, float64(count[state]), string(state))
	}
}
