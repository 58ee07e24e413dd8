//go:build unix

package cli

import (
	"bufio"
	"io"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// watched is a server whose memory, sockets and goroutines are looked at.
type watched struct {
	*serving
	metrics string
	client  *http.Client
}

var metricsAddress = regexp.MustCompile(`metrics on (http://\S+)`)

// serveWatched starts a server that tells its metrics.
func serveWatched(t testing.TB, config string, args ...string) *watched {
	t.Helper()
	address := make(chan string, 1)
	s := &serving{stderr: &tail{address: address}, ended: make(chan error, 1)}
	s.cmd = self(t, t.TempDir(), append([]string{"serve", "--http", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--log-level", "error", "--config", config}, args...)...)
	s.listen(t, address)
	found := metricsAddress.FindStringSubmatch(s.stderr.String())
	if found == nil {
		t.Fatalf("the server does not tell where its metrics are: %s", s.stderr)
	}
	return &watched{s, found[1], httpClient(t)}
}

// sample is what a server uses at a moment, by name.
type sample map[string]float64

// What is looked at of a server.
const (
	goroutinesUsed = "go_goroutines"
	socketsUsed    = "process_open_fds"
	heapUsed       = "go_memstats_next_gc_bytes" // twice what the last collection has left, without what has become garbage since
	memoryUsed     = "process_resident_memory_bytes"

	collections = "go_gc_duration_seconds_count" // so far
)

// sample asks the server what it uses.
func (w *watched) sample(t testing.TB) sample {
	t.Helper()
	return w.metric(t, goroutinesUsed, socketsUsed, heapUsed, memoryUsed)
}

// metric asks the server for some of its metrics.
func (w *watched) metric(t testing.TB, names ...string) sample {
	t.Helper()
	response, err := w.client.Get(w.metrics)
	if err != nil {
		t.Fatalf("%v: %s", err, w.stderr)
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
		t.Fatalf("the metrics lack what is looked at: %v, %v, %v", s, err, lines.Err())
	}
	return s
}

// rested has a server work until all that it has left is collected: the heap is no smaller after one collection more, and another.
// It gives what the server uses then.
func (w *watched) rested(t *testing.T, work func()) sample {
	t.Helper()
	least := w.metric(t, heapUsed, collections)
	for same, began := 0, time.Now(); same < 2; {
		work()
		now := w.metric(t, heapUsed, collections)
		switch {
		case now[heapUsed] < least[heapUsed]*0.99:
			least, same = now, 0
		case now[collections] > least[collections]:
			least[collections] = now[collections]
			same++
		}
		if time.Since(began) > tooLong {
			t.Fatalf("the heap does not come to rest: %v", now)
		}
	}
	now := w.sample(t)
	now[heapUsed] = least[heapUsed]
	return now
}

// settled waits until what a server uses is back at what it was, but for a little; meanwhile it has something to do.
func (w *watched) settled(t *testing.T, before sample, more map[string]float64, work func()) {
	t.Helper()
	var now sample
	late := func(name string) bool { return now[name] > before[name]+more[name] }
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		work()
		now = w.sample(t)
		left := ""
		for name := range more {
			if late(name) {
				left = name
			}
		}
		if left == "" {
			t.Logf("before %v, after %v", before, now)
			return
		}
		if time.Since(began) > tooLong {
			dump := ""
			if left != heapUsed {
				_, dump = w.goroutines(t)
			}
			t.Fatalf("%s does not come back to %.0f: it is %.0f\n%s", left, before[left], now[left], lastLines(dump, 400))
		}
	}
}

// line is the straight line that is nearest to some values in the order of their time (least squares).
type line struct {
	mean, slope float64 // slope: from one value to the next
	noise       float64 // the standard deviation from the line
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
	up, across := 0.0, 0.0
	for i, v := range values {
		x := float64(i) - middle
		up += x * (v - l.mean)
		across += x * x
	}
	l.slope = up / across
	sum := 0.0
	for i, v := range values {
		d := v - l.mean - l.slope*(float64(i)-middle)
		sum += d * d
	}
	l.noise = math.Sqrt(sum / n)
	return l
}

// growth is how much the line rises from the first value to the last.
func (l line) growth(values int) float64 { return l.slope * float64(values-1) }

func TestFitLine(t *testing.T) {
	t.Parallel()
	rising := fitLine([]float64{1, 2, 3, 4, 5})
	if rising.mean != 3 || math.Abs(rising.slope-1) > 1e-9 || rising.noise > 1e-9 || math.Abs(rising.growth(5)-4) > 1e-9 {
		t.Errorf("%+v", rising)
	}
	if flat := fitLine([]float64{1, 3, 1, 3, 1}); flat.slope != 0 || flat.noise < 0.9 {
		t.Errorf("%+v", flat)
	}
}
