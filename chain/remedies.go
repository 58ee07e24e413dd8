package chain

import (
	"iter"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// Bounds of a suggestion: characters of a text, and members of an object.
const maxRemedyChars, maxRemedyMembers = 80, 5

func splitInstead(text string) string {
	return ": split it, as in split(" + fault.ClipRunes(text, maxRemedyChars) + `, "\n")`
}

// membersInstead suggests the members of an object that are arrays.
func membersInstead(text string, arrays iter.Seq[string]) string {
	var list []string
	for name := range arrays {
		if identifier.MatchString(name) {
			name = "." + name
		} else {
			name = "[" + string(rawjson.AppendQuote(nil, name)) + "]"
		}
		if list = append(list, fault.ClipRunes(text, maxRemedyChars)+fault.ClipRunes(name, maxRemedyChars)); len(list) == maxRemedyMembers {
			break
		}
	}
	if len(list) == 0 {
		return ": of an object, values(" + fault.ClipRunes(text, maxRemedyChars) + ") is an array"
	}
	return ": take " + strings.Join(list, " or ")
}
