package budget

import (
	"bytes"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// maxShape is the maximum number of characters of a shape.
const maxShape = 80

// outline describes the top level of a value, from one walk over it.
type outline struct {
	work  *work // all further work on the value is part of it
	value []byte
	kind  kind
	count int // elements of an array, keys of an object, lines of a text; 1 for any other value

	items     kind   // the kind of all elements of an array; unknown if they differ or there are none
	first     []byte // the first element of an array
	hasObject bool   // at least one element of an array is an object

	arrays []string // the keys of an object's arrays, at most maxArrays
	paged  []byte   // what paginated mode pages: the array, an object's only array, or the text; nil: nothing

	exceedsLimit func() bool // reports whether the value exceeds the limit of any answer; nil: there is no limit
}

// maxArrays is the maximum number of keys in outline.arrays.
const maxArrays = 8

// outlineOf walks once over the top level of a value.
func outlineOf(w *work, value []byte) outline {
	o := outline{work: w, value: value, kind: kindOf(value), count: 1}
	switch o.kind {
	case array:
		o.walkArray()
	case object:
		o.walkObject()
	case text:
		o.paged = value
		o.count = 0
		for range lines(rawjson.Inside(value)) {
			if o.count++; !w.step() {
				break
			}
		}
	}
	return o
}

func (o *outline) walkArray() {
	o.paged = o.value
	o.count = 0
	for start, end := range rawjson.Elements(o.value) {
		k := kindOf(o.value[start:end])
		if o.count == 0 {
			o.items, o.first = k, o.value[start:end]
		} else if o.items != k {
			o.items = unknown
		}
		o.hasObject = o.hasObject || k == object
		if o.count++; !o.work.step() {
			break
		}
	}
}

func (o *outline) walkObject() {
	o.count = 0
	for key, member := range rawjson.Members(o.value) {
		if o.count++; !o.work.step() {
			break
		}
		if kindOf(member) != array {
			continue
		}
		if o.paged = member; len(o.arrays) < maxArrays {
			o.arrays = append(o.arrays, rawjson.Unquote(string(key)))
		}
	}
	if len(o.arrays) != 1 { // paged is the last of several arrays
		o.paged = nil
	}
}

// longestText returns the key of an object's longest text of several lines, or "".
func (o outline) longestText() (key string) {
	longest := 0
	for name, member := range rawjson.Members(o.value) {
		if !o.work.step() {
			break
		}
		if kindOf(member) == text && len(member) > longest && bytes.Contains(member, []byte(`\n`)) {
			key, longest = rawjson.Unquote(string(name)), len(member)
		}
	}
	return key
}

// shape describes a value in at most maxRunes characters: `array of 500 {id,name,…}`, `object {count,results[500]}`, `string of 1,204
// lines`, `number`.
func (o outline) shape(maxRunes int) string {
	switch o.kind {
	case array:
		summary := "array of " + thousands(o.count)
		if o.items == object {
			return summary + " " + braces(keyNames(o.first), maxRunes-utf8.RuneCountInString(summary)-1)
		}
		return summary + itemNames[o.items]
	case object:
		return "object " + braces(o.memberNames(), maxRunes-len("object "))
	case text:
		if o.count == 1 {
			return "string of 1 line"
		}
		return "string of " + thousands(o.count) + " lines"
	case number:
		return "number"
	case boolean:
		return "boolean"
	}
	return "null"
}

// itemNames are the words for the elements of an array that are all of one kind.
var itemNames = map[kind]string{array: " arrays", text: " strings", number: " numbers", boolean: " booleans", null: " nulls"}

// keyNames yields the keys of an object.
func keyNames(value []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for key := range rawjson.Members(value) {
			if !yield(rawjson.Unquote(string(key))) {
				return
			}
		}
	}
}

// memberNames yields the keys of an object, those of arrays with the number of elements.
func (o outline) memberNames() iter.Seq[string] {
	return func(yield func(string) bool) {
		for key, member := range rawjson.Members(o.value) {
			name := rawjson.Unquote(string(key))
			if kindOf(member) == array {
				n := 0
				for range rawjson.Elements(member) {
					if n++; !o.work.step() {
						return
					}
				}
				name = fmt.Sprintf("%s[%d]", name, n)
			}
			if !yield(name) {
				return
			}
		}
	}
}

// braces joins names to `{a,b,…}` of at most maxRunes characters; the ellipsis stands for omitted names.
func braces(names iter.Seq[string], maxRunes int) string {
	var shown []string
	width := len("{}")
	for name := range names {
		w := utf8.RuneCountInString(name) + len(",")
		if width+w-len(",") > maxRunes {
			shown = append(shown, "…")
			width += len(",") + 1
			break
		}
		shown = append(shown, name)
		width += w
	}
	// The ellipsis needs space, too: remove names before it until it fits.
	for n := len(shown); n > 1 && width-len(",") > maxRunes; n = len(shown) {
		width -= utf8.RuneCountInString(shown[n-2]) + len(",")
		shown = append(shown[:n-2], "…")
	}
	return "{" + strings.Join(shown, ",") + "}"
}

// thousands formats a number with commas: 1,204.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
