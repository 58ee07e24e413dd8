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
	values, top, w := b.Values, 0.0, &svg{}
	if n := len(values) - maxValues + 1; n > 1 {
		rest := Value{Name: "… " + figure.Text(float64(n)) + " more"}
		for _, v := range values[maxValues-1:] {
			rest.Amount += v.Amount
		}
		values = append(slices.Clone(values[:maxValues-1]), rest)
	}
	for _, v := range values {
		top = max(top, v.Amount)
	}
	for i, v := range values {
		y, width := margin+float64(i)*rowHeight, max(v.Amount, 0)/max(top, 1e-9)*timeWidth
		amount := words(" ", figure.Text(v.Amount), clip(b.Unit, 12))
		end := w.group(v.Link, clip(v.Name, maxText)+": "+amount)
		w.text("f", margin, y+16, clip(v.Name, 33))
		w.rect("s-running", margin+nameWidth, y+4, width, rowHeight-8)
		w.text("m", margin+nameWidth+width+6, y+16, amount)
		end()
	}
	return w.finish(chartWidth, float64(len(values))*rowHeight+2*margin, cmp.Or(b.Title, "Amounts"), count(len(b.Values), "value"))
}
