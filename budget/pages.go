package budget

import (
	"bytes"
	"iter"
	"slices"
	"sort"
	"strconv"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// maxMeasured is the maximum number of items of a page that are measured one by one to find out what fits.
const maxMeasured = 10_000

// paginate answers the mode paginated:
//
//	{"items":[…],"page":1,"page_size":20,"total":500,"has_more":true}
//
// Items are the elements of an array, or of the only array in an object, or the lines of a text, each a string with its line feed.
// Past the end there are none. An item that does not even fit in a page of its own is stored as a result, and its probe takes its
// place. A page that does not fit is bad_page; the message names a page_size that does, and the page of that size with the same
// first item.
func (r *Results) paginate(f Fetch, o outline, envelope *Envelope) (answer, error) {
	p := page{sequence: sequenceOf(o), number: 1, size: r.o.PageSize, envelope: envelope}
	if f.PageSet {
		p.number = f.Page
	}
	if f.PageSizeSet {
		p.size = f.PageSize
	}
	near := p.from(p.first() - p.size) // a page of at most p.size items that holds the first item cannot begin earlier
	p.sequence = near.from(p.first())
	whole := p.whole()
	if err := o.work.interrupted(); err != nil {
		return answer{}, err
	}
	if envelope.Allows(whole) {
		return answer{result: whole}, nil
	}
	shown, probes, err := r.fittingItems(p, envelope)
	if err != nil {
		return answer{}, err
	}
	if len(shown) == 0 {
		return answer{}, budgetTooSmall()
	}
	if len(shown) == p.count() {
		for _, probe := range probes {
			if err := r.reserveBytes(len(probe.value)); err != nil {
				return answer{}, err
			}
			probe.value = bytes.Clone(probe.value) // a slice of a larger value
		}
		return answer{result: p.json(shown), probes: probes}, nil
	}
	fitting, err := r.fittingPage(near, p.first(), len(shown), envelope)
	if err != nil {
		return answer{}, err
	}
	e := badPage("/page_size",
		"Page %d with page_size %d does not fit the budget. A page_size of %d does: page %d of that size holds the first item of this page.",
		p.number, p.size, fitting.size, fitting.number)
	e.Available = []string{strconv.Itoa(fitting.size)}
	return answer{}, e
}

// fittingItems returns the items from the page's start that fit. Items that would not fit in a page of their own are replaced by probes,
// which are not stored yet.
func (r *Results) fittingItems(p page, envelope *Envelope) (shown [][]byte, probes []*probe, err error) {
	shown = slices.Collect(p.items(p.first(), min(p.count(), maxMeasured)))
	for done := 0; p.work.alive(); {
		done += sort.Search(len(shown)-done, func(i int) bool { return !envelope.Allows(p.json(shown[:done+i+1])) })
		if done == len(shown) || envelope.Allows(p.json(shown[done:done+1])) { // all fit, or the next item fits in a page of its own
			return shown[:done], probes, nil
		}
		item, err := r.describe(p.work, shown[done])
		if err != nil {
			return nil, nil, err
		}
		alone := item.longest(func(probe []byte) bool { return envelope.Allows(p.json([][]byte{probe})) })
		if alone == nil {
			return shown[:done], probes, nil
		}
		shown[done] = alone
		probes = append(probes, item)
	}
	return nil, nil, p.work.interrupted()
}

// fittingPage returns a page of at most the given size that fits and contains the item with the index first. It tries smaller and smaller
// sizes, down to one item. s must begin no later than such a page can begin.
func (r *Results) fittingPage(s sequence, first, size int, envelope *Envelope) (page, error) {
	for ; size > 1; size -= (size + 7) / 8 {
		q := page{s, first/size + 1, size, envelope}
		shown, _, err := r.fittingItems(q, envelope)
		if err != nil {
			return page{}, err
		}
		if len(shown) == q.count() {
			return q, nil
		}
	}
	return page{s, first + 1, 1, envelope}, s.work.interrupted()
}

// page is a section of a sequence.
type page struct {
	sequence
	number, size int       // the number of the page, from 1, and its maximum number of items
	envelope     *Envelope // says how the items are written
}

// first returns the index of the page's first item, or the total if the page is past the end.
func (p page) first() int {
	if p.number-1 > p.total/p.size { // this comparison avoids an overflow of the product
		return p.total
	}
	return min((p.number-1)*p.size, p.total)
}

// count returns the number of items on the page.
func (p page) count() int { return min(p.size, p.total-p.first()) }

// whole returns the page with all its items unchanged.
func (p page) whole() []byte {
	span := p.span(p.first(), p.count())
	if !p.lines {
		return p.render(len(span), func(b []byte) []byte { return append(b, span...) })
	}
	return p.render(len(span)+3*p.count(), func(b []byte) []byte { return appendJoined(b, p.itemsIn(span)) })
}

// json returns the page with the given items.
func (p page) json(items [][]byte) []byte {
	size := len(items)
	for _, item := range items {
		size += len(item)
	}
	return p.render(size, func(b []byte) []byte { return appendJoined(b, slices.Values(items)) })
}

// render returns the JSON of the page, with the items that appendItems appends. size is their length in bytes, at least approximately.
func (p page) render(size int, appendItems func([]byte) []byte) []byte {
	const fields = len(`{"items":[],"page":,"page_size":,"total":,"has_more":false}`) + 3*maxDigits
	const start = len(`{"items":`)
	b := append(make([]byte, 0, size+fields), `{"items":[`...)
	b = append(appendItems(b), ']')
	if p.envelope != nil && p.envelope.Write != nil {
		items, _ := p.envelope.Write(bytes.Clone(b[start:]), true)
		b = append(b[:start], items...)
	}
	b = append(b, `,"page":`...)
	b = strconv.AppendInt(b, int64(p.number), 10)
	b = strconv.AppendInt(append(b, `,"page_size":`...), int64(p.size), 10)
	b = strconv.AppendInt(append(b, `,"total":`...), int64(p.total), 10)
	b = strconv.AppendBool(append(b, `,"has_more":`...), p.first()+p.count() < p.total)
	return append(b, '}')
}

func appendJoined(dst []byte, items iter.Seq[[]byte]) []byte {
	separator := ""
	for item := range items {
		dst = append(append(dst, separator...), item...)
		separator = ","
	}
	return dst
}

// sequence has the items to paginate: the elements of an array or the lines of a text.
type sequence struct {
	work    *work
	source  []byte // the text between the brackets or quotes, without the first skipped items
	skipped int    // number of items before source
	lines   bool
	total   int
}

func sequenceOf(o outline) sequence {
	s := sequence{work: o.work, source: rawjson.Inside(o.paged), lines: o.kind == text, total: o.count}
	if o.kind == object { // o.count is the number of its keys, not of the array's elements
		s.total = 0
		for range rawjson.Elements(o.paged) {
			if s.total++; !o.work.step() {
				break
			}
		}
	}
	return s
}

// bounds yields the start and end of each item in source.
func (s sequence) bounds(source []byte) iter.Seq2[int, int] {
	if s.lines {
		return lines(source)
	}
	return rawjson.Values(source)
}

// from returns the sequence without the items before first, which the caller does not need.
func (s sequence) from(first int) sequence {
	if first <= s.skipped || first >= s.total {
		return s
	}
	i := s.skipped
	for start := range s.bounds(s.source) {
		if i >= first {
			s.source, s.skipped = s.source[start:], i
			break
		}
		if i++; !s.work.step() {
			break
		}
	}
	return s
}

// span returns the text of n items, beginning with first; nil if n is not positive or the work was interrupted.
func (s sequence) span(first, n int) []byte {
	if n <= 0 {
		return nil
	}
	i, from := s.skipped, 0
	for start, end := range s.bounds(s.source) {
		if !s.work.step() {
			break
		}
		if i == first {
			from = start
		}
		if i++; i == first+n {
			return s.source[from:end]
		}
	}
	return nil
}

// itemsIn yields the items of a span as JSON.
func (s sequence) itemsIn(span []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for start, end := range s.bounds(span) {
			item := span[start:end]
			if s.lines {
				item = quoted(item)
			}
			if !s.work.step() || !yield(item) {
				return
			}
		}
	}
}

// items yields n items as JSON, beginning with first.
func (s sequence) items(first, n int) iter.Seq[[]byte] { return s.itemsIn(s.span(first, n)) }
