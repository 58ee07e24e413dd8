package draw

import (
	"cmp"
	"slices"

	"github.com/onecall-mcp/onecall/internal/figure"
)

// SVG draws the graph: a column for each wave, references as lines, and order without a reference as dotted ones.
func (g *Graph) SVG() []byte {
	l, w := newLayout(g), &svg{}
	w.edges(l)
	for n := range l.nodes() {
		switch {
		case n.folded:
			w.fold(g, n)
		case len(n.steps) > 0:
			w.step(&g.Steps[n.steps[0]], n)
		}
	}
	width, height := l.size()
	return w.finish(width, height, cmp.Or(g.Title, "A chain"), g.summary())
}

// summary says in words what the graph shows.
func (g *Graph) summary() string {
	counts, urgent := tally{}, []string{}
	for i := range g.Steps {
		s := &g.Steps[i]
		if counts[s.Status]++; s.Status.isUrgent() && len(urgent) < maxLines {
			urgent = append(urgent, words(" ", s.name(), s.function(), string(s.Status), s.Code))
		}
	}
	all := count(len(g.Steps), "step") + " in " + count(len(g.Waves), "wave")
	return words(". ", words(": ", all, counts.String()), words("; ", urgent...))
}

func (s *Step) name() string     { return clip(words(" ", s.At, s.ID), maxText) }
func (s *Step) function() string { return clip(cmp.Or(s.Function, "chain"), maxText) }

// details returns the lines of a node below its names: the steps of an inline chain, what a plan says about the step, and what a run does.
func (s *Step) details() (lines []string) {
	for i := range s.Chain {
		if i == maxLines-1 && len(s.Chain) > maxLines {
			lines = append(lines, "… "+count(len(s.Chain)-i, "more step"))
			break
		}
		inner := &s.Chain[i]
		lines = append(lines, words(" ", cmp.Or(signs[inner.Status], "·"), inner.At, cmp.Or(inner.ID, inner.function())))
	}
	return append(lines, s.facts()...)
}

func (s *Step) facts() []string {
	became := words(" ", signs[s.Status], string(s.Status), when(s.Code != "", "("+s.Code+")"))
	done := figure.Text(float64(s.Done)) + " of " + figure.Text(float64(s.Elements))
	lines := append(slices.Clone(s.Flows),
		words(" · ", s.Effect, when(s.ForEach || s.Elements > 0, "for each"), when(s.Approve, "needs approval")),
		words(" · ", became, when(s.Outcome != string(s.Status), s.Outcome), when(s.Elements > 0, done)),
		words(" · ", when(s.Calls > 0, figure.Millis(s.Millis)+" · "+count(s.Tokens, "token")), times("retried", s.Retries)),
	)
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" })
}

const lineHeight = 15.0

func (n *node) height(g *Graph) float64 {
	if n.folded {
		return 2*lineHeight + 12
	}
	return float64(2+len(g.Steps[n.steps[0]].details()))*lineHeight + 12
}

// step draws the node of a step.
func (w *svg) step(s *Step, n *node) {
	after := when(len(s.After) > 0, "after "+count(len(s.After), "step"))
	end := w.group(s.Link, words(" · ", words(" ", s.name(), s.function()), words(" · ", s.facts()...), after))
	w.rect("n", n.x(), n.y, nodeWidth, n.h)
	w.rect(s.Status.class(), n.x(), n.y, 5, n.h)
	w.lines(n, append([]string{s.name(), s.function()}, s.details()...)...)
	end()
}

// fold draws a node that stands for several steps.
func (w *svg) fold(g *Graph, n *node) {
	counts := tally{}
	for _, i := range n.steps {
		counts[g.Steps[i].Status]++
	}
	text := "… " + count(len(n.steps), "more step")
	if n.waves > 0 {
		text = "… " + count(n.waves, "wave") + ", " + count(len(n.steps), "step")
	}
	end := w.group("", words(": ", text, counts.String()))
	w.rect("n", n.x(), n.y, nodeWidth, n.h)
	w.lines(n, text, counts.String())
	end()
}

// lines writes the name of a node, its function, and its details, as far as its width has room for them.
func (w *svg) lines(n *node, texts ...string) {
	for i, text := range texts {
		class, columns := "m", 33
		if i < 2 {
			class, columns = []string{"b", "f"}[i], 30
		}
		w.text(class, n.x()+14, n.y+float64(i+1)*lineHeight+2, clip(text, columns))
	}
}

// edges draws all lines as two paths, and their heads as a third one.
func (w *svg) edges(l *layout) {
	var reads, waits, heads svg
	for n := range l.nodes() {
		for _, next := range n.after {
			path, from, to := &waits, n.x()+nodeWidth, next.x()
			if n.reads[next] {
				path = &reads
			}
			start := from
			if len(n.steps) == 0 { // the way through the column
				start = n.x()
			}
			path.put("M%v %vH%vC%v %v %v %v %v %v", start, n.middle(), from, (from+to)/2, n.middle(), (from+to)/2, next.middle(), to, next.middle())
			if len(next.steps) > 0 {
				heads.put("M%v %vl-7 -4v8z", to, next.middle())
			}
		}
	}
	w.path("e", reads.String())
	w.path("o", waits.String())
	w.path("a", heads.String())
}
