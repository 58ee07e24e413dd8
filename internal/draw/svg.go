package draw

import (
	"bytes"
	"encoding/xml"
	"math"
	"strconv"
	"strings"

	"github.com/rivo/uniseg"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/figure"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// maxText is how many characters of a text are shown where there is room, as in tips.
const maxText = 200

// svg writes one SVG element.
type svg struct{ bytes.Buffer }

// begin opens the element. Readers that do not see the picture get the title and the description. An element with links is a group, since
// an image has no parts that could be reached.
func (w *svg) begin(width, height float64, links bool, title, description string) {
	role := "img"
	if links {
		role = "group"
	}
	w.tag("svg", "xmlns", "http://www.w3.org/2000/svg", "class", "draw", "role", role, "width", number(width), "height", number(height),
		"viewBox", "0 0 "+number(width)+" "+number(height))
	w.element("title", title)
	w.element("desc", description)
}

// tag opens an element with pairs of names and values. A value "" leaves its attribute out.
func (w *svg) tag(name string, pairs ...string) {
	w.WriteString("<" + name)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			w.WriteString(" " + pairs[i] + `="`)
			w.escaped(pairs[i+1])
			w.WriteByte('"')
		}
	}
	w.WriteByte('>')
}

// end closes elements, the innermost first.
func (w *svg) end(names ...string) {
	for _, name := range names {
		w.WriteString("</" + name + ">")
	}
	w.WriteByte('\n')
}

// element writes an element that holds a text.
func (w *svg) element(name, text string, pairs ...string) {
	w.tag(name, pairs...)
	w.escaped(text)
	w.end(name)
}

func (w *svg) text(class string, x, y float64, text string) {
	w.element("text", text, "class", class, "x", number(x), "y", number(y))
}

func (w *svg) rect(class string, x, y, width, height float64) {
	w.tag("rect", "class", class, "x", number(x), "y", number(y), "width", number(width), "height", number(height))
	w.end("rect")
}

func (w *svg) path(class, d string) {
	if d != "" {
		w.tag("path", "class", class, "d", d)
		w.end("path")
	}
}

// link opens a link if there is an address, and returns what ends it.
func (w *svg) link(address string) (end func()) {
	if address == "" {
		return func() {}
	}
	w.tag("a", "href", address)
	return func() { w.end("a") }
}

// escaped writes a text whose characters are all visible.
func (w *svg) escaped(text string) {
	_ = xml.EscapeText(&w.Buffer, []byte(textfile.Printable(text))) // a buffer does not fail
}

// number spells a coordinate.
func number(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// clip shortens a text to a number of columns, which wide characters take two of.
func clip(text string, columns int) string {
	text = fault.ClipRunes(textfile.Printable(text), maxText)
	if uniseg.StringWidth(text) <= columns {
		return text
	}
	var b strings.Builder
	for rest, state, used := text, -1, 1; rest != ""; {
		var cluster string
		var width int
		cluster, rest, width, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if used += width; used > columns {
			break
		}
		b.WriteString(cluster)
	}
	return strings.TrimRight(b.String(), " ") + "…"
}

// count spells a number of things.
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return figure.Text(float64(n)) + " " + what
}

// tally counts steps or calls by status.
type tally map[Status]int

// String lists the counts: 3 failed, 97 ok. "": no status is known.
func (t tally) String() string {
	var list []string
	for _, s := range statuses {
		if t[s] > 0 {
			list = append(list, figure.Text(float64(t[s]))+" "+string(s))
		}
	}
	return strings.Join(list, ", ")
}

// words joins the texts that are not empty.
func words(separator string, list ...string) string {
	var b strings.Builder
	for _, text := range list {
		if text != "" && b.Len() > 0 {
			b.WriteString(separator)
		}
		b.WriteString(text)
	}
	return b.String()
}

// pick returns which of n things are shown if no more than limit may be: those that are urgent, then the first ones.
func pick(n, limit int, urgent func(i int) bool) []bool {
	shown := make([]bool, n)
	left := limit
	for _, want := range []bool{true, false} {
		for i := 0; i < n && left > 0; i++ {
			if urgent(i) == want {
				shown[i] = true
				left--
			}
		}
	}
	return shown
}
