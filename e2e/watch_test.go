//go:build e2e && unix

package e2e

import (
	"bufio"
	"context"
	"io"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/polltest"
)

// measuredServer is a server whose memory, sockets and goroutines are measured.
type measuredServer struct {
	*httpServer
	metrics string
	client  *http.Client
}

var metricsAddress = regexp.MustCompile(`metrics on (http://\S+)`)

// serveMeasured starts a server with metrics.
func serveMeasured(t testing.TB, config string, args ...string) *measuredServer {
	t.Helper()
	s := &httpServer{stderr: new(logTail), ended: make(chan error, 1)}
	s.cmd = clitest.Self(t, t.TempDir(), append([]string{"serve", "--http", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--log-level",
		"error", "--config", config}, args...)...)
	s.listen(t)
	match := metricsAddress.FindStringSubmatch(s.stderr.String())
	if match == nil {
		t.Fatalf("the log lacks the address of the metrics: %s", s.stderr)
	}
	return &measuredServer{s, match[1], httpClient(t)}
}

// sample is what a server uses at a moment, by metric.
type sample map[string]float64

// The measured metrics.
const (
	goroutinesUsed = "go_goroutines"
	socketsUsed    = "process_open_fds"
	heapUsed       = "go_memstats_next_gc_bytes" // about twice what was live at the last collection, without later garbage
	memoryUsed     = "process_resident_memory_bytes"

	collections = "go_gc_duration_seconds_count" // number of garbage collections
)

// sample returns what the server uses now.
func (w *measuredServer) sample(t testing.TB) sample {
	t.Helper()
	return w.metric(t, goroutinesUsed, socketsUsed, heapUsed, memoryUsed)
}

// metric returns some of the server's metrics.
func (w *measuredServer) metric(t testing.TB, names ...string) sample {
	t.Helper()
	response, err := w.client.Get(w.metrics)
	if err != nil {
		t.Fatalf("get the metrics: %v: %s", err, w.stderr)
	}
	defer response.Body.Close()
	s := sample{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if slices.Contains(names, name) {
			if s[name], err = strconv.ParseFloat(value, 64); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil || lines.Err() != nil || len(s) != len(names) {
		t.Fatalf("got the metrics %v, want %q: %v, %v", s, names, err, lines.Err())
	}
	return s
}

// measureAtRest calls work until two garbage collections do not shrink the server's heap, and returns what the server uses then.
func (w *measuredServer) measureAtRest(t *testing.T, work func()) sample {
	t.Helper()
	minimum := w.metric(t, heapUsed, collections)
	for unchanged, start := 0, time.Now(); unchanged < 2; {
		work()
		now := w.metric(t, heapUsed, collections)
		switch {
		case now[heapUsed] < minimum[heapUsed]*0.99:
			minimum, unchanged = now, 0
		case now[collections] > minimum[collections]:
			minimum[collections] = now[collections]
			unchanged++
		}
		if time.Since(start) > clitest.TooLong {
			t.Fatalf("the heap still shrinks: %v", now)
		}
	}
	now := w.sample(t)
	now[heapUsed] = minimum[heapUsed]
	return now
}

// waitUntilSettled calls work until each metric in allowed exceeds its value in before by at most its value in allowed.
func (w *measuredServer) waitUntilSettled(t *testing.T, before sample, allowed map[string]float64, work func()) {
	t.Helper()
	var now sample
	exceeds := func(name string) bool { return now[name] > before[name]+allowed[name] }
	exceeded := ""
	ctx, cancel := context.WithTimeout(t.Context(), clitest.TooLong)
	defer cancel()
	if polltest.Try(ctx, func() bool {
		work()
		now, exceeded = w.sample(t), ""
		for name := range allowed {
			if exceeds(name) {
				exceeded = name
			}
		}
		return exceeded == ""
	}) {
		t.Logf("before %v, after %v", before, now)
		return
	}
	dump := ""
	if exceeded != heapUsed {
		_, dump = w.goroutines(t)
	}
	t.Fatalf("%s is %.0f, want at most %.0f\n%s", exceeded, now[exceeded], before[exceeded]+allowed[exceeded], lastLines(dump, 400))
}

// line is the least-squares line through values in the order of time.
type line struct {
	mean, slope float64 // slope: from one value to the next
	noise       float64 // standard deviation from the line
}

func fitLine(values []float64) (l line) {
	n := float64(len(values))
	if n < 2 {
		return line{}
	}
	middle := (n - 1) / 2
	for _, v := range values {
		l.mean += v / n
	}
	sumXY, sumXX := 0.0, 0.0
	for i, v := range values {
		x := float64(i) - middle
		sumXY += x * (v - l.mean)
		sumXX += x * x
	}
	l.slope = sumXY / sumXX
	sum := 0.0
	for i, v := range values {
		d := v - l.mean - l.slope*(float64(i)-middle)
		sum += d * d
	}
	l.noise = math.Sqrt(sum / n)
	return l
}

// growth returns how much the line rises from the first value to the last.
func (l line) growth(values int) float64 { return l.slope * float64(values-1) }

func TestFitLine(t *testing.T) {
	t.Parallel()
	rising := fitLine([]float64{1, 2, 3, 4, 5})
	if rising.mean != 3 || math.Abs(rising.slope-1) > 1e-9 || rising.noise > 1e-9 || math.Abs(rising.growth(5)-4) > 1e-9 {
		t.Errorf("rising values: got %+v, want mean 3, slope 1, no noise and a growth of 4", rising)
	}
	if flat := fitLine([]float64{1, 3, 1, 3, 1}); flat.slope != 0 || flat.noise < 0.9 {
		t.Errorf("fluctuating values: got %+v, want slope 0 and a noise of at least 0.9", flat)
	}
}
