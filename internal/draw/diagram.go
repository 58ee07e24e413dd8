package draw

import (
	"fmt"
	"slices"
	"strings"
)

// Mermaid returns the graph as a flowchart of Mermaid, whole.
func (g *Graph) Mermaid() []byte {
	// What Mermaid, or a page that shows its labels as HTML, would not take for text.
	escape := strings.NewReplacer("#", "#35;", `"`, "#quot;", "&", "#amp;", "<", "#lt;", ">", "#gt;", "`", "#96;", `\`, "#92;").Replace
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	for i := range g.Steps {
		s := &g.Steps[i]
		fmt.Fprintf(&b, "  s%d[\"%s\"]:::%s\n", i, s.label("<br>", escape), s.Status.class())
	}
	for e := range g.edges() {
		arrow := "-.->"
		if e.reads {
			arrow = "-->"
		}
		fmt.Fprintf(&b, "  s%d %s s%d\n", e.from, arrow, e.to)
	}
	for _, status := range statuses {
		if color, shown := colors[string(status)]; shown && slices.ContainsFunc(g.Steps, func(s Step) bool { return s.Status == status }) {
			fmt.Fprintf(&b, "  classDef %s stroke:%s,stroke-width:2px\n", status.class(), color[0])
		}
	}
	return []byte(b.String())
}

// DOT returns the graph in the language of Graphviz, whole. Steps of one wave have the same rank.
func (g *Graph) DOT() []byte {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace
	var b strings.Builder
	fmt.Fprintf(&b, "digraph {\n  rankdir=LR; label=\"%s\"; node [shape=box, fontname=monospace]\n", escape(clip(g.Title, maxText)))
	for _, wave := range g.Waves {
		b.WriteString("  {rank=same")
		for _, i := range wave {
			s := &g.Steps[i]
			fmt.Fprintf(&b, "; s%d [label=\"%s\"", i, s.label(`\n`, escape))
			if color, shown := colors[string(s.Status)]; shown {
				fmt.Fprintf(&b, ", color=\"%s\"", color[0])
			}
			b.WriteByte(']')
		}
		b.WriteString("}\n")
	}
	for e := range g.edges() {
		style := " [style=dotted]"
		if e.reads {
			style = ""
		}
		fmt.Fprintf(&b, "  s%d -> s%d%s\n", e.from, e.to, style)
	}
	b.WriteString("}\n")
	return []byte(b.String())
}

// label returns the lines of a step's node, each escaped.
func (s *Step) label(separator string, escape func(string) string) string {
	var lines []string
	for _, text := range append([]string{words(" ", s.At, s.ID), s.function()}, s.details()...) {
		lines = append(lines, escape(clip(text, maxText)))
	}
	return words(separator, lines...)
}
