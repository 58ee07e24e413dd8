package refs

import (
	"math"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// missingFault returns the error of a walk that found nothing, with the existing keys.
func (b *boundReference) missingFault(doc string, absent *absence) *fault.Error {
	text, offsets := b.spell()
	if absent.kind == tooLong {
		return fault.New(fault.LimitExceeded, "%s resolves to more bytes than are allowed. Refer to less of the result.", clip(text))
	}
	if absent.kind == isGone {
		return fault.New(fault.TokenExpired, "The bytes of %s are gone: they are kept for the run that made them, and with its token. "+
			"Call the function again in this chain.", clip(text))
	}
	// Walk again and find the end of every value, to list what exists.
	w := b.walker
	w.exact, w.limit = true, math.MaxInt
	if _, _, exact := w.append(nil, doc, 0, len(w.segments)); exact != nil {
		absent = exact
	}
	offset := offsets[absent.segment]
	e := absenceFault(text[:offset], &b.segments[absent.segment], absent)
	if remedy := b.remedy(absent.segment, e.Available); remedy != "" {
		e.Message += " " + remedy
	}
	return atOffset(e, text, offset)
}

// absenceFault returns the error of applying s to absent.value. before is the text of the reference up to s.
func absenceFault(before string, s *Segment, absent *absence) *fault.Error {
	missing := func(format string, args ...any) *fault.Error {
		return fault.New(fault.ReferenceMissing, format, args...)
	}
	before = clip(before)
	segment := clip(string(Segment{Key: s.Key, Index: s.Index, Kind: s.Kind}.append(nil)))
	switch {
	case absent.kind == isNull:
		return missing("%s is null, so %s cannot be taken of it. Write ? before the segment, or a default with ??, where null is expected.",
			before, segment)
	case absent.kind == isScalar || absent.kind == notArray:
		return missing("%s is %s, so %s cannot be taken of it.", before, kindOf(absent.value), segment)
	case absent.value[0] == '[':
		n := gjson.Get(absent.value, "#").Int()
		if s.Kind == Name && !isIndex(s.Key) || s.Kind == Quoted {
			return missing("%s is an array of length %d and has no key %q. Take an element with [0], or all with [*].", before, n, clip(s.Key))
		}
		return missing("%s has no element %s: its length is %d.", before, segment, n)
	case s.Kind == At:
		e := missing("%s is an object, and %s takes an array's element.", before, segment)
		e.Available, _ = keys(absent.value)
		return e
	}
	e := missing("%s has no key %q.", before, clip(s.Key))
	var all []string
	e.Available, all = keys(absent.value)
	e.Nearest = fault.Nearest(s.Key, all, 3)
	return e
}

// keys lists the keys of an exact object: the first ones to show, and more to compare with.
func keys(object string) (shown, all []string) {
	gjson.Result{Type: gjson.JSON, Raw: object}.ForEach(func(key, _ gjson.Result) bool {
		all = append(all, strings.Clone(key.String()))
		return len(all) < maxCompared
	})
	return all[:min(len(all), maxAvailable)], all
}

func kindOf(raw string) string {
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}
