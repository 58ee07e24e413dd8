package pipelines

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/refs"
)

// program returns the TypeScript that a model would write for a chain in a code mode. It has a line for each step, and a variable for
// each result that is used again. It returns the results of the steps in returned; if that is empty, the result of the last step. steps is
// the JSON array of a chain without ids.
func program(steps []byte, returned []int) string {
	used := map[string]bool{}
	var values []string
	for _, step := range returned {
		name := fmt.Sprintf("r%d", step)
		used[name], values = true, append(values, name)
	}
	var lines []string
	for _, step := range gjson.ParseBytes(steps).Array() {
		args := ""
		if v := step.Get("args"); v.Exists() {
			args = literal(v, used)
		}
		lines = append(lines, fmt.Sprintf("await tools%s(%s);", member(strings.Split(step.Get("fn").Str, ".")...), args))
	}
	for i := range lines {
		switch name := fmt.Sprintf("r%d", i); {
		case i == len(lines)-1 && len(values) == 0:
			lines[i] = "return " + lines[i]
		case used[name]:
			lines[i] = "const " + name + " = " + lines[i]
		}
	}
	if len(values) > 0 {
		lines = append(lines, "return ["+strings.Join(values, ", ")+"];")
	}
	return strings.Join(lines, "\n")
}

// sideBySide returns the minimum number of round trips for the calls of a chain, if a model makes independent calls side by side. Calls
// that write may need more.
func sideBySide(steps []byte) (trips int) {
	depths := map[string]int{}
	for i, step := range gjson.ParseBytes(steps).Array() {
		used := map[string]bool{}
		literal(step.Get("args"), used)
		depth := 0
		for variable := range used {
			depth = max(depth, depths[variable])
		}
		depths[fmt.Sprintf("r%d", i)] = depth + 1
		trips = max(trips, depth+1)
	}
	return trips
}

// literal returns the TypeScript of a value, with variables for its references, and records them in used.
func literal(v gjson.Result, used map[string]bool) string {
	var list []string
	switch {
	case v.IsObject():
		v.ForEach(func(key, value gjson.Result) bool {
			name := key.Raw
			if identifier.MatchString(key.Str) {
				name = key.Str
			}
			list = append(list, name+": "+literal(value, used))
			return true
		})
		return "{" + strings.Join(list, ", ") + "}"
	case v.IsArray():
		for _, element := range v.Array() {
			list = append(list, literal(element, used))
		}
		return "[" + strings.Join(list, ", ") + "]"
	}
	if _, err := refs.Parse(v.Str); err != nil {
		return v.Raw
	}
	step, path, _ := strings.Cut(reference.ReplaceAllString(v.Str, "$1 $2"), " ")
	used["r"+step] = true
	text := "r" + step
	for _, segment := range segments.FindAllStringSubmatch(path, -1) {
		if segment[1] != "" {
			text += member(segment[1])
		} else {
			text += segment[0]
		}
	}
	return text
}

// member returns the TypeScript that reads members by name.
func member(names ...string) (text string) {
	for _, name := range names {
		if identifier.MatchString(name) {
			text += "." + name
		} else {
			text += fmt.Sprintf("[%q]", name)
		}
	}
	return text
}

var (
	identifier = regexp.MustCompile(`^[A-Za-z_$][\w$]*$`)
	reference  = regexp.MustCompile(`^\$(\d+)(.*)$`) // in the data sets, references name steps by number
	segments   = regexp.MustCompile(`\.([^.\[]+)|\[\d+\]`)
)
