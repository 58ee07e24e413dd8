package draw

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
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

// put writes a format whose verbs are all %v. Texts are escaped, and numbers are coordinates.
func (w *svg) put(format string, values ...any) {
	for i, value := range values {
		switch v := value.(type) {
		case string:
			var b bytes.Buffer
			_ = xml.EscapeText(&b, []byte(textfile.Printable(v))) // a buffer does not fail
			values[i] = b.String()
		case float64:
			values[i] = strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
		}
	}
	fmt.Fprintf(w, format, values...)
}

// finish puts the element around what was written. Readers that do not see the picture get the title and the description. An element with
// links is a group, since an image has no parts that could be reached.
func (w *svg) finish(width, height float64, title, description string) []byte {
	role, all := "img", &svg{}
	if bytes.Contains(w.Bytes(), []byte("<a href=")) {
		role = "group"
	}
	all.put(`<svg xmlns="http://www.w3.org/2000/svg" class="draw" role="%v" width="%v" height="%v" viewBox="0 0 %v %v">`, role, width, height,
		width, height)
	all.put("<title>%v</title><desc>%v</desc>\n", title, description)
	return slices.Concat(all.Bytes(), w.Bytes(), []byte("</svg>\n"))
}

// group opens a group with a tip, which is a link if there is an address, and returns what closes it.
func (w *svg) group(link, tip string) (end func()) {
	if link == "" {
		w.put("<g><title>%v</title>\n", tip)
		return func() { w.put("</g>\n") }
	}
	w.put(`<a href="%v"><title>%v</title>`+"\n", link, tip)
	return func() { w.put("</a>\n") }
}

func (w *svg) text(class string, x, y float64, text string) {
	w.put(`<text class="%v" x="%v" y="%v">%v</text>`+"\n", class, x, y, text)
}

func (w *svg) rect(class string, x, y, width, height float64) {
	w.put(`<rect class="%v" x="%v" y="%v" width="%v" height="%v"/>`+"\n", class, x, y, width, height)
}

func (w *svg) path(class, d string) {
	if d != "" {
		w.put(`<path class="%v" d="%v"/>`+"\n", class, d)
	}
}

// clip shortens a text to a number of columns, which wide characters take two of.
func clip(text string, columns int) string {
	text = fault.ClipRunes(textfile.Printable(text), maxText)
	end, used := 0, 1 // the mark of what is cut takes a column
	for clusters := uniseg.NewGraphemes(text); clusters.Next() && used+clusters.Width() <= columns; used += clusters.Width() {
		_, end = clusters.Positions()
	}
	if uniseg.StringWidth(text) <= columns {
		return text
	}
	return strings.TrimRight(text[:end], " ") + "…"
}

// count spells a number of things.
func count(n int, one string) string {
	if n != 1 {
		one += "s"
	}
	return figure.Text(float64(n)) + " " + one
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

// times says that something was done again.
func times(what string, n int) string { return when(n > 0, what+" "+figure.Text(float64(n))+"×") }

// when returns the text if it applies, else "".
func when(applies bool, text string) string {
	if applies {
		return text
	}
	return ""
}

// words joins the texts that are not empty.
func words(separator string, list ...string) string {
	return strings.Join(slices.DeleteFunc(list, func(text string) bool { return text == "" }), separator)
}

// pick returns which of n things are shown if no more than limit may be: those that are urgent, then the first ones.
func pick(n, limit int, urgent func(i int) bool) []bool {
	shown := make([]bool, n)
	for _, want := range []bool{true, false} {
		for i := range shown {
			if limit > 0 && urgent(i) == want {
				shown[i] = true
				limit--
			}
		}
	}
	return shown
}
