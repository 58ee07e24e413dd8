package budget

import (
	"bytes"
	"iter"
	"slices"
	"sort"
	"strconv"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// maxWeighed is the most items of a page that are weighed one by one to find out what fits.
const maxWeighed = 10_000

// paginate is the answer of the mode paginated:
//
//	{"items":[…],"page":1,"page_size":20,"total":500,"has_more":true}
//
// Items are the elements of an array or of the one array in an object, or the lines of a text, each a string with its
// line feed. Past the end there are none. An item that does not fit in a page of its own is kept as a result of its own,
// and its probe stands in its place. A page that does not fit is bad_page; the message names a page_size that does, and
// the page of that size in which the first item is.
func (r *Results) paginate(f Fetch, o outline, room *Room) (answer, error) {
	p := page{sequence: sequenceOf(o), number: 1, size: r.o.PageSize}
	if f.PageSet {
		p.number = f.Page
	}
	if f.PageSizeSet {
		p.size = f.PageSize
	}
	near := p.from(p.first() - p.size) // before which no page of at most that size begins that has the first item in it
	p.sequence = near.from(p.first())
	whole := p.whole()
	if err := o.work.over(); err != nil {
		return answer{}, err
	}
	if room.Fits(whole) {
		return answer{result: whole}, nil
	}
	shown, probes, err := r.weigh(p, room)
	if err != nil {
		return answer{}, err
	}
	if len(shown) == 0 {
		return answer{}, budgetTooSmall()
	}
	if len(shown) == p.count() {
		for _, probe := range probes {
			if err := r.holds(len(probe.value)); err != nil {
				return answer{}, err
			}
			probe.value = bytes.Clone(probe.value) // a part of a larger value
		}
		return answer{result: p.json(shown), kept: probes}, nil
	}
	fitting, err := r.smaller(near, p.first(), len(shown), room)
	if err != nil {
		return answer{}, err
	}
	e := badPage("/page_size", "Page %d with page_size %d does not fit the budget. A page_size of %d does: page %d of that size holds the first item of this page.",
		p.number, p.size, fitting.size, fitting.number)
	e.Available = []string{strconv.Itoa(fitting.size)}
	return answer{}, e
}

// weigh finds the most items from the page's start that fit, with probes, not kept yet, in place of those that would not
// fit in a page of their own.
func (r *Results) weigh(p page, room *Room) (shown [][]byte, probes []*probe, err error) {
	shown = slices.Collect(p.items(p.first(), min(p.count(), maxWeighed)))
	for done := 0; p.work.looksUp(); {
		done += sort.Search(len(shown)-done, func(i int) bool { return !room.Fits(p.json(shown[:done+i+1])) })
		if done == len(shown) || room.Fits(p.json(shown[done:done+1])) {
			return shown[:done], probes, nil
		}
		item, err := r.describe(p.work, shown[done])
		if err != nil {
			return nil, nil, err
		}
		alone := item.within(func(probe []byte) bool { return room.Fits(p.json([][]byte{probe})) })
		if alone == nil {
			return shown[:done], probes, nil
		}
		shown[done] = alone
		probes = append(probes, item)
	}
	return nil, nil, p.work.over()
}

// smaller finds a page with a certain item in it that fits, of at most the given size; s is walked from where such a page may begin.
func (r *Results) smaller(s sequence, first, size int, room *Room) (page, error) {
	for ; size > 1; size -= (size + 7) / 8 {
		q := page{s, first/size + 1, size}
		shown, _, err := r.weigh(q, room)
		if err != nil {
			return page{}, err
		}
		if len(shown) == q.count() {
			return q, nil
		}
	}
	return page{s, first + 1, 1}, s.work.over()
}

// page is a run of items.
type page struct {
	sequence
	number, size int // from 1
}

// first is the index of the page's first item, the total where the page is past the end.
func (p page) first() int {
	if p.number-1 > p.total/p.size { // so compared, the product cannot overflow
		return p.total
	}
	return min((p.number-1)*p.size, p.total)
}

// count is the number of items on the page.
func (p page) count() int { return min(p.size, p.total-p.first()) }

// whole is the page with all its items as they are.
func (p page) whole() []byte {
	span := p.span(p.first(), p.count())
	if !p.lines {
		return p.envelope(len(span), func(b []byte) []byte { return append(b, span...) })
	}
	return p.envelope(len(span)+3*p.count(), func(b []byte) []byte { return appendJoined(b, p.of(span)) })
}

// json is the page with the given items.
func (p page) json(items [][]byte) []byte {
	size := len(items)
	for _, item := range items {
		size += len(item)
	}
	return p.envelope(size, func(b []byte) []byte { return appendJoined(b, slices.Values(items)) })
}

func (p page) envelope(size int, appendItems func([]byte) []byte) []byte {
	const fields = len(`{"items":[],"page":,"page_size":,"total":,"has_more":false}`) + 3*maxDigits
	b := append(make([]byte, 0, size+fields), `{"items":[`...)
	b = append(appendItems(b), `],"page":`...)
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

// sequence is what is paged: the elements of an array or the lines of a text.
type sequence struct {
	work   *work
	source []byte // what stands between the brackets or quotes, but for what the first items are
	before int    // how many those are
	lines  bool
	total  int
}

func sequenceOf(o outline) sequence {
	s := sequence{work: o.work, source: rawjson.Inside(o.paged), lines: o.kind == text, total: o.count}
	if o.kind == object {
		s.total = 0
		for range rawjson.Elements(o.paged) {
			if s.total++; !o.work.goesOn() {
				break
			}
		}
	}
	return s
}

// bounds gives the start and end in the source of each item.
func (s sequence) bounds(source []byte) iter.Seq2[int, int] {
	if s.lines {
		return lines(source)
	}
	return rawjson.Values(source)
}

// from is a sequence that is walked from an item on: nothing is asked of it that stands before.
func (s sequence) from(first int) sequence {
	if first <= s.before || first >= s.total {
		return s
	}
	i := s.before
	for start := range s.bounds(s.source) {
		if i >= first {
			s.source, s.before = s.source[start:], i
			break
		}
		if i++; !s.work.goesOn() {
			break
		}
	}
	return s
}

// span is the part of the source that holds n items from the first on.
func (s sequence) span(first, n int) []byte {
	if n <= 0 {
		return nil
	}
	i, begin := s.before, 0
	for start, end := range s.bounds(s.source) {
		if !s.work.goesOn() {
			break
		}
		if i == first {
			begin = start
		}
		if i++; i == first+n {
			return s.source[begin:end]
		}
	}
	return nil
}

// of gives the items in a span as JSON.
func (s sequence) of(span []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for start, end := range s.bounds(span) {
			item := span[start:end]
			if s.lines {
				item = quoted(item)
			}
			if !s.work.goesOn() || !yield(item) {
				return
			}
		}
	}
}

// items gives n items from the first on as JSON.
func (s sequence) items(first, n int) iter.Seq[[]byte] { return s.of(s.span(first, n)) }
