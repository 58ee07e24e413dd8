package budget

import (
	"context"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// Excerpt says what of a result is shown. What it shows keeps its path and its index. The zero value shows everything.
//
// Paths are those of filter_keys: keys joined by dots, which continue in each element of an array. Below maxDepth levels, and in what no
// path leads into, nothing is left out.
type Excerpt struct {
	Keep []string // the members to show; nil: all. If a result has none of them, Keep does not apply to it
	Drop []string // the members to leave out
	Top  int      // of each array, the elements that are shown, from the first; 0: all
}

// LeftOut counts what an excerpt does not show. What is inside of a member or an element that is left out does not count.
type LeftOut struct {
	Elements int // of arrays
	Members  int // of objects
}

// Of returns what e shows of a value, and what it leaves out; if that is nothing, the value itself. An error is that of the context.
func (e *Excerpt) Of(ctx context.Context, value []byte) (shown []byte, left LeftOut, err error) {
	err = doWork(ctx, len(value), func(w *work) error {
		x := excerptWriter{work: w, top: e.Top}
		keep, drop := pendingPaths(e.Keep), pendingPaths(e.Drop)
		if !x.value(value, keep, drop, len(keep) == 0, 0) {
			x = excerptWriter{work: w, top: e.Top, out: x.out[:0]}
			x.value(value, nil, drop, true, 0)
		}
		shown, left = x.out, x.left
		return w.interrupted()
	})
	if left == (LeftOut{}) {
		return value, left, err
	}
	return clip(shown), left, err
}

// excerptWriter writes an excerpt.
type excerptWriter struct {
	work *work
	top  int
	out  []byte
	left LeftOut
}

// value appends what is shown of a value, and reports whether that is anything. all: everything in it is kept. A scalar is appended even if
// no path of keep leads to it, for the sake of arrays, whose elements keep their index.
func (x *excerptWriter) value(v []byte, keep, drop []pendingPath, all bool, depth int) (any bool) {
	whole := depth == maxDepth || all && x.top == 0 && len(drop) == 0
	switch k := kindOf(v); {
	case k == object && !whole:
		return x.object(v, keep, drop, all, depth)
	case k == array && !whole:
		return x.array(v, keep, drop, all, depth)
	}
	x.out = append(x.out, v...)
	return whole || all
}

// array appends the first elements of an array, and counts the others.
func (x *excerptWriter) array(v []byte, keep, drop []pendingPath, all bool, depth int) (any bool) {
	x.out = append(x.out, '[')
	n := 0
	for start, end := range rawjson.Elements(v) {
		if !x.work.step() {
			break
		}
		if n++; x.top > 0 && n > x.top {
			x.left.Elements++
			continue
		}
		if n > 1 {
			x.out = append(x.out, ',')
		}
		any = x.value(v[start:end], keep, drop, all, depth+1) || any
	}
	x.out = append(x.out, ']')
	return any || all
}

// object appends an object with the members that are shown, and counts the others.
func (x *excerptWriter) object(v []byte, keep, drop []pendingPath, all bool, depth int) (any bool) {
	x.out = append(x.out, '{')
	var keepBelow, dropBelow []pendingPath
	for rawKey, member := range rawjson.Members(v) {
		if !x.work.step() {
			break
		}
		var kept, dropped bool
		kept, keepBelow = matchKey(rawKey, keep, keepBelow[:0], nil)
		dropped, dropBelow = matchKey(rawKey, drop, dropBelow[:0], nil)
		kept = kept || all
		if dropped || !kept && len(keepBelow) == 0 {
			x.left.Members++
			continue
		}
		start, left := len(x.out), x.left
		if any {
			x.out = append(x.out, ',')
		}
		x.out = append(append(x.out, rawKey...), ':')
		if !x.value(member, keepBelow, dropBelow, kept, depth+1) {
			x.out, x.left = x.out[:start], left // nothing in it is kept: remove the key
			x.left.Members++
			continue
		}
		any = true
	}
	x.out = append(x.out, '}')
	return any || all
}
