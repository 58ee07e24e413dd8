package schema

import (
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// Unbounded is an upper bound that a schema does not give.
const Unbounded = -1

// Size returns between how many bytes the compact JSON of a value is long that a compact schema allows at a path; high is Unbounded where
// the schema does not bound it. Numbers count as those of 64 bits. A path may have keys and indices.
func Size(schema []byte, path []Element) (low, high int64) {
	s, at, ok := sizerAt(schema, path)
	if !ok {
		return 1, Unbounded
	}
	r := s.size(at, 0)
	return r.low, r.high
}

// Items returns between how many elements an array has that a compact schema allows at a path; high is Unbounded where the schema does not
// bound it.
func Items(schema []byte, path []Element) (low, high int64) {
	s, at, ok := sizerAt(schema, path)
	if !ok {
		return 0, Unbounded
	}
	at = s.resolve(at)
	return whole(child(at, "minItems"), 0), whole(child(at, "maxItems"), Unbounded)
}

// sizerAt returns the schema at a path, as far as keys of properties and indices of items lead there.
func sizerAt(schema []byte, path []Element) (s *sizer, at gjson.Result, ok bool) {
	if len(schema) == 0 {
		return nil, at, false
	}
	s = &sizer{walker: newWalker(schema)}
	at = s.root
	for _, element := range path {
		at = s.resolve(at)
		switch {
		case element.Each, element.Optional:
			return nil, at, false
		case element.Index:
			if child(at, "prefixItems").Exists() { // the first elements have schemas of their own
				return nil, at, false
			}
			at = child(at, "items")
		default:
			at = child(child(at, "properties"), element.Key)
		}
	}
	return s, at, at.IsObject()
}

// whole returns a whole number from 0; fallback if at is none.
func whole(at gjson.Result, fallback int64) int64 {
	if at.Type != gjson.Number || at.Num < 0 || at.Num > maxSize || at.Num != math.Trunc(at.Num) {
		return fallback
	}
	return int64(at.Num)
}

// sizer bounds the lengths of the values that a schema allows.
type sizer struct {
	walker
	seen int // the schemas so far
}

// Bounds of the work for one schema, which may refer to itself; and the bytes of what is written in at most so many. maxSize is far above
// any limit, and far from overflow.
const (
	maxSized, maxSizedDepth = 2000, 32
	maxSize                 = 1 << 40
	integerBytes            = 20 // -9223372036854775808
	numberBytes             = 24 // -1.7976931348623157e+308
)

// sizes are bounds of a length.
type sizes struct{ low, high int64 }

var anySize = sizes{1, Unbounded}

// or returns the bounds of what is within one of two.
func (s sizes) or(o sizes) sizes {
	s.low = min(s.low, o.low)
	if s.high == Unbounded || o.high == Unbounded {
		s.high = Unbounded
	} else {
		s.high = max(s.high, o.high)
	}
	return s
}

// and returns the bounds of what is within both.
func (s sizes) and(o sizes) sizes {
	s.low = max(s.low, o.low)
	if s.high == Unbounded || o.high != Unbounded && o.high < s.high {
		s.high = o.high
	}
	return s
}

// plus returns the bounds of the sum.
func (s sizes) plus(o sizes) sizes {
	s.low = min(s.low+o.low, maxSize)
	if s.high == Unbounded || o.high == Unbounded {
		s.high = Unbounded
	} else {
		s.high = min(s.high+o.high, maxSize)
	}
	return s
}

// size bounds the values of a schema.
func (s *sizer) size(schema gjson.Result, depth int) sizes {
	target := s.resolve(schema)
	if s.seen++; s.seen > maxSized || depth > maxSizedDepth || !target.IsObject() {
		return anySize
	}
	all := s.ownSize(target, depth)
	for _, branch := range each(child(target, "allOf")) {
		all = all.and(s.size(branch, depth+1))
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		var union *sizes
		for _, branch := range each(child(target, keyword)) {
			b := s.size(branch, depth+1)
			if union != nil {
				b = union.or(b)
			}
			union = &b
		}
		if union != nil {
			all = all.and(*union)
		}
	}
	if isNullable(schema) || isNullable(target) {
		all = all.or(sizes{4, 4})
	}
	return all
}

// ownSize bounds the values by a schema's own keywords, without its branches.
func (s *sizer) ownSize(schema gjson.Result, depth int) sizes {
	values := elements(child(schema, "enum"))
	if constant := child(schema, "const"); constant.Exists() {
		values = []gjson.Result{constant}
	}
	var union *sizes
	add := func(b sizes) {
		if union != nil {
			b = union.or(b)
		}
		union = &b
	}
	for _, value := range values {
		add(sizeOf(value))
	}
	if union != nil {
		return *union
	}
	types := localTypes(schema)
	if types&typeNull != 0 {
		add(sizes{4, 4})
	}
	if types&typeBoolean != 0 {
		add(sizes{4, 5})
	}
	switch {
	case types&typeFraction != 0:
		add(sizes{1, numberBytes})
	case types&typeInteger != 0:
		add(sizes{1, integerBytes})
	}
	if types&typeString != 0 {
		add(textSize(whole(child(schema, "minLength"), 0), whole(child(schema, "maxLength"), Unbounded)))
	}
	if types&typeArray != 0 {
		add(s.arraySize(schema, depth))
	}
	if types&typeObject != 0 {
		add(s.objectSize(schema, depth))
	}
	if union == nil {
		return anySize
	}
	return *union
}

// sizeOf bounds how long a value can be written.
func sizeOf(value gjson.Result) sizes {
	switch {
	case value.IsObject(), value.IsArray():
		return sizes{2, Unbounded}
	case value.Type == gjson.String:
		n := int64(utf8.RuneCountInString(value.Str))
		return sizes{int64(len(value.Str)) + 2, textSize(n, n).high}
	case value.Type == gjson.Number:
		return sizes{1, max(numberBytes, int64(len(value.Raw)))}
	}
	return sizes{int64(len(value.Raw)), int64(len(value.Raw))}
}

// escapedBytes is the length of the longest spelling of a character, two escapes.
const escapedBytes = len(`\ud83d\ude00`)

// textSize bounds a text by its characters.
func textSize(low, high int64) sizes {
	if high != Unbounded {
		high = min(int64(escapedBytes)*high+2, maxSize)
	}
	return sizes{low + 2, high}
}

func (s *sizer) arraySize(schema gjson.Result, depth int) sizes {
	low, high := whole(child(schema, "minItems"), 0), whole(child(schema, "maxItems"), Unbounded)
	item := anySize
	if items := child(schema, "items"); items.IsObject() && !child(schema, "prefixItems").Exists() {
		item = s.size(items, depth+1)
	}
	array := sizes{2 + low*(item.low+1) - min(low, 1), Unbounded}
	switch {
	case high == 0:
		array.high = 2
	case high != Unbounded && item.high != Unbounded && high < maxSize/(item.high+1):
		array.high = 1 + high*(item.high+1)
	}
	array.low = min(array.low, maxSize)
	return array
}

func (s *sizer) objectSize(schema gjson.Result, depth int) sizes {
	required := map[string]bool{}
	for _, name := range elements(child(schema, "required")) {
		required[name.Str] = true
	}
	object := sizes{2, 2}
	if child(schema, "additionalProperties").Type != gjson.False || child(schema, "patternProperties").Exists() {
		object.high = Unbounded
	}
	for name, property := range each(child(schema, "properties")) {
		member := sizeOf(name).plus(sizes{2, 2}).plus(s.size(property, depth+1)) // with a colon and a comma
		if !required[name.Str] {
			member.low = 0
		}
		object = object.plus(member)
		delete(required, name.Str)
	}
	for name := range required {
		object.low += int64(len(strconv.Quote(name)))
	}
	if object.low > 2 {
		object.low-- // no comma follows the last member
	}
	return object
}
