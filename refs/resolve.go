package refs

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// resolve appends the value of b to dst. at becomes the At of an error. If the step has no result, the value is b's default (??), or
// null if s is lenient; otherwise resolve fails.
func (b *boundReference) resolve(work *workMeter, dst []byte, s *Scope, at string) ([]byte, error) {
	var raw []byte
	var err *fault.Error
	if work.inputText {
		raw, err = s.textRoot(b.root, b.number)
	} else {
		raw, err = s.root(b.root, b.number)
	}
	if err == nil {
		err = work.countBytes(len(raw))
	}
	if err != nil {
		err.At = at
		return dst, err
	}
	if len(raw) == 0 {
		switch {
		case b.fallback != "":
			return append(dst, b.fallback...), nil
		case s.Lenient:
			return append(dst, "null"...), nil
		}
		err := s.noResult(b.number)
		err.At = at
		return dst, err
	}
	start := len(dst)
	w := b.walker
	w.limit = start + s.maxBytes()
	if n := len(w.segments); n > 0 && w.segments[n-1].Key == blockData {
		w.blocks = work.blocks
	}
	w.nullPropagates = s.Lenient && b.root == RootStep && s.Steps[b.number].Status == "failed"
	dst, _, absent := w.append(dst, rawjson.View(raw), 0, len(w.segments))
	switch {
	case absent != nil && b.fallback != "" && absent.kind <= isNull: // isAbsent or isNull: a default does not cover the other kinds
		return append(dst[:start], b.fallback...), nil
	case absent != nil:
		err := b.missingFault(rawjson.View(raw), absent)
		err.At = at
		return dst[:start], err
	case b.fallback != "" && string(dst[start:]) == "null":
		return append(dst[:start], b.fallback...), nil
	}
	return dst, nil
}

// walker walks segments into a document. For each segment it evaluates one gjson path, a single escaped key or index, so that no other
// feature of gjson's path language is reachable. The first of duplicate keys wins.
//
// A string that begins with a JSON value is called exact if it also ends with it. Other strings may go on with the rest of the document.
type walker struct {
	segments []Segment
	paths    []string // gjson's path of each segment
	exact    bool     // find the end of every value on the way, for the message of a fault
	limit    int      // maximum length of the output

	blocks Blocks // of which the walk gives the bytes; nil: none

	// nullPropagates makes a walk into null give null. It is for the result of a failed step, in which an element that has no result
	// is null.
	nullPropagates bool
}

func newWalker(segments []Segment) walker {
	w := walker{segments: segments, paths: make([]string, len(segments))}
	for i, s := range segments {
		if s.Kind == At {
			w.paths[i] = strconv.Itoa(s.Index)
		} else {
			w.paths[i] = gjson.Escape(s.Key)
		}
	}
	return w
}

// walkStatus is the result of applying one segment.
type walkStatus uint8

const (
	present  walkStatus = iota
	isAbsent            // the object or array has no such key or element
	isNull              // it is null, but an object or array is needed
	isScalar            // it is a string, number or boolean
	notArray            // [*] or [**] on an object or scalar
	tooLong             // the output exceeds its limit
	isGone              // it is the handle of a block without bytes
)

// absence says where and why a walk found nothing.
type absence struct {
	segment int
	kind    walkStatus
	value   string // the value that the segment was applied to; exact if walker.exact is set
}

// append appends the value that segments from (inclusive) to (exclusive) select in doc, which is exact. short: the walk ended early with
// null, which was appended (see walk). If absent is not nil, out may end with an incomplete value.
func (w *walker) append(dst []byte, doc string, from, to int) (out []byte, short bool, absent *absence) {
	for k := to - 1; k >= from; k-- {
		if w.segments[k].Kind == Flat {
			return w.appendFlat(dst, doc, from, k, to)
		}
	}
	value, i, short, absent := w.walk(doc, from, to)
	switch {
	case absent != nil:
		return dst, false, absent
	case short:
		return append(dst, "null"...), true, nil
	case i == to && w.blocks != nil && value[0] == '"':
		dst, absent = w.appendData(dst, value, i-1)
	case i == to:
		dst = append(dst, value...)
	default:
		dst, absent = w.appendEach(dst, i, to, func(add func(string)) { elements(value, add) })
	}
	if absent == nil && len(dst) > w.limit {
		absent = &absence{i, tooLong, ""}
	}
	return dst, false, absent
}

// blockData is the member of a block that is its handle, and of which a reference gives the bytes.
const blockData = "data"

// appendData appends what stands for the bytes of a block if value, which segment i has selected, is its handle; else value itself.
func (w *walker) appendData(dst []byte, value string, i int) ([]byte, *absence) {
	mark, gone := w.blocks.Refer(value[1 : len(value)-1])
	switch {
	case gone:
		return dst, &absence{i, isGone, value}
	case mark != "":
		return append(append(append(dst, '"'), mark...), '"'), nil
	}
	return append(dst, value...), nil
}

// appendFlat flattens the elements of the value before segment k, and maps the segments after k over them.
func (w *walker) appendFlat(dst []byte, doc string, from, k, to int) (out []byte, short bool, absent *absence) {
	value, i, short, absent := w.walk(doc, from, k+1)
	if absent == nil && !short && i < k {
		// A [*] precedes k: compute its whole value first.
		var whole []byte
		whole, short, absent = w.append(nil, doc, from, k)
		value = string(whole)
		if absent == nil && !short {
			short, absent = w.checkArray(value, k)
		}
	}
	switch {
	case absent != nil:
		return dst, false, absent
	case short:
		return append(dst, "null"...), true, nil
	}
	dst, absent = w.appendEach(dst, k, to, func(add func(string)) {
		elements(value, func(e string) {
			if e[0] == '[' {
				elements(e, add)
			} else {
				add(e)
			}
		})
	})
	return dst, false, absent
}

// appendEach appends an array with the values that the segments after k select in each element. list calls add for each element.
func (w *walker) appendEach(dst []byte, k, to int, list func(add func(string))) ([]byte, *absence) {
	var absent *absence
	dst = append(dst, '[')
	start := len(dst)
	list(func(e string) {
		if absent != nil {
			return
		}
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst, _, absent = w.append(dst, e, k+1, to)
		if absent == nil && len(dst) > w.limit {
			absent = &absence{k, tooLong, ""}
		}
	})
	return append(dst, ']'), absent
}

// elements calls add with each element of an exact array.
func elements(array string, add func(string)) {
	gjson.Result{Type: gjson.JSON, Raw: array}.ForEach(func(_, e gjson.Result) bool {
		add(e.Raw)
		return true
	})
}

// walk follows the segments from (inclusive) to (exclusive). It stops at the first [*] or [**], and returns the array that this applies
// to and its index i; without one it returns the value reached, and i is to. The value is exact. short: the value is null, because a
// ? or nullPropagates allows it.
func (w *walker) walk(doc string, from, to int) (value string, i int, short bool, absent *absence) {
	for i = from; i < to; i++ {
		s := &w.segments[i]
		if s.Kind >= Each {
			short, absent = w.checkArray(doc, i)
			return doc, i, short, absent
		}
		next, kind := child(doc, s, w.paths[i], w.exact || i+1 == len(w.segments) || w.segments[i+1].needsExact())
		if kind != present {
			// A ? also covers the segment before it: see Segment.Optional.
			isNullResult := s.Optional && kind <= isNull || w.nullPropagates && kind == isNull ||
				kind == isAbsent && i+1 < len(w.segments) && w.segments[i+1].Optional
			if isNullResult {
				return "", i, true, nil
			}
			return "", i, false, &absence{i, kind, doc}
		}
		doc = next
	}
	return doc, i, false, nil
}

// checkArray checks that [*] or [**] at segment i can be applied to value: (false, nil) if it is an array. short: it is null, and the
// segment has a ?. Otherwise absent says what is wrong.
func (w *walker) checkArray(value string, i int) (short bool, absent *absence) {
	switch value[0] {
	case '[':
		return false, nil
	case 'n':
		if w.segments[i].Optional {
			return true, nil
		}
		return false, &absence{i, isNull, value}
	}
	return false, &absence{i, notArray, value}
}

// needsExact reports whether the segment needs a value whose end is known.
func (s *Segment) needsExact() bool {
	return s.Kind >= Each || s.lossy()
}

// lossy reports whether gjson may decode the key differently from this package, for which a lone surrogate is U+FFFD.
func (s *Segment) lossy() bool { return strings.ContainsRune(s.Key, utf8.RuneError) }

// child applies one segment (not [*] or [**]) to the value at the start of doc. The result is certain to be exact only if end is set.
func child(doc string, s *Segment, path string, end bool) (string, walkStatus) {
	switch doc[0] {
	case '{':
		if s.Kind == At {
			return "", isAbsent
		}
		if s.lossy() {
			return findLossyMember(doc, s.Key)
		}
		return findMember(doc, path, end)
	case '[':
		if s.Kind == Quoted || s.Kind == Name && !isIndex(s.Key) {
			return "", isAbsent
		}
		if s.Kind == At && s.Index < 0 {
			path = strconv.Itoa(int(gjson.Get(doc, "#").Int()) + s.Index)
		}
		return findWhole(doc, path)
	case 'n':
		return "", isNull
	}
	return "", isScalar
}

// isIndex reports whether a name is an index: at most 18 digits, which always fit 64 bits, without a leading zero.
func isIndex(name string) bool {
	if name == "" || len(name) > 18 || name[0] == '0' && len(name) > 1 {
		return false
	}
	for i := range len(name) {
		if !isDigit(name[i]) {
			return false
		}
	}
	return true
}

// findWhole finds one whole element or member.
func findWhole(doc, path string) (string, walkStatus) {
	if r := gjson.Get(doc, path); r.Exists() {
		return r.Raw, present
	}
	return "", isAbsent
}

// findMember searches larger and larger prefixes of a document: first firstWindow bytes, then windowGrowth times as many each time. An
// early key is thus found without reading the rest.
const firstWindow, windowGrowth = 1 << 10, 8

// findMember finds a member. gjson scans a value to its end before it returns it. If the end is not needed, gjson receives larger
// and larger prefixes of the document instead, and only the beginning of the value is used.
func findMember(doc, path string, end bool) (string, walkStatus) {
	if end {
		return findWhole(doc, path)
	}
	for n := firstWindow; n < len(doc); n *= windowGrowth {
		if r := gjson.Get(doc[:n], path); r.Exists() {
			return doc[r.Index:], present
		}
	}
	r := gjson.Get(doc, path)
	if !r.Exists() {
		return "", isAbsent
	}
	return doc[r.Index:], present
}

// findLossyMember finds a member of an exact object by its key, decoded as encoding/json does.
func findLossyMember(doc, want string) (member string, kind walkStatus) {
	kind = isAbsent
	gjson.Result{Type: gjson.JSON, Raw: doc}.ForEach(func(key, value gjson.Result) bool {
		var name string
		if json.Unmarshal([]byte(key.Raw), &name) == nil && name == want {
			member, kind = value.Raw, present
			return false
		}
		return true
	})
	return member, kind
}

// maxAvailable bounds the keys that the error of a missing value lists, maxCompared the keys that are compared with the missing one.
const maxAvailable, maxCompared = 50, 5000
