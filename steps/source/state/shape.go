package state

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// maxShape bounds a shape, in characters.
const maxShape = 60

// shapeOf tells what a value is: {a, b} of an object, the length of a list with the shape of its first element, else its type.
func shapeOf(value gjson.Result) string {
	switch {
	case value.IsObject():
		var names []string
		value.ForEach(func(key, _ gjson.Result) bool {
			names = append(names, key.String())
			return len(names) < maxShape
		})
		return fault.ClipRunes("{"+strings.Join(names, ", ")+"}", maxShape)
	case value.IsArray():
		n := value.Get("#").Int()
		if n == 0 {
			return "[]"
		}
		return fault.ClipRunes(fmt.Sprintf("[%d] of %s", n, shapeOf(value.Get("0"))), maxShape)
	}
	return strings.ToLower(value.Type.String())
}
