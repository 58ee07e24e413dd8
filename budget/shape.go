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

// maxShape is the most characters of a shape.
const maxShape = 80

// outline is what one walk over the top level of a value tells of it.
type outline struct {
	work  *work // in which all that is made of it goes on
	value []byte
	kind  kind
	count int // elements of an array, keys of an object, lines of a text; 1 for any other value

	items   kind   // what all elements of an array are, unknown where they differ or there are none
	first   []byte // the first element of an array
	objects bool   // at least one element of an array is an object

	arrays []string // the keys of the arrays in an object, at most maxArrays
	paged  []byte   // what the paginated mode pages: the array, the one array of an object, the text; nil if nothing

	neverWhole func() bool // whether the value fits no answer; nil: it may
}

// maxArrays is how many keys of arrays an outline tells.
const maxArrays = 8

// outlineOf walks once over the top level of a value.
func outlineOf(w *work, value []byte) outline {
	o := outline{work: w, value: value, kind: kindOf(value), count: 1}
	switch o.kind {
	case array:
		o.ofArray()
	case object:
		o.ofObject()
	case text:
		o.paged = value
		o.count = 0
		for range lines(rawjson.Inside(value)) {
			if o.count++; !w.goesOn() {
				break
			}
		}
	}
	return o
}

func (o *outline) ofArray() {
	o.paged = o.value
	o.count = 0
	for start, end := range rawjson.Elements(o.value) {
		k := kindOf(o.value[start:end])
		if o.count == 0 {
			o.items, o.first = k, o.value[start:end]
		} else if o.items != k {
			o.items = unknown
		}
		o.objects = o.objects || k == object
		if o.count++; !o.work.goesOn() {
			break
		}
	}
}

func (o *outline) ofObject() {
	o.count = 0
	for key, member := range rawjson.Members(o.value) {
		if o.count++; !o.work.goesOn() {
			break
		}
		if kindOf(member) != array {
			continue
		}
		if o.paged = member; len(o.arrays) < maxArrays {
			o.arrays = append(o.arrays, rawjson.Unquote(string(key)))
		}
	}
	if len(o.arrays) != 1 {
		o.paged = nil
	}
}

// longestText is the key of an object's longest text of several lines, "" where there is none.
func (o outline) longestText() (key string) {
	longest := 0
	for name, member := range rawjson.Members(o.value) {
		if !o.work.goesOn() {
			break
		}
		if kindOf(member) == text && len(member) > longest && bytes.Contains(member, []byte(`\n`)) {
			key, longest = rawjson.Unquote(string(name)), len(member)
		}
	}
	return key
}

// shape describes a value in at most the given number of characters: `array of 500 {id,name,…}`,
// `object {count,results[500]}`, `string of 1,204 lines`, `number`.
func (o outline) shape(most int) string {
	switch o.kind {
	case array:
		of := "array of " + thousands(o.count)
		if o.items == object {
			return of + " " + braces(keyNames(o.first), most-utf8.RuneCountInString(of)-1)
		}
		return of + itemNames[o.items]
	case object:
		return "object " + braces(o.memberNames(), most-len("object "))
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

// itemNames are the words for the elements of an array that are all of one kind; empty where they are not.
var itemNames = map[kind]string{array: " arrays", text: " strings", number: " numbers", boolean: " booleans", null: " nulls"}

// keyNames gives the keys of an object.
func keyNames(value []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for key := range rawjson.Members(value) {
			if !yield(rawjson.Unquote(string(key))) {
				return
			}
		}
	}
}

// memberNames gives the keys of an object, those of arrays with the number of elements.
func (o outline) memberNames() iter.Seq[string] {
	return func(yield func(string) bool) {
		for key, member := range rawjson.Members(o.value) {
			name := rawjson.Unquote(string(key))
			if kindOf(member) == array {
				n := 0
				for range rawjson.Elements(member) {
					if n++; !o.work.goesOn() {
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

// braces joins names to `{a,b,…}` of at most the given number of characters; the dots stand for names left out.
func braces(names iter.Seq[string], most int) string {
	var kept []string
	width := len("{}")
	for name := range names {
		w := utf8.RuneCountInString(name) + len(",")
		if width+w-len(",") > most {
			kept = append(kept, "…")
			width += len(",") + 1
			break
		}
		kept = append(kept, name)
		width += w
	}
	// The dots themselves need room: give up the names before them until they have it.
	for n := len(kept); n > 1 && width-len(",") > most; n = len(kept) {
		width -= utf8.RuneCountInString(kept[n-2]) + len(",")
		kept = append(kept[:n-2], "…")
	}
	return "{" + strings.Join(kept, ",") + "}"
}

// thousands writes a number with commas: 1,204.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
