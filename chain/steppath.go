package chain

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// splitPath formats a path in three parts: the steps up to the innermost element, that element, and the steps after it. A path alternates
// step numbers and elements; the element of a step without forEach is -1. If the innermost element is that of the path's last step, or if
// there is none, last stands in its place: the elements of the last step, or -1 to -1 if it has no forEach.
func splitPath(path []int, last interval) (prefix string, elements interval, suffix string) {
	at := len(path) - 1
	for at > 0 && path[at] < 0 {
		at -= 2
	}
	switch {
	case at < 0:
		return formatPath(path), last, ""
	case at < len(path)-1:
		last, suffix = interval{path[at], path[at]}, "."+formatPath(path[at+1:])
	}
	return formatPath(append(slices.Clone(path[:at]), -1)), last, suffix
}

// formatPath writes a path as 3[7].1. A negative element is left out.
func formatPath(path []int) string {
	var text []byte
	for i := 0; i < len(path); i += 2 {
		if i > 0 {
			text = append(text, '.')
		}
		text = strconv.AppendInt(text, int64(path[i]), 10)
		if path[i+1] >= 0 {
			text = append(strconv.AppendInt(append(text, '['), int64(path[i+1]), 10), ']')
		}
	}
	return string(text)
}

// parsePath reads a path as formatPath writes it.
func parsePath(text string) (path []int) {
	for segment := range strings.SplitSeq(text, ".") {
		number, element, isElement := strings.Cut(strings.TrimSuffix(segment, "]"), "[")
		step, _ := strconv.Atoi(number)
		index := -1
		if isElement {
			index, _ = strconv.Atoi(element)
		}
		path = append(path, step, index)
	}
	return path
}

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

// formatIntervals writes elements as 0-41,43.
func formatIntervals(list []interval) string {
	var text []byte
	for i, s := range list {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(s.first), 10)
		if s.last > s.first {
			text = strconv.AppendInt(append(text, '-'), int64(s.last), 10)
		}
	}
	return string(text)
}

// countElements returns the number of elements.
func countElements(list []interval) (n int) {
	for _, s := range list {
		n += s.last - s.first + 1
	}
	return n
}
