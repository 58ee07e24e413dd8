package budget

import "github.com/onecall-mcp/onecall/internal/rawjson"

// Limits of a summary.
const (
	summaryKeys  = 10
	summaryItems = 5
	summaryCut   = 100 // characters
)

// summarize answers the mode summary:
//
//	{"shape":"object {count,results[500]}","count":2,"first":{"count":500,"results":"[{\"id\":1,\"name\":\"…"}}
//	{"shape":"array of 500 {id,name}","count":500,"first":[{"id":1,"name":"a"},…]}
//	{"shape":"string of 1,204 lines","count":1204,"first":["line 1\n",…]}
//
// `shape` and `count` are those of the probe. `first` has the first 10 members of an object, the first 5 items of an array or the
// first 5 lines of a text. A value whose JSON has at most 100 characters is unchanged. Any other is a string: the first 100 characters
// of a string's own text or of the value's JSON, and `…`. Longer keys are cut likewise.
func summarize(o outline) []byte {
	s := append([]byte(`{"shape":`), encode(o.shape(maxShape))...)
	s = append(append(s, `,"count":`...), encode(o.count)...)
	s = append(s, `,"first":`...)
	switch o.kind {
	case object:
		s = appendFirst(s, '{', '}', summaryKeys, func(yield func([]byte) bool) {
			for key, member := range rawjson.Members(o.value) {
				if !yield(append(append(shorten(key), ':'), shorten(member)...)) {
					return
				}
			}
		})
	case array:
		s = appendFirst(s, '[', ']', summaryItems, func(yield func([]byte) bool) {
			for start, end := range rawjson.Elements(o.value) {
				if !yield(shorten(o.value[start:end])) {
					return
				}
			}
		})
	case text:
		body := rawjson.Inside(o.value)
		s = appendFirst(s, '[', ']', summaryItems, func(yield func([]byte) bool) {
			for start, end := range lines(body) {
				if !yield(shorten(quoted(body[start:end]))) {
					return
				}
			}
		})
	}
	return append(s, '}')
}

// appendFirst appends at most n of the values between the brackets.
func appendFirst(dst []byte, opening, closing byte, n int, values func(yield func([]byte) bool)) []byte {
	dst = append(dst, opening)
	for value := range values {
		if n == 0 {
			break
		}
		if n--; dst[len(dst)-1] != opening {
			dst = append(dst, ',')
		}
		dst = append(dst, value...)
	}
	return append(dst, closing)
}

// shorten returns a copy of a value of at most 100 characters, or a string that stands for a longer one.
func shorten(value []byte) []byte {
	if _, cut := cutText(value, summaryCut); !cut {
		return append([]byte(nil), value...)
	}
	if kindOf(value) != text {
		head, _ := cutText(value, summaryCut)
		return encode(string(head) + "…")
	}
	head, cut := cutBody(rawjson.Inside(value), summaryCut)
	if !cut {
		return append([]byte(nil), value...)
	}
	return append(append(append([]byte{'"'}, head...), "…"...), '"')
}

// quoted puts the body of a string, with its escapes, between quotes.
func quoted(body []byte) []byte {
	return append(append(append(make([]byte, 0, len(body)+2), '"'), body...), '"')
}
