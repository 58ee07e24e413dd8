package plan

import (
	"iter"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// MaxRemedyChars and maxRemedyMembers bound a suggestion: characters of a text, and members of an object.
const MaxRemedyChars, maxRemedyMembers = 80, 5

// SplitInstead suggests how to make an array of a text.
func SplitInstead(text string) string {
	return ": split it, as in split(" + fault.ClipRunes(text, MaxRemedyChars) + `, "\n")`
}

// MembersInstead suggests the members of an object that are arrays.
func MembersInstead(text string, arrays iter.Seq[string]) string {
	var list []string
	for name := range arrays {
		if identifier.MatchString(name) {
			name = "." + name
		} else {
			name = "[" + string(rawjson.AppendQuote(nil, name)) + "]"
		}
		if list = append(list, fault.ClipRunes(text, MaxRemedyChars)+fault.ClipRunes(name, MaxRemedyChars)); len(list) == maxRemedyMembers {
			break
		}
	}
	if len(list) == 0 {
		return ": of an object, values(" + fault.ClipRunes(text, MaxRemedyChars) + ") is an array"
	}
	return ": take " + strings.Join(list, " or ")
}
