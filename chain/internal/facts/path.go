package facts

import (
	"slices"
	"strconv"
	"strings"
)

// SplitPath formats a path in three parts: the steps up to the innermost element, that element, and the steps after it. A path alternates
// step numbers and elements; the element of a step without forEach is -1. If the innermost element is that of the path's last step, or if
// there is none, last stands in its place: the elements of the last step, or -1 to -1 if it has no forEach.
func SplitPath(path []int, last Interval) (prefix string, elements Interval, suffix string) {
	at := len(path) - 1
	for at > 0 && path[at] < 0 {
		at -= 2
	}
	switch {
	case at < 0:
		return FormatPath(path), last, ""
	case at < len(path)-1:
		last, suffix = Interval{path[at], path[at]}, "."+FormatPath(path[at+1:])
	}
	return FormatPath(append(slices.Clone(path[:at]), -1)), last, suffix
}

// FormatPath writes a path as 3[7].1. A negative element is left out.
func FormatPath(path []int) string {
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

// ParsePath reads a path as FormatPath writes it.
func ParsePath(text string) (path []int) {
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

// FormatIntervals writes elements as 0-41,43.
func FormatIntervals(list []Interval) string {
	var text []byte
	for i, s := range list {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(s.First), 10)
		if s.Last > s.First {
			text = strconv.AppendInt(append(text, '-'), int64(s.Last), 10)
		}
	}
	return string(text)
}

// CountElements returns the number of elements.
func CountElements(list []Interval) (n int) {
	for _, s := range list {
		n += s.Last - s.First + 1
	}
	return n
}

// StepOf returns the number of the outermost step that a pointer lies in, or -1.
func StepOf(at string) int {
	rest, ok := strings.CutPrefix(at, "/steps/")
	if !ok {
		return -1
	}
	digits, _, _ := strings.Cut(rest, "/")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return -1
	}
	return n
}

// Frame is a running inline chain: the step that it belongs to, and the element of that step's forEach.
type Frame struct {
	Outer *Frame // nil: the step is in the outermost chain
	Step  int
	Index int // -1: the step has no forEach
}

// Path returns the steps and elements that an inline chain is in, outermost first.
func (n *Frame) Path() []int {
	if n == nil {
		return nil
	}
	return append(n.Outer.Path(), n.Step, n.Index)
}
