package history

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// Side is one of two runs or recordings that are compared.
type Side struct {
	Run    string         `json:"run,omitempty"`
	File   string         `json:"file,omitempty"`
	Status journal.Status `json:"status,omitempty"` // the status of a run; "": a recording
	Code   fault.Code     `json:"code,omitempty"`
	Calls  int            `json:"calls"`
	Millis float64        `json:"ms,omitzero"` // the duration of a run; 0: a recording
	Bytes  int            `json:"bytes"`       // the bytes of all results
	Tokens int            `json:"tokens"`
}

// Trace is a run or a recording that Compare can compare.
type Trace struct {
	Side
	calls []tracedCall // in the order of their steps, or of the lines of a recording
}

type tracedCall struct {
	Call
	mac string // the MAC of the function and its arguments, as in the journal; "": unknown
}

// addTotals sets the totals of the calls: their number, bytes and tokens.
func (s *Trace) addTotals() {
	s.Calls = len(s.calls)
	for i := range s.calls {
		s.Bytes += s.calls[i].Bytes
		s.Tokens += s.calls[i].Tokens
	}
}

// Trace returns the run for Compare.
func (t *Timeline) Trace() *Trace {
	s := &Trace{Side: Side{Run: t.ID, Status: t.Status, Code: t.Code, Millis: t.Millis}}
	for i, c := range t.calls {
		if c == nil { // an event that is not a call
			continue
		}
		traced := tracedCall{Call: t.List[i]}
		if c.Undoes == 0 { // the MAC of an undo includes more than its arguments
			traced.mac = string(c.MAC)
		}
		s.calls = append(s.calls, traced)
	}
	slices.SortStableFunc(s.calls, func(a, b tracedCall) int {
		return cmp.Or(slices.Compare(parsePath(a.At), parsePath(b.At)), cmp.Compare(boolToInt(a.Undoes), boolToInt(b.Undoes)))
	})
	s.addTotals()
	return s
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// parsePath returns the numbers in the path of a step, such as 3, 7 and 1 of 3[7].1.
func parsePath(stepPath string) (path []int) {
	for _, field := range strings.FieldsFunc(stepPath, func(r rune) bool { return r < '0' || r > '9' }) {
		n, _ := strconv.Atoi(field)
		path = append(path, n)
	}
	return path
}

// Diff is the comparison of two runs or recordings.
type Diff struct {
	A     Side   `json:"a"`
	B     Side   `json:"b"`
	Equal bool   `json:"equal"` // A and B differ only in times, if at all
	Calls []Pair `json:"calls"`
}

// Pair is a call that both sides made, or only one of them.
type Pair struct {
	Function string       `json:"fn"`
	A        *SideCall    `json:"a,omitempty"`       // nil: only B made it
	B        *SideCall    `json:"b,omitempty"`       // nil: only A made it
	Differs  []string     `json:"differs,omitempty"` // what differs: args, status, outcome, code, result or bytes
	Args     []Difference `json:"args,omitempty"`    // the differences of the arguments, if both sides' arguments are known
	Result   []Difference `json:"result,omitempty"`
}

// SideCall is a call as one side made it.
type SideCall struct {
	At      string        `json:"at"` // a step, or a line of a recording
	Status  string        `json:"status"`
	Outcome fault.Outcome `json:"outcome,omitempty"`
	Code    fault.Code    `json:"code,omitempty"`
	Millis  float64       `json:"ms,omitzero"`
	Bytes   int           `json:"bytes"`
	Tokens  int           `json:"tokens"`
	Undoes  bool          `json:"undoes,omitempty"` // it undoes another call
}

func sideCall(c *tracedCall) *SideCall {
	return &SideCall{At: c.At, Status: c.Status, Outcome: c.Outcome, Code: c.Code, Millis: c.Millis, Bytes: c.Bytes, Tokens: c.Tokens,
		Undoes: c.Undoes}
}

// Compare compares two runs or recordings call by call. It pairs the n-th call of a function with the same arguments on both sides, then
// the n-th of the remaining calls of a function.
func Compare(a, b *Trace) *Diff {
	d := &Diff{A: a.Side, B: b.Side, Equal: a.Run == "" || b.Run == "" || a.Status == b.Status && a.Code == b.Code, Calls: []Pair{}}
	partners, after := align(a.calls, b.calls)
	add := func(p Pair) {
		d.Equal = d.Equal && len(p.Differs) == 0 && p.A != nil && p.B != nil
		d.Calls = append(d.Calls, p)
	}
	onlyB := func(at int) {
		for _, n := range after[at] {
			add(Pair{Function: b.calls[n].Function, B: sideCall(&b.calls[n])})
		}
	}
	onlyB(-1)
	for i := range a.calls {
		if n := partners[i]; n >= 0 {
			add(compareCalls(&a.calls[i], &b.calls[n]))
		} else {
			add(Pair{Function: a.calls[i].Function, A: sideCall(&a.calls[i])})
		}
		onlyB(i)
	}
	return d
}

// align pairs calls. partners has, for each call in a, the index of its partner in b; -1: it has none. after has the indexes of the calls
// that only b has, by the index in a of the call that they follow; -1: they come first.
func align(a, b []tracedCall) (partners []int, after map[int][]int) {
	partners = make([]int, len(a))
	partnerOf := make([]int, len(b))
	for i := range partners {
		partners[i] = -1
	}
	for i := range partnerOf {
		partnerOf[i] = -1
	}
	byValues := hasArguments(a) && hasArguments(b)
	byIdentity := func(c *tracedCall) string { return c.identity(byValues) }
	byFunction := func(c *tracedCall) string { return c.Function }
	for _, key := range []func(*tracedCall) string{byIdentity, byFunction} {
		waiting := map[string][]int{}
		for n := range b {
			if k := key(&b[n]); partnerOf[n] < 0 && k != "" {
				waiting[k] = append(waiting[k], n)
			}
		}
		for i := range a {
			k := key(&a[i])
			if list := waiting[k]; partners[i] < 0 && len(list) > 0 {
				partners[i], partnerOf[list[0]], waiting[k] = list[0], i, list[1:]
			}
		}
	}
	after = map[int][]int{}
	at := -1
	for n := range b {
		if partnerOf[n] >= 0 {
			at = partnerOf[n]
		} else {
			after[at] = append(after[at], n)
		}
	}
	return partners, after
}

// hasArguments reports whether the arguments of all these calls are known.
func hasArguments(calls []tracedCall) bool {
	return !slices.ContainsFunc(calls, func(c tracedCall) bool { return c.Values == nil || c.Values.Args == nil })
}

// identity returns a text that calls of the same function with equal arguments share; "": the arguments are unknown. The text is made of
// the arguments if byValues is set, else of the MAC.
func (c *tracedCall) identity(byValues bool) string {
	switch {
	case byValues:
		return c.Function + " " + string(canonical(comparableValue(c.Values.Args)))
	case c.mac != "":
		return c.Function + " " + c.mac
	}
	return ""
}

// compareCalls compares two calls of a function, apart from their times.
func compareCalls(a, b *tracedCall) Pair {
	p := Pair{Function: a.Function, A: sideCall(a), B: sideCall(b)}
	differs := func(what string, differ bool) {
		if differ {
			p.Differs = append(p.Differs, what)
		}
	}
	aValues, bValues := a.values(), b.values()
	if aValues.Args != nil && bValues.Args != nil {
		p.Args = differences(comparableValue(aValues.Args), comparableValue(bValues.Args))
		differs("args", len(p.Args) > 0)
	} else {
		differs("args", a.mac != "" && b.mac != "" && a.mac != b.mac)
	}
	differs("status", a.Status != b.Status)
	differs("outcome", a.Outcome != b.Outcome && a.Outcome != "" && b.Outcome != "")
	differs("code", a.Code != b.Code)
	if aValues.Result != nil && bValues.Result != nil {
		p.Result = differences(comparableValue(aValues.Result), comparableValue(bValues.Result))
		differs("result", len(p.Result) > 0)
	} else {
		differs("bytes", a.Bytes != b.Bytes)
	}
	return p
}

func (c *Call) values() Values {
	if c.Values == nil {
		return Values{}
	}
	return *c.Values
}
