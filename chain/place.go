package chain

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// split writes a path of steps and their elements around its innermost element; of is that of the last step, -1 if it has
// no forEach.
func split(path []int, of interval) (prefix string, elements interval, suffix string) {
	at := len(path) - 1
	for at > 0 && path[at] < 0 {
		at -= 2
	}
	switch {
	case at < 0:
		return placeOf(path), of, ""
	case at < len(path)-1:
		of, suffix = interval{path[at], path[at]}, "."+placeOf(path[at+1:])
	}
	return placeOf(append(slices.Clone(path[:at]), -1)), of, suffix
}

// placeOf writes a path as 3[7].1; an element below 0 is left out.
func placeOf(path []int) string {
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

// stepsOf reads a place as placeOf writes it.
func stepsOf(place string) (path []int) {
	for part := range strings.SplitSeq(place, ".") {
		number, element, each := strings.Cut(strings.TrimSuffix(part, "]"), "[")
		step, _ := strconv.Atoi(number)
		index := -1
		if each {
			index, _ = strconv.Atoi(element)
		}
		path = append(path, step, index)
	}
	return path
}

// numbered writes a place that names steps by their ids, such as make[2].1, with their numbers. What is no id of a step stays.
func numbered(steps gjson.Result, place string) string {
	parts := strings.Split(place, ".")
	for i, part := range parts {
		name, element, each := strings.Cut(part, "[")
		var inner gjson.Result
		for number, step := range steps.Array() {
			if text := strconv.Itoa(number); name == text || name == step.Get("id").Str {
				name, inner = text, step.Get("chain.steps")
				break
			}
		}
		if parts[i] = name; each {
			parts[i] += "[" + element
		}
		steps = inner
	}
	return strings.Join(parts, ".")
}

// rangesOf writes elements as 0-41,43.
func rangesOf(list []interval) string {
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

// sizeOf is the number of elements.
func sizeOf(list []interval) (n int) {
	for _, s := range list {
		n += s.last - s.first + 1
	}
	return n
}
