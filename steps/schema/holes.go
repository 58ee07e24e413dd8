package schema

import (
	"encoding/json"
	"strconv"
)

// Hole is a place of the arguments whose value is not known yet.
type Hole struct {
	At    string   // JSON Pointer in the arguments
	Types []string // the JSON Schema types that the value may have; nil: not known; text put together: ["string"]
}

// hole is a place with a value that is not known.
type hole struct {
	at    []string
	types typeSet
}

// fill puts a value of one of the hole's types at its place, so that a wrong type shows, and nothing is found below it.
func (h hole) fill(value any) {
	for i, token := range h.at {
		last := i == len(h.at)-1
		switch v := value.(type) {
		case map[string]any:
			if _, ok := v[token]; !ok {
				return
			}
			if last {
				v[token] = h.sample()
			}
			value = v[token]
		case []any:
			n, err := strconv.Atoi(token)
			if err != nil || n < 0 || n >= len(v) {
				return
			}
			if last {
				v[n] = h.sample()
			}
			value = v[n]
		default:
			return
		}
	}
}

func (h hole) sample() any {
	switch {
	case h.types&typeString != 0:
		return ""
	case h.types&(typeInteger|typeFraction) != 0:
		return json.Number("0")
	case h.types&typeObject != 0:
		return map[string]any{}
	case h.types&typeArray != 0:
		return []any{}
	case h.types&typeBoolean != 0:
		return false
	}
	return nil
}

// relation is where a place stands to the holes.
type relation uint8

const (
	apart  relation = iota // no hole is on its way or below it
	above                  // there is a hole below it
	atHole                 // it is a hole
)

// holeTree holds holes by their places.
type holeTree struct {
	below map[string]*holeTree
	hole  bool
	types typeSet
}

func newHoleTree(holes []hole) *holeTree {
	root := &holeTree{}
	for _, h := range holes {
		t := root
		for _, token := range h.at {
			next := t.below[token]
			if next == nil {
				if t.below == nil {
					t.below = map[string]*holeTree{}
				}
				next = &holeTree{}
				t.below[token] = next
			}
			t = next
		}
		if !t.hole {
			t.hole, t.types = true, h.types
		}
	}
	return root
}

// relate finds the closest relation of a place to a hole. What is below a hole counts as the hole.
func (t *holeTree) relate(place []string) (relation, typeSet) {
	for _, token := range place {
		if t.hole {
			break
		}
		if t = t.below[token]; t == nil {
			return apart, anyType
		}
	}
	switch {
	case t.hole:
		return atHole, t.types
	case len(t.below) > 0:
		return above, anyType
	}
	return apart, anyType
}
