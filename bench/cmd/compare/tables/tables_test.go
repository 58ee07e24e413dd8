package tables

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

func TestCut(t *testing.T) {
	t.Parallel()
	text := []byte(`{"info":{"title":"X"},"paths":{"/b":{"get":{"n":3},"post":{"n":4}},"/a":{"parameters":[],"put":{"n":2},"get":{"n":1}}}}`)
	for n, want := range map[int]string{
		1: `{"info":{"title":"X"},"paths":{"/a":{"get":{"n":1},"parameters":[]}}}`,
		3: `{"info":{"title":"X"},"paths":{"/a":{"get":{"n":1},"parameters":[],"put":{"n":2}},"/b":{"get":{"n":3}}}}`,
	} {
		if got, ok := cut(text, n); !ok || string(got) != want {
			t.Errorf("cut to %d: %s, %t, want %s", n, got, ok, want)
		}
	}
	for _, bad := range []string{`{`, `{"paths":[]}`, `{"paths":{"/a":{"get":{}}}}`} {
		if _, ok := cut([]byte(bad), 2); ok {
			t.Errorf("cut finds two operations in %s", bad)
		}
	}
	if got := slug("Über-API (v2): The Things"); got != "ber_api_v_th" {
		t.Errorf("slug returns %s, want ber_api_v_th", got)
	}
}

func TestAdded(t *testing.T) {
	t.Parallel()
	var a callTimes
	for _, extra := range []float64{1, 2, 30} {
		a.took = [2]float64{20, 20 + extra}
		a.end(2)
	}
	r := a.row("x")
	for i, c := range r.Cells {
		r.Cells[i].Low, r.Cells[i].High = math.Round(c.Low*1e6)/1e6, math.Round(c.High*1e6)/1e6
	}
	want := []report.Cell{
		{Value: 10, Low: 10, High: 10, Unit: "ms", How: report.Measured}, {Value: 11, Low: 10.6, High: 22.2, Unit: "ms", How: report.Measured},
		{Value: 1, Low: 0.6, High: 12.2, Unit: "ms", How: report.Computed}, {Value: 0.1, Low: 0.06, High: 1.22, Unit: "×", How: report.Computed},
	}
	if !slices.Equal(r.Cells, want) || a.figure("a", "b", "").Value != 1 {
		t.Errorf("cells %+v, want %+v", r.Cells, want)
	}
}

// TestChainsAreJSON checks all chains of the section, which are built from texts.
func TestChainsAreJSON(t *testing.T) {
	t.Parallel()
	for _, q := range queries {
		for _, text := range q.chains {
			if !gjson.Valid(strings.ReplaceAll(text, "\n", "")) {
				t.Errorf("not JSON: %s", text)
			}
		}
	}
	if got := gjson.Get(definitions("a", "b")[0], "steps.0.forEach").Str; got != "['a','b']" {
		t.Errorf("got forEach %s, want ['a','b']", got)
	}
}

func TestGatewaysHave31Actions(t *testing.T) {
	t.Parallel()
	n := 0
	for _, resources := range gateways31 {
		for _, actions := range resources {
			n += len(strings.Fields(actions))
		}
	}
	if n != 31 {
		t.Errorf("got %d actions, want 31", n)
	}
}
