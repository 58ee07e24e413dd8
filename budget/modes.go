package budget

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// The modes of a fetch.
const (
	modeSummary   = "summary"
	modePaginated = "paginated"
	modeFiltered  = "filtered"
	modeQuery     = "query"
	modeFull      = "full"
)

// Modes returns all modes, in the order in which they are offered.
func Modes() []string {
	return []string{modeSummary, modePaginated, modeFiltered, modeQuery, modeFull}
}

// modes are those that suit a value and can give something of it.
func (o outline) modes() []string {
	return slices.DeleteFunc(Modes(), func(mode string) bool {
		return !o.suits(mode) || mode == modeFull && o.neverWhole != nil && o.neverWhole()
	})
}

func (o outline) suits(mode string) bool {
	switch mode {
	case modeSummary:
		return o.kind == object || o.kind == array || o.kind == text
	case modePaginated:
		return o.paged != nil
	case modeFiltered:
		return o.kind == object || o.objects
	}
	return true
}

// outline is outlineOf for these Results.
func (r *Results) outline(w *work, value []byte) outline {
	o := outlineOf(w, value)
	if r.most > 0 {
		o.neverWhole = func() bool {
			if len(value) > exactBytes {
				return r.o.Counter.Estimate(value) > r.most
			}
			return r.o.Counter.Count(value, r.most) > r.most
		}
	}
	return o
}

// Fetch asks for a kept result, or a part of it. Fields of another mode than its own are bad_request.
type Fetch struct {
	Token string

	// Mode is one of summary, paginated, filtered, query and full. "" means the mode to which the other fields belong; without any, full where that fits, else
	// summary.
	Mode string

	Page, PageSize       int // paginated: from 1, default 1; at least 1, default ResultsOptions.PageSize
	PageSet, PageSizeSet bool
	FilterKeys           []string // filtered: keys or dotted paths, at most 100
	Query                string   // query: handed to the Query function as it is
}

// Query runs a reference path or an expression over a value and returns JSON.
type Query func(ctx context.Context, query string, value []byte) ([]byte, error)

// Answer makes the result of a fetch, JSON that there is room for:
//
//   - summary: see summarize. Filtered: see filter. Query: what the query function answers. Where one of these does not
//     fit it is kept as a result of its own, and its probe is the answer;
//   - paginated: {"items","page","page_size","total","has_more"}; see paginate. A page that does not fit is bad_page and
//     names a size that does;
//   - full: the value as it was kept, for reading only; limit_exceeded with the numbers where it does not fit.
//
// Further errors: those of Value; bad_mode for an unknown mode or one that does not suit the value, with those that do;
// bad_page for a page or size below 1; bad_request for fields that are missing, out of place or name keys that are
// nowhere; budget_too_small where not even a probe fits; and what the query function answers.
func (r *Results) Answer(ctx context.Context, owner string, f Fetch, room *Room, query Query) ([]byte, error) {
	value, _, err := r.Value(ctx, owner, f.Token)
	if err != nil {
		return nil, err
	}
	var a answer
	if err := working(ctx, len(value), func(w *work) (err error) {
		a, err = r.answer(w, f, value, room, query)
		return err
	}); err != nil {
		return nil, err
	}
	if a.asks { // which acquires slots of its own
		result, err := query(ctx, f.Query, value)
		if err != nil {
			return nil, err
		}
		if err := working(ctx, len(result), func(w *work) (err error) {
			a, err = r.orProbe(w, result, room, bytes.Clone) // it may be a part of the value
			return err
		}); err != nil {
			return nil, err
		}
	}
	for _, p := range a.kept {
		if err := r.keep(ctx, owner, p.Token, p.value); err != nil {
			return nil, err
		}
	}
	return a.result, nil
}

// answer is what a fetch is answered, and what has to be kept first.
type answer struct {
	result []byte
	kept   []*probe
	asks   bool // the mode is query: there is nothing yet
}

// answer makes the answer of all modes but query, which it finds to be in order.
func (r *Results) answer(w *work, f Fetch, value []byte, room *Room, query Query) (answer, error) {
	o := r.outline(w, value)
	if err := w.over(); err != nil {
		return answer{}, err
	}
	if f.Mode == "" {
		f.Mode = f.impliedMode(o, room)
	}
	if err := f.check(o); err != nil {
		return answer{}, err
	}
	switch f.Mode {
	case modeSummary:
		return r.orProbe(w, summarize(o), room, nil)
	case modePaginated:
		return r.paginate(f, o, room)
	case modeFiltered:
		result, err := filter(w, o, f.FilterKeys)
		if err != nil {
			return answer{}, err
		}
		return r.orProbe(w, result, room, compact)
	case modeQuery:
		if query == nil {
			return answer{}, fault.New(fault.NotSupported, "The mode query is not offered here. Use another mode.")
		}
		return answer{asks: true}, nil
	}
	if !room.Fits(value) {
		return answer{}, r.fullRefused(o, room)
	}
	return answer{result: value}, nil
}

// orProbe is the result if it fits, else its probe; own, if it is not nil, makes the bytes that are kept then.
func (r *Results) orProbe(w *work, result []byte, room *Room, own func([]byte) []byte) (answer, error) {
	if err := w.over(); err != nil { // it may not be all
		return answer{}, err
	}
	if room.Fits(result) {
		return answer{result: result}, nil
	}
	if err := r.holds(len(result)); err != nil {
		return answer{}, err
	}
	if own != nil {
		result = own(result)
	}
	p, shown, err := r.describeWithin(w, result, room)
	return answer{result: shown, kept: []*probe{p}}, err
}

// compact is a value with little room behind it, which whoever keeps the value would keep uncounted.
func compact(value []byte) []byte {
	if cap(value) > len(value)/4*5 {
		return bytes.Clone(value)
	}
	return slices.Clip(value)
}

func (f Fetch) impliedMode(o outline, room *Room) string {
	switch {
	case f.PageSet || f.PageSizeSet:
		return modePaginated
	case len(f.FilterKeys) > 0:
		return modeFiltered
	case f.Query != "":
		return modeQuery
	case !room.Fits(o.value) && o.suits(modeSummary):
		return modeSummary
	}
	return modeFull
}

// check refuses a mode that is unknown or does not suit the value, and fields that are missing or out of place.
func (f Fetch) check(o outline) error {
	if !slices.Contains(Modes(), f.Mode) {
		return badMode(o, "The mode %q is not known.", f.Mode)
	}
	fields := []struct {
		mode, at string
		set      bool
	}{
		{modePaginated, "/page", f.PageSet},
		{modePaginated, "/page_size", f.PageSizeSet},
		{modeFiltered, "/filter_keys", len(f.FilterKeys) > 0},
		{modeQuery, "/query", f.Query != ""},
	}
	for _, field := range fields {
		if field.set && field.mode != f.Mode {
			return badField(field.at, "%s belongs to the mode %s, not to %s.", field.at[1:], field.mode, f.Mode)
		}
	}
	switch {
	case f.PageSet && f.Page < 1:
		return badPage("/page", "The page must be at least 1, not %d.", f.Page)
	case f.PageSizeSet && f.PageSize < 1:
		return badPage("/page_size", "The page_size must be at least 1, not %d.", f.PageSize)
	case !o.suits(f.Mode):
		return f.unsuitable(o)
	case f.Mode == modeFiltered && len(f.FilterKeys) == 0:
		return badField("/filter_keys", "The mode filtered needs filter_keys, a list of keys or dotted paths.")
	case len(f.FilterKeys) > maxFilterKeys:
		return badField("/filter_keys", "There are %d filter_keys and at most %d are accepted. Use the mode query.", len(f.FilterKeys), maxFilterKeys)
	case f.Mode == modeQuery && strings.TrimSpace(f.Query) == "":
		return badField("/query", "The mode query needs a query: a path such as $result.name, or an expression over $result.")
	}
	return nil
}

// unsuitable tells why a mode does not suit the value.
func (f Fetch) unsuitable(o outline) error {
	switch {
	case f.Mode == modePaginated && o.kind == object && len(o.arrays) == 0:
		remedy := "Use query for a part of it."
		if key := o.longestText(); key != "" {
			remedy = "Use query $result[" + string(encode(key)) + "] for its longest text: where that does not fit, the answer has a token of its own, by which it is paginated."
		}
		return badMode(o, "The mode paginated needs an array or text, and this object holds no array. %s", remedy)
	case f.Mode == modePaginated && o.kind == object:
		return badMode(o, "The mode paginated needs one array, and this object holds several: %s. Use query to take one, such as $result[%s].",
			braces(slices.Values(o.arrays), maxShape), encode(o.arrays[0]))
	case f.Mode == modeFiltered:
		return badMode(o, "The mode filtered needs an object or an array of objects, and the result is %s.", kindNames[o.kind])
	}
	return badMode(o, "The mode %s does not suit a result that is %s.", f.Mode, kindNames[o.kind])
}

var kindNames = map[kind]string{array: "an array without objects", object: "an object", text: "text", number: "a number", boolean: "a boolean", null: "null", unknown: "empty"}

// fullRefused tells what the whole result would cost.
func (r *Results) fullRefused(o outline, room *Room) error {
	about, of := "", "the budget"
	if len(o.value) > exactBytes {
		about = "about "
	}
	if limit := room.limit(); limit > 0 {
		of += " of " + thousands(limit)
	}
	others := slices.DeleteFunc(o.modes(), func(m string) bool { return m == modeFull })
	e := fault.New(fault.LimitExceeded, "The whole result costs %s%s tokens (%s bytes), which with its envelope is more than %s. Use %s.",
		about, thousands(r.tokens(o.value)), thousands(len(o.value)), of, strings.Join(others, ", "))
	e.At, e.Available = "/mode", others
	return e
}

func badMode(o outline, format string, args ...any) *fault.Error {
	e := fault.New(fault.BadMode, format, args...)
	e.At, e.Available = "/mode", o.modes()
	e.Message += " Modes for this result: " + strings.Join(e.Available, ", ") + "."
	return e
}

func badPage(at, format string, args ...any) *fault.Error {
	e := fault.New(fault.BadPage, format, args...)
	e.At = at
	return e
}

func badField(at, format string, args ...any) *fault.Error {
	e := fault.New(fault.BadRequest, format, args...)
	e.At = at
	return e
}
