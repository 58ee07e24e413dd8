package chain

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// resolveIDs replaces the ids in a path, such as make[2].1, by step numbers. Unknown ids stay.
func resolveIDs(steps gjson.Result, path string) string {
	segments := strings.Split(path, ".")
	for i, segment := range segments {
		name, element, isElement := strings.Cut(segment, "[")
		var inner gjson.Result
		for number, step := range steps.Array() {
			if text := strconv.Itoa(number); name == text || name == step.Get("id").Str {
				name, inner = text, step.Get("chain.steps")
				break
			}
		}
		if segments[i] = name; isElement {
			segments[i] += "[" + element
		}
		steps = inner
	}
	return strings.Join(segments, ".")
}
