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

// modes returns the modes that suit the value and can return something of it.
func (o outline) modes() []string {
	return slices.DeleteFunc(Modes(), func(mode string) bool {
		return !o.supports(mode) || mode == modeFull && o.exceedsLimit != nil && o.exceedsLimit()
	})
}

func (o outline) supports(mode string) bool {
	switch mode {
	case modeSummary:
		return o.kind == object || o.kind == array || o.kind == text
	case modePaginated:
		return o.paged != nil
	case modeFiltered:
		return o.kind == object || o.hasObject
	}
	return true
}

// outline is outlineOf, with exceedsLimit set if the budget of answers is limited (see WithMaxTokens).
func (r *Results) outline(w *work, value []byte) outline {
	o := outlineOf(w, value)
	if r.maxAnswerTokens > 0 {
		o.exceedsLimit = func() bool {
			if len(value) > exactBytes {
				return r.o.Counter.Estimate(value) > r.maxAnswerTokens
			}
			return r.o.Counter.Count(value, r.maxAnswerTokens) > r.maxAnswerTokens
		}
	}
	return o
}

// Fetch asks for a stored result or some of it. Setting fields that belong to another mode is bad_request.
type Fetch struct {
	Token string

	// Mode is one of summary, paginated, filtered, query and full. "" is the mode that the other fields belong to. If none of them is
	// set, "" is full if the value fits or has no summary, and summary otherwise.
	Mode string

	Page, PageSize       int      // paginated: at least 1; default 1 and ResultsOptions.PageSize
	PageSet, PageSizeSet bool     // whether Page and PageSize were given; if not, they have their defaults
	FilterKeys           []string // filtered: keys or dotted paths, at most 100
	Query                string   // query: passed to the Query function unchanged
}

// Query runs a reference path or an expression on a value and returns JSON.
type Query func(ctx context.Context, query string, value []byte) ([]byte, error)

// Answer returns the result of a fetch as JSON that fits in envelope:
//
//   - summary: see summarize. Filtered: see filter. Query: the result of the query function. If one of these does not fit, it is
//     stored as a result of its own, and its probe is the answer;
//   - paginated: {"items","page","page_size","total","has_more"}; see paginate. A page that does not fit is bad_page and names a
//     size that does;
//   - full: the value as it was stored, which must not be changed; limit_exceeded with the numbers if it does not fit.
//
// Further errors: those of Value; bad_mode for an unknown mode or one that does not suit the value, with those that do; bad_page
// for a page or size below 1; bad_request for missing or misplaced fields and for unknown keys; budget_too_small if not even a
// probe fits; and those of the query function.
func (r *Results) Answer(ctx context.Context, owner string, f Fetch, envelope *Envelope, query Query) ([]byte, error) {
	value, _, err := r.Value(ctx, owner, f.Token)
	if err != nil {
		return nil, err
	}
	var a answer
	if err := doWork(ctx, len(value), func(w *work) (err error) {
		a, err = r.answer(w, f, value, envelope, query)
		return err
	}); err != nil {
		return nil, err
	}
	if a.isQuery { // outside doWork, because the query function acquires slots of its own
		result, err := query(ctx, f.Query, value)
		if err != nil {
			return nil, err
		}
		if err := doWork(ctx, len(result), func(w *work) (err error) {
			a, err = r.resultOrProbe(w, result, envelope, bytes.Clone) // the result may be a slice of value
			return err
		}); err != nil {
			return nil, err
		}
	}
	for _, p := range a.probes {
		if err := r.keep(ctx, owner, p.Token, p.value); err != nil {
			return nil, err
		}
	}
	return a.result, nil
}

// answer is the answer to a fetch, with the probes to store first.
type answer struct {
	result  []byte
	probes  []*probe
	isQuery bool // the mode is query: there is no result yet
}

// answer answers all modes except query, whose fields it only checks.
func (r *Results) answer(w *work, f Fetch, value []byte, envelope *Envelope, query Query) (answer, error) {
	o := r.outline(w, value)
	if err := w.interrupted(); err != nil {
		return answer{}, err
	}
	if f.Mode == "" {
		f.Mode = f.impliedMode(o, envelope)
	}
	if err := f.check(o); err != nil {
		return answer{}, err
	}
	switch f.Mode {
	case modeSummary:
		return r.resultOrProbe(w, summarize(o), envelope.ofJSON(), nil)
	case modePaginated:
		return r.paginate(f, o, envelope)
	case modeFiltered:
		result, err := filter(w, o, f.FilterKeys)
		if err != nil {
			return answer{}, err
		}
		return r.resultOrProbe(w, result, envelope, clip)
	case modeQuery:
		if query == nil {
			return answer{}, fault.New(fault.NotSupported, "The mode query is not offered here. Use another mode.")
		}
		return answer{isQuery: true}, nil
	}
	written, _ := envelope.write(value)
	if !envelope.Allows(written) {
		return answer{}, r.fullTooLarge(o, envelope)
	}
	return answer{result: written}, nil
}

// resultOrProbe returns the result if it fits, or else its probe. If clone is not nil, it makes the bytes to store.
func (r *Results) resultOrProbe(w *work, result []byte, envelope *Envelope, clone func([]byte) []byte) (answer, error) {
	if err := w.interrupted(); err != nil { // the result may be incomplete
		return answer{}, err
	}
	if written, _ := envelope.write(result); envelope.Allows(written) {
		return answer{result: written}, nil
	}
	if err := r.reserveBytes(len(result)); err != nil {
		return answer{}, err
	}
	if clone != nil {
		result = clone(result)
	}
	p, preview, err := r.describeWithin(w, result, envelope)
	return answer{result: preview, probes: []*probe{p}}, err
}

// clip removes large spare capacity, which a store would retain without counting it.
func clip(value []byte) []byte {
	if cap(value) > len(value)/4*5 {
		return bytes.Clone(value)
	}
	return slices.Clip(value)
}

// impliedMode returns the mode of a fetch that names none (see Fetch.Mode).
func (f Fetch) impliedMode(o outline, envelope *Envelope) string {
	switch {
	case f.PageSet || f.PageSizeSet:
		return modePaginated
	case len(f.FilterKeys) > 0:
		return modeFiltered
	case f.Query != "":
		return modeQuery
	case o.supports(modeSummary):
		if written, _ := envelope.write(o.value); !envelope.Allows(written) {
			return modeSummary
		}
	}
	return modeFull
}

// check refuses a mode that is unknown or does not suit the value, and fields that are missing or misplaced.
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
	case !o.supports(f.Mode):
		return f.unsuitableMode(o)
	case f.Mode == modeFiltered && len(f.FilterKeys) == 0:
		return badField("/filter_keys", "The mode filtered needs filter_keys, a list of keys or dotted paths.")
	case len(f.FilterKeys) > maxFilterKeys:
		return badField("/filter_keys", "There are %d filter_keys and at most %d are accepted. Use the mode query.", len(f.FilterKeys),
			maxFilterKeys)
	case f.Mode == modeQuery && strings.TrimSpace(f.Query) == "":
		return badField("/query", "The mode query needs a query: a path such as $result.name, or an expression over $result.")
	}
	return nil
}

// unsuitableMode explains why a mode does not suit the value.
func (f Fetch) unsuitableMode(o outline) error {
	switch {
	case f.Mode == modePaginated && o.kind == object && len(o.arrays) == 0:
		remedy := "Use query for a part of it."
		if key := o.longestText(); key != "" {
			remedy = "Use query $result[" + string(encode(key)) +
				"] for its longest text: if that does not fit, the answer has a token of its own, with which the text can be paginated."
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

var kindNames = map[kind]string{array: "an array without objects", object: "an object", text: "text", number: "a number",
	boolean: "a boolean", null: "null", unknown: "empty"}

// fullTooLarge returns the error with the cost of the whole result.
func (r *Results) fullTooLarge(o outline, envelope *Envelope) error {
	qualifier, limitText := "", "the budget"
	if len(o.value) > exactBytes {
		qualifier = "about "
	}
	if limit := envelope.limit(); limit > 0 {
		limitText += " of " + thousands(limit)
	}
	others := slices.DeleteFunc(o.modes(), func(m string) bool { return m == modeFull })
	e := fault.New(fault.LimitExceeded, "The whole result costs %s%s tokens (%s bytes), which with its envelope is more than %s. Use %s.",
		qualifier, thousands(r.tokens(o.value)), thousands(len(o.value)), limitText, strings.Join(others, ", "))
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
