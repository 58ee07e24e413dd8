package draw

import (
	"cmp"
	"slices"

	"github.com/onecall-mcp/onecall/internal/figure"
)

// maxValues is how many values Bars shows. Those after them are one bar, with their sum.
const maxValues = 40

// SVG draws the values as bars, one below the other, each with its name and its amount.
func (b *Bars) SVG() []byte {
	values := b.Values
	if len(values) > maxValues {
		rest := Value{Name: "… " + figure.Text(float64(len(values)-maxValues+1)) + " more"}
		for _, v := range values[maxValues-1:] {
			rest.Amount += v.Amount
		}
		values = append(slices.Clone(values[:maxValues-1]), rest)
	}
	top, w := 0.0, &svg{}
	for _, v := range values {
		top = max(top, v.Amount)
	}
	w.begin(margin+nameWidth+timeWidth+notesWidth, float64(len(values))*rowHeight+2*margin,
		slices.ContainsFunc(values, func(v Value) bool { return v.Link != "" }), cmp.Or(b.Title, "Amounts"), count(len(b.Values), "value"))
	for i, v := range values {
		y, width := margin+float64(i)*rowHeight, 0.0
		if top > 0 {
			width = max(v.Amount/top*timeWidth, 0)
		}
		amount := words(" ", figure.Text(v.Amount), clip(b.Unit, 12))
		end := w.link(v.Link)
		w.tag("g")
		w.element("title", clip(v.Name, maxText)+": "+amount)
		w.text("f", margin, y+16, clip(v.Name, 33))
		w.rect("s-running", margin+nameWidth, y+4, width, rowHeight-8)
		w.text("m", margin+nameWidth+width+6, y+16, amount)
		w.end("g")
		end()
	}
	w.end("svg")
	return w.Bytes()
}
