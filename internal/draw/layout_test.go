package draw

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestLayout: whatever the plan, each step is in one node, no node stands on another, references lead forward, and the picture is no
// larger than its steps, up to a bound.
func TestLayout(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawnGraph(t)
		l := newLayout(g)
		folded := 0
		for _, column := range l.columns {
			bottom := -1.0
			for _, n := range column {
				if n.y < bottom || n.y < margin-0.001 {
					t.Fatalf("a node at %v stands on the one that ends at %v", n.y, bottom)
				}
				bottom = n.y + n.h
				for next := range n.reads {
					if next.column != n.column+1 {
						t.Fatalf("an edge from column %d to %d", n.column, next.column)
					}
				}
				folded += len(n.steps)
			}
		}
		if folded != len(g.Steps) || slices.Contains(l.of, nil) {
			t.Fatalf("%d of %d steps have a node", folded, len(g.Steps))
		}
		picture := g.SVG()
		checkXML(t, picture)
		if most := 3000 + 1500*min(len(g.Steps), 3*maxNodes); len(picture) > most {
			t.Fatalf("%d bytes for %d steps, want at most %d", len(picture), len(g.Steps), most)
		}
		if again := g.SVG(); string(again) != string(picture) {
			t.Fatal("the same graph gives another picture")
		}
		if lines := strings.Count(string(g.Mermaid()), "\n"); lines < len(g.Steps) {
			t.Fatalf("%d lines of Mermaid for %d steps", lines, len(g.Steps))
		}
	})
}

// TestEdges: what is drawn says which steps come after which, and without a reference nothing that other edges say.
func TestEdges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawnGraph(t)
		after := make([]map[int]bool, len(g.Steps)) // by step: all that it follows, over any number of others
		for i := range g.Steps {
			after[i] = map[int]bool{}
			for _, j := range g.Steps[i].After {
				after[i][j] = true
				maps.Copy(after[i], after[j])
			}
		}
		drawn := make([]map[int]bool, len(g.Steps))
		for e := range g.edges() {
			if drawn[e.to] == nil {
				drawn[e.to] = map[int]bool{}
			}
			drawn[e.to][e.from] = true
			if reads := slices.Contains(g.Steps[e.to].Needs, e.from); reads != e.reads {
				t.Fatalf("%d reads the result of %d: %v, want %v", e.to, e.from, e.reads, reads)
			}
		}
		for to := range g.Steps {
			for _, from := range g.Steps[to].After {
				said := slices.ContainsFunc(g.Steps[to].After, func(other int) bool { return after[other][from] })
				if want := !said || slices.Contains(g.Steps[to].Needs, from); drawn[to][from] != want {
					t.Fatalf("an edge from %d to %d, which waits for %v: %v, want %v", from, to, g.Steps[to].After, drawn[to][from], want)
				}
			}
		}
	})
}

// drawnGraph draws a graph whose steps wait for some earlier ones, and read some of these.
func drawnGraph(t *rapid.T) *Graph {
	g := &Graph{Title: rapid.String().Draw(t, "title")}
	level := []int{}
	for i := range rapid.IntRange(0, 300).Draw(t, "steps") {
		s := Step{At: "1", ID: rapid.String().Draw(t, "id"), Function: rapid.StringN(0, 20, -1).Draw(t, "fn"),
			Status: rapid.SampledFrom(append(slices.Clone(statuses), "")).Draw(t, "status")}
		wave := 0
		for range min(i, rapid.IntRange(0, 3).Draw(t, "edges")) {
			j := rapid.IntRange(max(0, i-20), i-1).Draw(t, "after")
			if slices.Contains(s.After, j) {
				continue
			}
			s.After, wave = append(s.After, j), max(wave, level[j]+1)
			if rapid.Bool().Draw(t, "needs") {
				s.Needs = append(s.Needs, j)
			}
		}
		if wave == len(g.Waves) {
			g.Waves = append(g.Waves, nil)
		}
		g.Steps, level, g.Waves[wave] = append(g.Steps, s), append(level, wave), append(g.Waves[wave], i)
	}
	return g
}

// TestScale: places follow times, whatever is folded, and stay in the chart.
func TestScale(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := &Gantt{}
		for range rapid.IntRange(0, 30).Draw(t, "bars") {
			from := rapid.Float64Range(0, 1e9).Draw(t, "from")
			g.Rows = append(g.Rows, Row{Bars: []Bar{{From: from, To: from + rapid.Float64Range(0, 1e6).Draw(t, "took")}}})
		}
		g.Rows = append(g.Rows, Row{Function: "calls nothing"})
		s, last := newScale(g), 0.0
		for _, tick := range s.ticks() {
			x := s.x(tick.at)
			if x < last || x > margin+nameWidth+timeWidth+0.1 {
				t.Fatalf("%v ms are at %v, after %v", tick.at, x, last)
			}
			last = x
		}
		if n := len(s.ticks()); n < 1 || n > 8+2*maxFolds+2 {
			t.Fatalf("%d ticks", n)
		}
		checkXML(t, g.SVG())
	})
}

var (
	label = regexp.MustCompile(`<text class="m( c)?" x="([0-9.]+)" y="([0-9.]+)">([^<]*)<`)
	line  = regexp.MustCompile(`<path class="o" d="M([0-9.]+) ([0-9.]+)V`)
)

// TestLabels: however close times that are folded and events are, no label of them stands on another one, or on the line of an event.
func TestLabels(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g, at := &Gantt{Rows: []Row{{Function: "f.get"}}}, 0.0
		for range rapid.IntRange(1, 12).Draw(t, "calls") {
			took := rapid.Float64Range(1, 50).Draw(t, "took")
			g.Rows[0].Bars = append(g.Rows[0].Bars, Bar{From: at, To: at + took})
			at += took + rapid.SampledFrom([]float64{0, 9, 1000, 3_600_000}).Draw(t, "pause")
			g.Marks = append(g.Marks, Mark{At: at + rapid.Float64Range(0, 20).Draw(t, "later"), Text: "resumed"})
		}
		picture, byHeight := string(g.SVG()), map[string][]span{}
		number := func(text string) float64 {
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		for _, m := range label.FindAllStringSubmatch(picture, -1) {
			s := span{from: number(m[2]), to: number(m[2])}
			width := 6.6 * float64(utf8.RuneCountInString(m[4]))
			if s.to += width; m[1] != "" { // it is centered
				s = span{s.from - width/2, s.to - width/2}
			}
			for _, other := range byHeight[m[3]] {
				if s.from < other.to && other.from < s.to {
					t.Fatalf("%q at %v stands on what is at %v", m[4], s, other)
				}
			}
			byHeight[m[3]] = append(byHeight[m[3]], s)
		}
		for _, m := range line.FindAllStringSubmatch(picture, -1) {
			for _, s := range byHeight["30"] {
				if x := number(m[1]); number(m[2]) < 30 && s.from < x && x < s.to {
					t.Fatalf("the line of an event at %v crosses the label at %v", x, s)
				}
			}
		}
	})
}

func TestClip(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text    string
		columns int
		want    string
	}{
		{"short", 5, "short"}, {"shorter", 5, "shor…"}, {"名名名名", 5, "名名…"}, {"a b  c", 5, "a b…"}, {"", 5, ""},
	} {
		if got := clip(test.text, test.columns); got != test.want {
			t.Errorf("clip(%q, %d) is %q, want %q", test.text, test.columns, got, test.want)
		}
	}
}
