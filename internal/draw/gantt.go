package draw

import (
	"cmp"
	"slices"

	"github.com/onecall-mcp/onecall/internal/figure"
)

// The bounds and measures of a chart.
const (
	maxRows  = 60
	maxBars  = 1200 // of all rows: those of a row that are close to one another are one
	maxMarks = 12
	maxFolds = 8 // times that are folded

	nameWidth   = 260.0
	timeWidth   = 620.0
	notesWidth  = 170.0
	chartWidth  = margin + nameWidth + timeWidth + notesWidth
	foldWidth   = 24.0
	labelWidth  = 66.0 // of a time
	columnWidth = 6.7  // of a character
	rowHeight   = 24.0
	chartTop    = 46.0
)

// SVG draws the chart: a row for each step, with a bar for each call.
func (g *Gantt) SVG() []byte {
	rows, bars, all := g.fold(), 0, tally{}
	for i := range g.Rows {
		bars += len(g.Rows[i].Bars)
		all.add(g.Rows[i].Bars)
	}
	s, w, bottom := newScale(g), &svg{}, chartTop+float64(len(rows))*rowHeight
	w.marks(s, g.Marks, w.axis(s, bottom), bottom)
	for i := range rows {
		w.row(s, &rows[i], chartTop+float64(i)*rowHeight, max(maxBars/len(rows), 8))
	}
	return w.finish(chartWidth, bottom+margin, cmp.Or(g.Title, "A run over time"),
		words(": ", count(bars, "call")+" in "+count(len(g.Rows), "row"), all.String()))
}

// fold returns the rows that are shown. The last one stands for the others if there are too many.
func (g *Gantt) fold() (rows []Row) {
	if len(g.Rows) <= maxRows {
		return g.Rows
	}
	shown := pick(len(g.Rows), maxRows-1, func(i int) bool {
		return slices.ContainsFunc(g.Rows[i].Bars, func(b Bar) bool { return b.Status.isUrgent() })
	})
	rest := Row{Function: "… " + count(len(g.Rows)-maxRows+1, "more row")}
	for i := range g.Rows {
		if shown[i] {
			rows = append(rows, g.Rows[i])
		} else {
			rest.Bars = append(rest.Bars, g.Rows[i].Bars...)
		}
	}
	return append(rows, rest)
}

func (t tally) add(bars []Bar) {
	for _, bar := range bars {
		t[bar.Status]++
	}
}

// row draws a row of at most limit bars: its name, a band if it has several calls, its bars, and what became of them.
func (w *svg) row(s *scale, r *Row, y float64, limit int) {
	counts, retries, spans := tally{}, 0, map[Status][]span{}
	var all []span
	for _, bar := range r.Bars {
		retries, all = retries+bar.Retries, append(all, span{bar.From, bar.To})
		spans[bar.Status] = append(spans[bar.Status], span{s.x(bar.From), max(s.x(bar.To), s.x(bar.From)+2)})
	}
	counts.add(r.Bars)
	elements, again, became := when(r.Elements > 0, count(r.Elements, "element")), times("↻ retried", retries), counts.String()
	tip := words(", ", words(": ", elements, became), again)
	if len(r.Bars) == 1 {
		became = signs[r.Bars[0].Status]
	}
	notes := words(", ", words(": ", elements, became), again)
	whole := span{}
	for _, whole = range joined(all, 1) { // of no calls, nothing
	}
	from, to := s.x(whole.from), max(s.x(whole.to), s.x(whole.from)+2)
	end := w.group(r.Link, words(" · ", clip(words(" ", r.At, r.ID, r.Function), maxText), tip,
		"from "+figure.Millis(whole.from), figure.Millis(whole.to-whole.from)))
	w.text("f", margin, y+16, clip(words(" ", r.At, cmp.Or(r.ID, r.Function, "chain")), 33))
	if len(r.Bars) > 1 {
		w.rect("g", from, y+3, to-from, rowHeight-6)
	}
	for _, status := range slices.Backward(append(slices.Clone(statuses), "")) { // those that are looked for first are on top
		for _, b := range joined(spans[status], max(limit/max(len(counts), 1), 4)) {
			w.rect(status.class(), b.from, y+6, b.to-b.from, rowHeight-12)
		}
	}
	w.text("m", to+6, y+16, clip(notes, int((chartWidth-to)/columnWidth)))
	end()
}

// axis draws the times, and where time is folded. It returns where the labels of times are.
func (w *svg) axis(s *scale, bottom float64) (labels []span) {
	free := 0.0 // where the next label may begin
	for _, tick := range s.ticks() {
		if x := s.x(tick.at); x >= free {
			w.put(`<path class="l" d="M%v %vV%v"/>`+"\n", x, chartTop-12, bottom)
			w.text("m", x+3, chartTop-16, tick.label)
			free = x + labelWidth
			labels = append(labels, span{x + 3, free})
		}
	}
	free = 0
	for _, f := range s.folds {
		x, idle := s.x(f.from), figure.Millis(f.to-f.from)
		end := w.group("", "nothing was under way for "+idle)
		w.rect("g", x+2, chartTop-12, foldWidth-4, bottom-chartTop+12)
		if half := columnWidth * float64(len(idle)+2) / 2; x+foldWidth/2-half >= free { // else only the tip says it
			w.text("m c", x+foldWidth/2, bottom+9, "⋯ "+idle)
			free = x + foldWidth/2 + half + columnWidth
		}
		end()
	}
	return labels
}

// marks draws the events. Their lines do not cross the labels of times.
func (w *svg) marks(s *scale, marks []Mark, labels []span, bottom float64) {
	free := 0.0
	for _, mark := range marks[:min(len(marks), maxMarks)] {
		x, text := s.x(mark.At), clip(mark.Text, 24)
		end := w.group("", clip(mark.Text, maxText)+" at "+figure.Millis(mark.At))
		top := 20.0
		if slices.ContainsFunc(labels, func(l span) bool { return l.from <= x && x < l.to }) {
			top = chartTop - 12
		}
		w.put(`<path class="o" d="M%v %vV%v"/>`+"\n", x, top, bottom)
		if x >= free {
			w.text("m", x+3, 16, text)
			free = x + 7*float64(len(text))
		}
		end()
	}
	if more := len(marks) - maxMarks; more > 0 {
		w.text("m", margin, 16, "… "+count(more, "more event"))
	}
}
