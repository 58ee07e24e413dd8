package draw

import (
	"cmp"
	"slices"

	"github.com/onecall-mcp/onecall/internal/figure"
)

// The bounds and measures of a Gantt chart.
const (
	maxRows  = 60
	maxBars  = 1200 // of all rows: those of a row that are close to one another are one
	maxMarks = 12
	maxFolds = 8 // times that are folded

	nameWidth  = 260.0
	timeWidth  = 620.0
	notesWidth = 170.0
	foldWidth  = 24.0
	rowHeight  = 24.0
	chartTop   = 46.0
)

// SVG draws the chart: a row for each step, with a bar for each call.
func (g *Gantt) SVG() []byte {
	rows := g.fold()
	s, w := newScale(g), &svg{}
	height := chartTop + float64(len(rows))*rowHeight + margin
	bars, all := 0, tally{}
	for i := range g.Rows {
		bars += len(g.Rows[i].Bars)
		all.add(g.Rows[i].Bars)
	}
	w.begin(margin+nameWidth+timeWidth+notesWidth, height, slices.ContainsFunc(g.Rows, func(r Row) bool { return r.Link != "" }),
		cmp.Or(g.Title, "A run over time"), words(": ", count(bars, "call")+" in "+count(len(g.Rows), "row"), all.String()))
	w.axis(s, height-margin)
	w.marks(s, g.Marks, height-margin)
	for i := range rows {
		w.row(s, &rows[i], chartTop+float64(i)*rowHeight, max(maxBars/len(rows), 8))
	}
	w.end("svg")
	return w.Bytes()
}

// fold returns the rows that are shown. The last one stands for the others if there are too many.
func (g *Gantt) fold() []Row {
	if len(g.Rows) <= maxRows {
		return g.Rows
	}
	shown := pick(len(g.Rows), maxRows-1, func(i int) bool {
		return slices.ContainsFunc(g.Rows[i].Bars, func(b Bar) bool { return b.Status.isUrgent() })
	})
	var rows []Row
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
	whole := span{}
	for i, bar := range r.Bars {
		spans[bar.Status] = append(spans[bar.Status], span{s.x(bar.From), max(s.x(bar.To), s.x(bar.From)+2)})
		if retries += bar.Retries; i == 0 {
			whole = span{bar.From, bar.To}
		}
		whole = span{min(whole.from, bar.From), max(whole.to, bar.To)}
	}
	counts.add(r.Bars)
	notes := signs[only(counts)]
	if len(r.Bars) > 1 {
		notes = counts.String()
	}
	if r.Elements > 0 {
		notes = words(": ", count(r.Elements, "element"), notes)
	}
	if retries > 0 {
		notes = words(", ", notes, "↻ "+retried(retries))
	}
	end := w.link(r.Link)
	w.tag("g")
	w.element("title", words(" · ", words(" ", clip(r.At, maxText), clip(r.ID, maxText), clip(r.Function, maxText)), counts.String(),
		notes, figure.Millis(whole.from)+" to "+figure.Millis(whole.to)))
	w.text("f", margin, y+16, clip(words(" ", r.At, cmp.Or(r.ID, r.Function, "chain")), 33))
	if len(r.Bars) > 1 {
		w.rect("g", s.x(whole.from), y+3, max(s.x(whole.to)-s.x(whole.from), 2), rowHeight-6)
	}
	for _, status := range slices.Backward(append(slices.Clone(statuses), "")) { // those that are looked for first are on top
		for _, b := range joined(spans[status], limit*len(spans[status])/max(len(r.Bars), 1)+1) {
			w.rect(status.class(), b.from, y+6, b.to-b.from, rowHeight-12)
		}
	}
	x := s.x(whole.to) + 6
	w.text("m", x, y+16, clip(notes, int((margin+nameWidth+timeWidth+notesWidth-x)/6.7)))
	w.end("g")
	end()
}

// only returns the status of a single call.
func only(t tally) Status {
	for s := range t {
		if len(t) == 1 {
			return s
		}
	}
	return ""
}

// joined joins the spans that are closest until at most limit are left.
func joined(spans []span, limit int) []span {
	for gap := 0.0; ; gap = 2*gap + 0.5 {
		if list := merge(spans, gap); len(list) <= limit {
			return list
		}
	}
}

// axis draws the times, and where time is folded.
func (w *svg) axis(s *scale, bottom float64) {
	free := 0.0 // where the next label may begin
	for _, tick := range s.ticks() {
		if x := s.x(tick.at); x >= free {
			w.path("l", "M"+number(x)+" "+number(chartTop-12)+"V"+number(bottom))
			w.text("m", x+3, chartTop-16, tick.label)
			free = x + 66
		}
	}
	for _, f := range s.folds {
		x := s.x(f.from)
		w.tag("g")
		w.element("title", "nothing was under way for "+figure.Millis(f.to-f.from))
		w.rect("g", x+2, chartTop-12, foldWidth-4, bottom-chartTop+12)
		w.text("m c", x+foldWidth/2, bottom+9, "⋯ "+figure.Millis(f.to-f.from))
		w.end("g")
	}
}

// marks draws the events.
func (w *svg) marks(s *scale, marks []Mark, bottom float64) {
	free := 0.0
	for i, mark := range marks {
		x, text := s.x(mark.At), clip(mark.Text, 24)
		if i == maxMarks {
			w.text("m", margin, 16, "… "+count(len(marks)-i, "more event"))
			return
		}
		w.tag("g")
		w.element("title", clip(mark.Text, maxText)+" at "+figure.Millis(mark.At))
		w.path("o", "M"+number(x)+" 20V"+number(bottom))
		if x >= free {
			w.text("m", x+3, 16, text)
			free = x + 7*float64(len(text))
		}
		w.end("g")
	}
}
