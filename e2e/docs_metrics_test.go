//go:build e2e && unix

package e2e

import (
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

var (
	metricRow    = regexp.MustCompile("(?m)^\\| `(onecall_\\w+)` \\|([^|]*)\\|")
	metricType   = regexp.MustCompile(`(?m)^# TYPE (onecall_\w+) (\w+)$`)
	metricSeries = regexp.MustCompile(`(?m)^(onecall_\w+?)(_bucket|_sum|_count)?(?:\{(.*)\})? \S+$`)
	labelName    = regexp.MustCompile(`(\w+)="`)
)

// TestMetricsTable checks that docs/metrics.md has exactly the metrics of a server, with their labels.
func TestMetricsTable(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range metricRow.FindAllStringSubmatch(string(document), -1) {
		if _, ok := documented[row[1]]; ok {
			t.Errorf("the table lists %s twice", row[1])
		}
		documented[row[1]] = joinSorted(regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row[2], -1))
	}
	served := metricsOf(t, busyMetrics(t))
	if len(served) < 20 {
		t.Fatalf("the server has %d metrics, want at least 20: %v", len(served), served)
	}
	for _, name := range slices.Sorted(maps.Keys(served)) {
		if labels, ok := documented[name]; !ok || labels != served[name] {
			t.Errorf("%s: the table has the labels {%s} (listed: %v), want {%s} of the server", name, labels, ok, served[name])
		}
		delete(documented, name)
	}
	for _, name := range slices.Sorted(maps.Keys(documented)) {
		t.Errorf("the table lists %s, which the server does not have", name)
	}
}

// busyMetrics returns the metrics page of a server that has used its features. Counters with labels appear only after they counted.
func busyMetrics(t *testing.T) string {
	t.Helper()
	s := serveHTTP(t, clitest.Write(t, t.TempDir(), "onecall.yaml", ""), "--metrics", ":0")
	w := stateful(t, s.url)
	large := map[string]any{"fn": "expr.eval", "args": map[string]any{"expression": "1..20000"}}
	if text, failed := w.tool(t, "chain", map[string]any{"steps": []any{large}}); failed || !strings.Contains(text, "continuation_token") {
		t.Fatalf("the answer to a large result is %s, want a probe", text)
	}
	if r := w.send(t, http.MethodPost, w.message(t, "1", "tools/list", nil),
		func(r *http.Request) { r.Host = "evil.example" }); r.status != http.StatusForbidden {
		t.Fatalf("a request for another host: status %d, want 403", r.status)
	}
	code, page := s.statusOf(t, "/metrics", "")
	if code != http.StatusOK {
		t.Fatalf("/metrics: got %d, want 200: %s", code, page)
	}
	return page
}

// metricsOf returns the labels of each metric of a page, sorted, without those that Prometheus adds to histograms.
func metricsOf(t *testing.T, page string) map[string]string {
	t.Helper()
	histogram, labels := map[string]bool{}, map[string]string{}
	for _, match := range metricType.FindAllStringSubmatch(page, -1) {
		histogram[match[1]] = match[2] == "histogram"
	}
	for _, match := range metricSeries.FindAllStringSubmatch(page, -1) {
		name := match[1]
		if !histogram[name] {
			name += match[2]
		}
		labelNames := strings.Split(joinSorted(labelName.FindAllStringSubmatch(match[3], -1)), " ")
		labelNames = slices.DeleteFunc(labelNames, func(label string) bool { return histogram[name] && label == "le" })
		if before, ok := labels[name]; ok && before != strings.Join(labelNames, " ") {
			t.Errorf("%s has the labels %v and %v, want the same", name, before, labelNames)
		}
		labels[name] = strings.Join(labelNames, " ")
	}
	return labels
}

// joinSorted joins the first groups of all matches, sorted.
func joinSorted(matches [][]string) string {
	var words []string
	for _, match := range matches {
		words = append(words, match[1])
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}
