package draw_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/draw"
	"github.com/onecall-mcp/onecall/internal/history"
	"github.com/onecall-mcp/onecall/internal/transcript"
	"github.com/onecall-mcp/onecall/steps"
)

// plan has a forEach, an inline chain, a write that needs approval, and an order without a reference.
var plan = &chain.DryRun{DryChain: chain.DryChain{
	Waves: [][]int{{0, 3}, {1}, {2}, {4}, {5}},
	Steps: []chain.DryStep{
		{ID: "files", Function: "fs.find", Effect: steps.Read},
		{ID: "texts", Function: "fs.cat", ForEach: true, Effect: steps.Read, After: []int{0}, Needs: []int{0}},
		{ID: "n", Function: "expr", Effect: steps.Read, After: []int{1}, Needs: []int{1}},
		{Effect: steps.Read, Chain: &chain.DryChain{Waves: [][]int{{0}, {1}}, Steps: []chain.DryStep{
			{Function: "fs.cat", Effect: steps.Read}, {ID: "words", Function: "text.match", Effect: steps.Read, After: []int{0}, Needs: []int{0}}}}},
		{ID: "report", Function: "fs.write", Effect: steps.Write, Approve: true, After: []int{0, 1, 2, 3}, Needs: []int{2}},
		{Function: "shop.clear", Effect: steps.Destroy, After: []int{4}},
	},
}}

func call(at, function string, after, took float64) history.Call {
	return history.Call{At: at, Function: function, Status: "ok", After: after, Millis: took, Tokens: 120, Wave: 1}
}

// past is a run of plan: elements of a forEach, a failure with retries, a wait for approval of an hour, a resume.
func past() *history.Timeline {
	failed := call("1[2]", "fs.cat", 30, 12)
	failed.Status, failed.Code, failed.Retries, failed.Wave = "failed", fault.Timeout, 2, 2
	write := call("4", "fs.write", 3_600_060, 40)
	write.Outcome, write.Wave = fault.Applied, 3
	cleared := call("5", "shop.clear", 3_600_100, 5)
	cleared.Outcome, cleared.Wave = fault.Undone, 4
	undo := call("5", "shop.fill", 3_600_110, 9)
	undo.Undoes, undo.Outcome, undo.Wave = true, fault.Applied, 5
	element := call("1[0]", "fs.cat", 12, 20)
	element.Wave = 2
	other := call("1[1]", "fs.cat", 12, 25)
	other.Wave = 2
	return &history.Timeline{List: []history.Call{
		call("0", "fs.find", 1, 8), call("3.0", "fs.cat", 1, 4), call("3.1", "text.match", 6, 2), element, other, failed,
		{Event: "waits", Calls: 1, After: 60}, {Event: "approved", By: "ada", Calls: 1, After: 3_600_000},
		{Event: history.Resumed, After: 3_600_050}, write, cleared, undo,
	}}
}

// TestPictures compares pictures with the files of testdata. Each is well-formed, and none needs what a content security policy forbids.
func TestPictures(t *testing.T) {
	t.Parallel()
	hostile := hostileGraph()
	days := &draw.Bars{Title: "Round trips saved", Unit: "trips", Values: []draw.Value{{Name: "2026-07-01", Amount: 12},
		{Name: "2026-07-02", Amount: 3400.5, Link: "/days/2026-07-02"}, {Name: "<b>", Amount: 0}}}
	linked := draw.OfRun("linked", plan, past(), nil)
	linked.Steps[1].Link = `/runs/x?step="1"&<`
	for name, picture := range map[string][]byte{
		"plan.svg":    draw.File(draw.OfPlan("release", plan).SVG()),
		"plan.mmd":    draw.OfPlan("release", plan).Mermaid(),
		"plan.dot":    draw.OfPlan("release", plan).DOT(),
		"run.svg":     draw.File(draw.OfRun("release: failed", plan, past(), nil).SVG()),
		"run.mmd":     draw.OfRun("release: failed", plan, past(), nil).Mermaid(),
		"run.dot":     draw.OfRun("release: failed", plan, past(), nil).DOT(),
		"waiting.svg": draw.OfRun("release: waiting", plan, &history.Timeline{List: past().List[:7]}, []string{"4"}).SVG(),
		"bytime.svg":  draw.OfRun("release: failed", nil, past(), nil).SVG(),
		"calls.svg":   draw.File(draw.CallsOf("release: failed", plan, past()).SVG()),
		"days.svg":    draw.File(days.SVG()),
		"hostile.svg": hostile.SVG(),
		"hostile.mmd": hostile.Mermaid(),
		"hostile.dot": hostile.DOT(),
		"linked.svg":  linked.SVG(),
		"empty.svg":   (&draw.Graph{}).SVG(),
		"idle.svg":    (&draw.Gantt{}).SVG(),
		"none.svg":    (&draw.Bars{}).SVG(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compare(t, name, picture)
			if strings.HasSuffix(name, ".svg") {
				checkPicture(t, picture)
			}
		})
	}
}

// hostileGraph has names that are markup, turn text around, end strings, or are long.
func hostileGraph() *draw.Graph {
	return &draw.Graph{Title: "</title><script>alert(1)</script>", Waves: [][]int{{0, 1}, {2}}, Steps: []draw.Step{
		{At: "0", ID: `"><img src=x onerror=alert(1)>`, Function: "a\u202eb\x00c\ud7ff\xff"},
		{At: "1", ID: "`x`\\\"; s9 [", Function: strings.Repeat("名", 1000), Status: draw.Failed, Code: "<&>"},
		{At: "2", Function: "end\"]\n  s0 --> s1\u2028", After: []int{0, 1}, Needs: []int{0}, Chain: []draw.Step{{At: "2.0", ID: "</text>"}}}}}
}

func compare(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if transcript.Updating() {
		if err := os.WriteFile(path, got, 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (go test -update writes it):\n%s", path, diff)
	}
}

// elements are those that a picture may have.
var elements = []string{"svg", "title", "desc", "style", "g", "a", "text", "rect", "path"}

// checkPicture checks that a picture is XML, and has neither scripts nor what a page's policy would refuse.
func checkPicture(t interface {
	Errorf(string, ...any)
	Fatalf(string, ...any)
}, picture []byte) {
	decoder := xml.NewDecoder(bytes.NewReader(picture))
	for first := true; ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("the picture is no XML: %v", err)
		}
		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		attributes := map[string]string{}
		for _, a := range element.Attr {
			attributes[a.Name.Local] = a.Value
			if name := a.Name.Local; name == "style" || name == "id" || strings.HasPrefix(name, "on") {
				t.Errorf("an element %s has the attribute %s", element.Name.Local, name)
			}
		}
		if name := element.Name.Local; !slices.Contains(elements, name) {
			t.Errorf("the picture has an element %s", name)
		}
		if first && (attributes["role"] != "img" && attributes["role"] != "group" || attributes["viewBox"] == "") {
			t.Errorf("the picture begins with %v", attributes)
		}
		first = false
	}
}

// TestBounds: a picture stays small, says what it folds, and folds what failed last.
func TestBounds(t *testing.T) {
	t.Parallel()
	const most = 200_000
	dense := &draw.Graph{Title: "dense"}
	for i := range 1000 {
		s := draw.Step{At: fmt.Sprint(i), Function: "a.read", Status: draw.OK}
		for j := range i {
			s.After, s.Needs = append(s.After, j), append(s.Needs, j)
		}
		dense.Steps, dense.Waves = append(dense.Steps, s), append(dense.Waves, []int{i})
	}
	wide := &draw.Graph{Title: "wide", Waves: [][]int{nil, {999}}}
	for i := range 999 {
		wide.Steps = append(wide.Steps, draw.Step{At: fmt.Sprint(i), Function: strings.Repeat("n", 500), Status: draw.OK})
		wide.Waves[0] = append(wide.Waves[0], i)
	}
	wide.Steps[700].Status = draw.Failed
	wide.Steps = append(wide.Steps, draw.Step{At: "999", After: wide.Waves[0], Status: draw.NotRun})
	long := &draw.Gantt{Title: "long"}
	for i := range 200 {
		row := draw.Row{At: fmt.Sprint(i), Function: "a.read", Elements: 100}
		for j := range 100 {
			row.Bars = append(row.Bars, draw.Bar{From: float64(i*1000 + j*10), To: float64(i*1000 + j*10 + 5), Status: draw.OK})
		}
		long.Rows, long.Marks = append(long.Rows, row), append(long.Marks, draw.Mark{At: float64(i), Text: "resumed"})
	}
	long.Rows[150].Bars[50].Status = draw.Failed
	events := &history.Timeline{}
	for i := range 20_000 {
		events.List = append(events.List, call(fmt.Sprintf("%d[%d]", i%2, i/2), "fs.cat", float64(i), 3))
	}
	many := &draw.Bars{Values: make([]draw.Value, 10_000)}
	for name, test := range map[string]struct {
		picture []byte
		want    []string
	}{
		"dense": {dense.SVG(), []string{"960 waves, 960 steps", "1,000 steps in 1,000 waves"}},
		"wide":  {wide.SVG(), []string{"✗ failed", " more steps", "700 "}},
		"long":  {long.SVG(), []string{"141 more rows", "99 ok", "1 failed, 99 ok", "188 more events"}},
		"run":   {draw.OfRun("run", plan, events, nil).SVG(), []string{"10,000 of 10,000", "1,200,000 tokens"}},
		"calls": {draw.CallsOf("run", plan, events).SVG(), []string{"10,000 elements: 10,000 ok", "20,000 calls in 2 rows"}},
		"many":  {many.SVG(), []string{"9,961 more"}},
	} {
		checkPicture(t, test.picture)
		if len(test.picture) > most {
			t.Errorf("%s: %d bytes, want at most %d", name, len(test.picture), most)
		}
		for _, want := range test.want {
			if !strings.Contains(string(test.picture), want) {
				t.Errorf("%s: no %q", name, want)
			}
		}
	}
}

// TestStylesheet: the colors of a page are variables that it may set, and those of a file are not.
func TestStylesheet(t *testing.T) {
	t.Parallel()
	sheet, file := draw.Stylesheet(), string(draw.File((&draw.Bars{}).SVG()))
	if !strings.Contains(sheet, "fill:var(--draw-ink)") || strings.Count(sheet, "--draw-ink:") != 2 {
		t.Errorf("the sheet has no variables for light and dark:\n%s", sheet)
	}
	if strings.Contains(file, "var(") || !strings.Contains(file, "prefers-color-scheme:dark") || strings.Contains(sheet+file, "$") {
		t.Errorf("the file has variables, or no dark form:\n%s", file)
	}
}
