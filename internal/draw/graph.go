package draw

import (
	"cmp"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/internal/figure"
)

// SVG draws the graph: a column for each wave, references as lines, and order without a reference as dotted ones.
func (g *Graph) SVG() []byte {
	l, w := newLayout(g), &svg{}
	width, height := l.size()
	w.begin(width, height, slices.ContainsFunc(g.Steps, func(s Step) bool { return s.Link != "" }), cmp.Or(g.Title, "A chain"), g.summary())
	w.edges(l)
	for n := range l.nodes() {
		switch {
		case n.folded:
			w.foldedNode(g, n)
		case len(n.steps) > 0:
			w.node(&g.Steps[n.steps[0]], n)
		}
	}
	w.end("svg")
	return w.Bytes()
}

// summary says in words what the graph shows.
func (g *Graph) summary() string {
	counts := tally{}
	var urgent []string
	for i := range g.Steps {
		s := &g.Steps[i]
		counts[s.Status]++
		if s.Status.isUrgent() && len(urgent) < maxLines {
			urgent = append(urgent, words(" ", s.At, s.ID, s.function(), string(s.Status), s.Code))
		}
	}
	all := words(": ", count(len(g.Steps), "step")+" in "+count(len(g.Waves), "wave"), counts.String())
	return words(". ", all, words("; ", urgent...))
}

func (s *Step) function() string { return cmp.Or(s.Function, "chain") }

// plan returns what a plan says about the step.
func (s *Step) plan() string {
	approve, each := "", ""
	if s.Approve {
		approve = "needs approval"
	}
	if s.ForEach || s.Elements > 0 {
		each = "for each"
	}
	return words(" · ", s.Effect, each, approve)
}

// run returns what a run says about the step: what became of it, and what it took.
func (s *Step) run() (became, took string) {
	if s.Status == "" {
		return "", ""
	}
	became = signs[s.Status] + " " + string(s.Status)
	if s.Code != "" {
		became += " (" + s.Code + ")"
	}
	if s.Outcome != string(s.Status) {
		became = words(" · ", became, s.Outcome)
	}
	if s.Elements > 0 {
		became += " · " + figure.Text(float64(s.Done)) + " of " + figure.Text(float64(s.Elements))
	}
	if s.Calls > 0 {
		took = figure.Millis(s.Millis) + " · " + count(s.Tokens, "token")
	}
	if s.Retries > 0 {
		took += " · " + retried(s.Retries)
	}
	return became, took
}

func retried(n int) string {
	if n == 1 {
		return "1 retry"
	}
	return figure.Text(float64(n)) + " retries"
}

// details returns the lines of a node below its names.
func (s *Step) details() []string {
	became, took := s.run()
	return slices.DeleteFunc(append(s.lines(), s.plan(), became, took), func(line string) bool { return line == "" })
}

// lines returns the lines of a node: the steps of an inline chain.
func (s *Step) lines() (lines []string) {
	for i := range s.Chain {
		if i == maxLines-1 && len(s.Chain) > maxLines {
			return append(lines, "… "+count(len(s.Chain)-i, "more step"))
		}
		inner := &s.Chain[i]
		lines = append(lines, words(" ", cmp.Or(signs[inner.Status], "·"), inner.At, cmp.Or(inner.ID, inner.function())))
	}
	return lines
}

// The measures of a node: the columns of its texts, and the height of its lines.
const (
	nameColumns   = 30
	detailColumns = 33
	lineHeight    = 15.0
)

func nodeHeight(g *Graph, n *node) float64 {
	if n.folded {
		return 3*lineHeight + 6
	}
	return float64(2+len(g.Steps[n.steps[0]].details()))*lineHeight + 12
}

func (w *svg) node(s *Step, n *node) {
	x, y := n.x(), n.y
	end := w.link(s.Link)
	w.tag("g")
	w.element("title", s.tip())
	w.rect("n", x, y, nodeWidth, n.h)
	w.rect(s.Status.class(), x, y, 5, n.h)
	for i, text := range append([]string{words(" ", s.At, s.ID), s.function()}, s.details()...) {
		y += lineHeight
		w.text([]string{"b", "f", "m"}[min(i, 2)], x+14, y+2, clip(text, []int{nameColumns, nameColumns, detailColumns}[min(i, 2)]))
	}
	w.end("g")
	end()
}

// tip returns what the node says to those who point at it, or do not see it.
func (s *Step) tip() string {
	after := ""
	if len(s.After) > 0 {
		after = "after " + count(len(s.After), "step")
	}
	became, took := s.run()
	name := words(" ", clip(words(" ", s.At, s.ID), maxText), clip(s.function(), maxText))
	return words(" · ", name, s.plan(), became, took, after)
}

// foldedNode draws what several steps became.
func (w *svg) foldedNode(g *Graph, n *node) {
	counts := tally{}
	for _, i := range n.steps {
		counts[g.Steps[i].Status]++
	}
	text, x, y := count(len(n.steps), "more step"), n.x(), n.y
	if n.waves > 0 {
		text = count(n.waves, "wave") + ", " + count(len(n.steps), "step")
	}
	w.tag("g")
	w.element("title", words(": ", text, counts.String()))
	w.rect("n", x, y, nodeWidth, n.h)
	w.text("b", x+14, y+lineHeight+2, "… "+clip(text, nameColumns))
	w.text("m", x+14, y+2*lineHeight+2, clip(counts.String(), detailColumns))
	w.end("g")
}

// edges draws all lines as two paths, and their heads as a third one.
func (w *svg) edges(l *layout) {
	var solid, dotted, heads strings.Builder
	for n := range l.nodes() {
		for _, next := range n.after {
			b := &dotted
			if n.solid[next] {
				b = &solid
			}
			from, to := n.x()+nodeWidth, next.x()
			if len(n.steps) == 0 { // the way through the column
				b.WriteString("M" + number(n.x()) + " " + number(n.middle()) + "H" + number(from))
			} else {
				b.WriteString("M" + number(from) + " " + number(n.middle()))
			}
			half := number((from + to) / 2)
			b.WriteString("C" + half + " " + number(n.middle()) + " " + half + " " + number(next.middle()) + " " + number(to) + " " +
				number(next.middle()))
			if len(next.steps) > 0 {
				heads.WriteString("M" + number(to) + " " + number(next.middle()) + "l-7 -4v8z")
			}
		}
	}
	w.path("e", solid.String())
	w.path("o", dotted.String())
	w.path("a", heads.String())
}
