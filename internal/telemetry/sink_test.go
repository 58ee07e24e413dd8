//go:build !notrace

package telemetry_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// sink is a collector of traces.
type sink struct {
	*httptest.Server
	status    int // the HTTP status of its answers; 0: 200
	block     chan struct{}
	abandoned atomic.Int32 // requests that their clients have abandoned

	mu       sync.Mutex
	spans    []*otlp.Span
	resource map[string]string // attributes of the resource
	headers  http.Header
	raw      []byte
	requests int
}

func newSink(t testing.TB) *sink {
	t.Helper()
	s := &sink{}
	s.Server = httptest.NewServer(http.HandlerFunc(s.receive))
	t.Cleanup(s.Close)
	return s
}

func (s *sink) receive(w http.ResponseWriter, r *http.Request) {
	var from io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		from, _ = gzip.NewReader(r.Body)
	}
	body, _ := io.ReadAll(from) // before waiting, or the server would not notice that its client has left
	if s.block != nil {
		select {
		case <-s.block:
		case <-r.Context().Done():
			s.abandoned.Add(1)
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	s.headers, s.raw = r.Header, append(s.raw, body...)
	var message collector.ExportTraceServiceRequest
	if r.Header.Get("Content-Type") == "application/x-protobuf" && proto.Unmarshal(body, &message) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, resource := range message.ResourceSpans {
		s.resource = attributes(resource.Resource.Attributes)
		for _, scope := range resource.ScopeSpans {
			s.spans = append(s.spans, scope.Spans...)
		}
	}
	if s.status != 0 {
		w.WriteHeader(s.status)
		fmt.Fprintf(w, "the key %s is not good", secret)
	}
}

func attributes(list []*common.KeyValue) map[string]string {
	attrs := map[string]string{}
	for _, one := range list {
		switch v := one.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			attrs[one.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			attrs[one.Key] = fmt.Sprint(v.IntValue)
		case *common.AnyValue_BoolValue:
			attrs[one.Key] = fmt.Sprint(v.BoolValue)
		default:
			attrs[one.Key] = fmt.Sprint(v)
		}
	}
	return attrs
}

// byName returns the spans with a name.
func (s *sink) byName(name string) (matching []*otlp.Span) {
	for _, span := range s.spans {
		if span.Name == name {
			matching = append(matching, span)
		}
	}
	return matching
}

// setTraceEnv sets the environment for a collector; further are pairs of variables and values.
func setTraceEnv(t testing.TB, s *sink, further ...string) {
	t.Helper()
	for _, variable := range os.Environ() { // the environment of the test run is ignored
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", s.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	for i := 0; i < len(further); i += 2 {
		t.Setenv(further[i], further[i+1])
	}
}
