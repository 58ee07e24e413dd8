package schema

import (
	"encoding/json"
	"strconv"
)

// Unknown is a position in arguments whose value is not known yet.
type Unknown struct {
	At    string   // JSON Pointer in the arguments
	Types []string // the JSON Schema types that the value may have; nil: not known
}

// unknownValue is a position whose value is not known.
type unknownValue struct {
	at    []string
	types typeSet
}

// fill puts a sample value of one of the types at the position. A wrong type is then reported, but nothing below the position.
func (u unknownValue) fill(value any) {
	for i, token := range u.at {
		last := i == len(u.at)-1
		switch v := value.(type) {
		case map[string]any:
			if _, ok := v[token]; !ok {
				return
			}
			if last {
				v[token] = u.sample()
			}
			value = v[token]
		case []any:
			n, err := strconv.Atoi(token)
			if err != nil || n < 0 || n >= len(v) {
				return
			}
			if last {
				v[n] = u.sample()
			}
			value = v[n]
		default:
			return
		}
	}
}

func (u unknownValue) sample() any {
	switch {
	case u.types&typeString != 0:
		return ""
	case u.types&(typeInteger|typeFraction) != 0:
		return json.Number("0")
	case u.types&typeObject != 0:
		return map[string]any{}
	case u.types&typeArray != 0:
		return []any{}
	case u.types&typeBoolean != 0:
		return false
	}
	return nil
}

// relation is how a position relates to the unknown values.
type relation uint8

const (
	apart     relation = iota // no unknown value at, above or below it
	above                     // an unknown value is below it
	atUnknown                 // the value at it is unknown
)

// unknownTree holds unknown values by position.
type unknownTree struct {
	below     map[string]*unknownTree
	isUnknown bool
	types     typeSet
}

func newUnknownTree(unknowns []unknownValue) *unknownTree {
	root := &unknownTree{}
	for _, unknown := range unknowns {
		t := root
		for _, token := range unknown.at {
			next := t.below[token]
			if next == nil {
				if t.below == nil {
					t.below = map[string]*unknownTree{}
				}
				next = &unknownTree{}
				t.below[token] = next
			}
			t = next
		}
		if !t.isUnknown {
			t.isUnknown, t.types = true, unknown.types
		}
	}
	return root
}

// relate returns the closest relation of a position to an unknown value. Positions below an unknown value are unknown too.
func (t *unknownTree) relate(position []string) (relation, typeSet) {
	for _, token := range position {
		if t.isUnknown {
			break
		}
		if t = t.below[token]; t == nil {
			return apart, anyType
		}
	}
	switch {
	case t.isUnknown:
		return atUnknown, t.types
	case len(t.below) > 0:
		return above, anyType
	}
	return apart, anyType
}
