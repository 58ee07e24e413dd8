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
	Status journal.Status `json:"status,omitempty"` // of a run
	Code   fault.Code     `json:"code,omitempty"`
	Calls  int            `json:"calls"`
	Millis float64        `json:"ms,omitzero"` // of a run
	Bytes  int            `json:"bytes"`       // of all results
	Tokens int            `json:"tokens"`
}

// Trace is a run or a recording, to be compared.
type Trace struct {
	Side
	calls []tracedCall // in the order of their steps, those of a recording of its lines
}

type tracedCall struct {
	Call
	mac string // of the function and its arguments; "": it is not known
}

func (s *Trace) sum() {
	s.Calls = len(s.calls)
	for i := range s.calls {
		s.Bytes += s.calls[i].Bytes
		s.Tokens += s.calls[i].Tokens
	}
}

// Trace is the run, to be compared.
func (t *Timeline) Trace() *Trace {
	s := &Trace{Side: Side{Run: t.ID, Status: t.Status, Code: t.Code, Millis: t.Millis}}
	for i, c := range t.calls {
		if c == nil {
			continue
		}
		one := tracedCall{Call: t.List[i]}
		if c.Undoes == 0 { // of what takes a call back, it stands for more than the arguments
			one.mac = string(c.MAC)
		}
		s.calls = append(s.calls, one)
	}
	slices.SortStableFunc(s.calls, func(a, b tracedCall) int {
		return cmp.Or(slices.Compare(pathOf(a.At), pathOf(b.At)), cmp.Compare(boolInt(a.Undoes), boolInt(b.Undoes)))
	})
	s.sum()
	return s
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// pathOf are the numbers of a place.
func pathOf(place string) (path []int) {
	for _, field := range strings.FieldsFunc(place, func(r rune) bool { return r < '0' || r > '9' }) {
		n, _ := strconv.Atoi(field)
		path = append(path, n)
	}
	return path
}

// Diff is what two runs or recordings have in common, and what not.
type Diff struct {
	A     Side   `json:"a"`
	B     Side   `json:"b"`
	Equal bool   `json:"equal"` // but for times
	Calls []Pair `json:"calls"`
}

// Pair is a call that both made, or one of them.
type Pair struct {
	Function string       `json:"fn"`
	A        *Seen        `json:"a,omitempty"` // nil: only B made it
	B        *Seen        `json:"b,omitempty"` // nil: only A made it
	Differs  []string     `json:"differs,omitempty"`
	Args     []Difference `json:"args,omitempty"` // where both are known
	Result   []Difference `json:"result,omitempty"`
}

// Seen is a call as one side made it.
type Seen struct {
	At      string        `json:"at"` // a step, or a line of a recording
	Status  string        `json:"status"`
	Outcome fault.Outcome `json:"outcome,omitempty"`
	Code    fault.Code    `json:"code,omitempty"`
	Millis  float64       `json:"ms,omitzero"`
	Bytes   int           `json:"bytes"`
	Tokens  int           `json:"tokens"`
	Undoes  bool          `json:"undoes,omitempty"` // it takes another call back
}

func seen(c *tracedCall) *Seen {
	return &Seen{At: c.At, Status: c.Status, Outcome: c.Outcome, Code: c.Code, Millis: c.Millis, Bytes: c.Bytes, Tokens: c.Tokens, Undoes: c.Undoes}
}

// Compare compares two runs or recordings call by call. The n-th call of a function with some arguments goes with the n-th of the
// other side; of what is left then, the n-th call of a function with the n-th.
func Compare(a, b *Trace) *Diff {
	d := &Diff{A: a.Side, B: b.Side, Equal: a.Run == "" || b.Run == "" || a.Status == b.Status && a.Code == b.Code, Calls: []Pair{}}
	partners, after := align(a.calls, b.calls)
	add := func(p Pair) {
		d.Equal = d.Equal && len(p.Differs) == 0 && p.A != nil && p.B != nil
		d.Calls = append(d.Calls, p)
	}
	onlyB := func(at int) {
		for _, n := range after[at] {
			add(Pair{Function: b.calls[n].Function, B: seen(&b.calls[n])})
		}
	}
	onlyB(-1)
	for i := range a.calls {
		if n := partners[i]; n >= 0 {
			add(compareCalls(&a.calls[i], &b.calls[n]))
		} else {
			add(Pair{Function: a.calls[i].Function, A: seen(&a.calls[i])})
		}
		onlyB(i)
	}
	return d
}

// align finds for each call of a its partner in b, -1 where there is none, and gives those that only b has by the call of a behind
// which they stand.
func align(a, b []tracedCall) (partners []int, after map[int][]int) {
	partners = make([]int, len(a))
	partnerOf := make([]int, len(b))
	for i := range partners {
		partners[i] = -1
	}
	for i := range partnerOf {
		partnerOf[i] = -1
	}
	byValues := known(a) && known(b)
	for _, key := range []func(*tracedCall) string{func(c *tracedCall) string { return c.identity(byValues) }, func(c *tracedCall) string { return c.Function }} {
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

// known reports whether the arguments of all calls are.
func known(calls []tracedCall) bool {
	return !slices.ContainsFunc(calls, func(c tracedCall) bool { return c.Values == nil || c.Values.Args == nil })
}

// identity is equal for calls of a function with equal arguments; "": it is not known.
func (c *tracedCall) identity(byValues bool) string {
	switch {
	case byValues:
		return c.Function + " " + string(canonical(comparable(c.Values.Args)))
	case c.mac != "":
		return c.Function + " " + c.mac
	}
	return ""
}

// compareCalls tells in what two calls of a function differ, but for their times.
func compareCalls(a, b *tracedCall) Pair {
	p := Pair{Function: a.Function, A: seen(a), B: seen(b)}
	differs := func(what string, differ bool) {
		if differ {
			p.Differs = append(p.Differs, what)
		}
	}
	av, bv := a.values(), b.values()
	if av.Args != nil && bv.Args != nil {
		p.Args = differences(comparable(av.Args), comparable(bv.Args))
		differs("args", len(p.Args) > 0)
	} else {
		differs("args", a.mac != "" && b.mac != "" && a.mac != b.mac)
	}
	differs("status", a.Status != b.Status)
	differs("outcome", a.Outcome != b.Outcome && a.Outcome != "" && b.Outcome != "")
	differs("code", a.Code != b.Code)
	if av.Result != nil && bv.Result != nil {
		p.Result = differences(comparable(av.Result), comparable(bv.Result))
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
