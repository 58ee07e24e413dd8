package telemetry

import (
	"cmp"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
)

// metrics are the metrics for Prometheus. Each label has a bounded number of values, whatever callers send.
type metrics struct {
	registry *prometheus.Registry

	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	tokens   *prometheus.CounterVec
	stored   prometheus.Counter
	probes   prometheus.Counter
	lean     prometheus.Counter
	cached   prometheus.Counter
	byKind   map[chain.Kind]*kindMetrics
	steps    [len(statuses)]prometheus.Counter

	calls        *prometheus.CounterVec
	callDuration *prometheus.HistogramVec
	callsRunning *prometheus.GaugeVec
	sources      labelValues
	functions    labelValues

	refusals *prometheus.CounterVec
	reasons  labelValues

	reloads    *prometheus.CounterVec
	reloadGood prometheus.Gauge
	reloadTime prometheus.Gauge

	storeOperations *prometheus.CounterVec
	storeDuration   *prometheus.HistogramVec

	spans, spansSent, spansFailed prometheus.Counter
}

const namespace = "onecall"

// Upper bounds of the buckets of durations, in seconds. A chain of no-ops takes less than the first; by default no chain takes longer than
// five minutes.
var (
	requestBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	callBuckets    = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	storeBuckets   = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}
)

// Maximum number of values of labels.
const (
	maxFunctions = 500
	maxSources   = 100
	maxReasons   = 30
)

const (
	ok    = "ok"    // the code of success
	other = "other" // the label of values beyond the maximum
)

func newMetrics(o *Options, running *atomic.Int64) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(),
		sources: labelValues{limit: maxSources}, functions: labelValues{limit: maxFunctions}, reasons: labelValues{limit: maxReasons}}
	m.requests = m.counters("requests_total", "Requests by what they ask for and the code that they ended with.", "kind", "code")
	m.duration = m.histograms("request_duration_seconds", "How long requests took, by what they ask for.", requestBuckets, "kind")
	m.tokens = m.counters("answer_tokens_total", "Tokens of answers, by what was asked for.", "kind")
	m.stored = m.counter("kept_tokens_total",
		"Tokens of results that no answer held: intermediate ones, and what probes and lean forms stand for. Estimated.")
	m.probes = m.counter("probes_total", "Answers that held a probe in place of their result.")
	m.lean = m.counter("lean_answers_total", "Answers that held the lean form of a write.")
	m.cached = m.counter("cached_calls_total", "Calls that the call cache answered.")
	m.calls = m.counters("calls_total", "Calls that reached a function, by its source, its name and the code that they ended with.",
		"source", "function", "code")
	m.callDuration = m.histograms("call_duration_seconds", "How long calls of functions took, by source.", callBuckets, "source")
	m.callsRunning = m.gauges("calls_running", "Calls of functions in progress, by source, including abandoned calls that continue.",
		"source")
	m.refusals = m.counters("refused_total", "Requests that were refused unread, by reason.", "reason")
	m.reloads = m.counters("config_reloads_total", "Attempts to load the configuration, including the first, by result.", "result")
	m.reloadGood = m.gauge("config_last_reload_successful", "Whether the last attempt to load the configuration succeeded.")
	m.reloadTime = m.gauge("config_last_reload_success_timestamp_seconds", "When the configuration that is served was loaded.")
	m.storeOperations = m.counters("store_operations_total",
		"Operations of stores, by the code that they ended with.", "store", "operation", "code")
	m.storeDuration = m.histograms("store_operation_duration_seconds", "How long operations of stores took.", storeBuckets, "store",
		"operation")
	m.spans = m.counter("trace_spans_total",
		"Spans, including those of running steps. The ones neither sent nor failed are open or waiting, or were dropped because too many waited.")
	m.spansSent = m.counter("trace_spans_sent_total", "Spans that the collector accepted.")
	m.spansFailed = m.counter("trace_spans_failed_total", "Spans that could not be sent and are lost.")
	m.createSeries()
	m.reloaded(nil, time.Now())
	m.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newCollector(o, running),
	)
	m.counterFunc("log_lines_dropped_total", "Log lines that were dropped because the log was not read.", o.Dropped)
	m.counterFunc("recording_lines_lost_total", "Lines that could not be written to the recording (--record).", o.Unrecorded)
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "Always 1. The labels identify the build of onecall.",
		ConstLabels: prometheus.Labels{"version": cmp.Or(o.Version, "dev"), "go_version": runtime.Version()},
	}, func() float64 { return 1 }))
	return m
}

// counterFunc registers a counter whose value count returns. It does nothing if count is nil.
func (m *metrics) counterFunc(name, help string, count func() int) {
	if count != nil {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help},
			func() float64 { return float64(count()) }))
	}
}

func (m *metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
	m.registry.MustRegister(c)
	return c
}

func (m *metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.registry.MustRegister(c)
	return c
}

func (m *metrics) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
	m.registry.MustRegister(g)
	return g
}

func (m *metrics) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.registry.MustRegister(g)
	return g
}

func (m *metrics) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
	m.registry.MustRegister(h)
	return h
}

// kindMetrics are the series of one kind of request.
type kindMetrics struct {
	ok, tokens prometheus.Counter
	duration   prometheus.Observer
}

// createSeries creates the series that are used most, so that they exist from the start and need no lookup.
func (m *metrics) createSeries() {
	m.byKind = map[chain.Kind]*kindMetrics{}
	for _, kind := range []chain.Kind{chain.KindChain, chain.KindPlan, chain.KindCall, chain.KindFetch, chain.KindDeliver,
		chain.KindRefuse, chain.KindPass} {
		m.byKind[kind] = m.metricsOf(kind)
		m.requests.WithLabelValues(string(kind), string(fault.Internal)) // at 0, so that the first failure is an increase
	}
	steps := m.counters("steps_total", "Ended steps, including those of inline chains, by status.", "status")
	for i, status := range statuses {
		m.steps[i] = steps.WithLabelValues(status)
	}
}

func (m *metrics) metricsOf(kind chain.Kind) *kindMetrics {
	label := string(kind)
	return &kindMetrics{ok: m.requests.WithLabelValues(label, ok), tokens: m.tokens.WithLabelValues(label),
		duration: m.duration.WithLabelValues(label)}
}

// kindLabel returns the label of a kind; other for an unknown one.
func (m *metrics) kindLabel(kind chain.Kind) string {
	if m.byKind[kind] == nil {
		return other
	}
	return string(kind)
}

func (m *metrics) request(r *request, e *chain.RequestEnd) {
	o := r.observed
	series := m.byKind[o.Kind]
	if series == nil { // an unknown kind
		series = m.metricsOf(other)
	}
	if e.Err == nil {
		series.ok.Inc()
	} else {
		m.requests.WithLabelValues(m.kindLabel(o.Kind), codeOf(e.Err)).Inc()
	}
	series.duration.Observe(e.Took.Seconds())
	add(series.tokens, e.Tokens)
	add(m.stored, e.Stored)
	add(m.cached, int(e.Cached))
	if e.Probe {
		m.probes.Inc()
	}
	if e.Lean {
		m.lean.Inc()
	}
	for i := range r.steps {
		add(m.steps[i], int(r.steps[i].Load()))
	}
}

// statuses are the statuses of steps.
var statuses = [...]string{ok, "failed", "skipped"}

// stepCounts count the ended steps of a request by status. They are added to the metrics at the end of the request, because counters
// shared by all requests are slow.
type stepCounts [len(statuses)]atomic.Int64

func (m *metrics) refused(reason string) {
	m.refusals.WithLabelValues(m.reasons.label(reason)).Inc()
}

func (m *metrics) reloaded(err error, now time.Time) {
	if err != nil {
		m.reloads.WithLabelValues("failed").Inc()
		m.reloadGood.Set(0)
		return
	}
	m.reloads.WithLabelValues(ok).Inc()
	m.reloadGood.Set(1)
	m.reloadTime.Set(float64(now.UnixMilli()) / 1000)
}

// add adds n to a counter if n is positive.
func add(c prometheus.Counter, n int) {
	if n > 0 {
		c.Add(float64(n))
	}
}

func codeOf(f *fault.Error) string {
	if f == nil {
		return ok
	}
	return string(f.Code)
}

// labelValues bounds the values of a label: the first ones are kept, and all others become "other".
type labelValues struct {
	limit int
	mu    sync.Mutex
	known map[string]bool
}

// label returns the label's value for a word: the word itself, or other if there are too many.
func (w *labelValues) label(word string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known[word] {
		return word
	}
	if len(w.known) >= w.limit {
		return other
	}
	if w.known == nil {
		w.known = map[string]bool{}
	}
	w.known[word] = true
	return word
}

// Limits of requests for the metrics: the duration, and how many are served at once.
const (
	readTimeout = 10 * time.Second
	maxReaders  = 4
)

// Registerer registers further metrics.
type Registerer = prometheus.Registerer

// Registerer returns the registerer for further metrics, which Handler serves, too.
func (t *Telemetry) Registerer() Registerer { return t.metrics.registry }

// Handler returns a handler that serves the metrics in the requested format (Prometheus text or OpenMetrics). The listener must restrict
// access, because the metrics name functions and sources that callers may not know.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.metrics.registry, promhttp.HandlerOpts{
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: maxReaders,
		Timeout:             readTimeout,
		EnableOpenMetrics:   true,
	})
}
