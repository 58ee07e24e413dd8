package plan

import (
	"slices"
	"strconv"
	"strings"

	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// flowMark says that the values at a path of a value, with all that is within, have a label. A value without marks has no labels.
type flowMark struct {
	steps.Label
	path []schema.Element
	at   string   // among the arguments of a call: the JSON Pointer of the text that brings it in
	way  *flowWay // how the label came there
}

// flowWay is a step on the way of a label, the last one first.
type flowWay struct {
	before *flowWay // nil: it begins here
	step   *Step    // nil: no step gives it, but text
	level  string   // what comes before the number in the path of the step
	path   []schema.Element
	text   string
}

// Bounds of the marks of one value and of their paths. Past them the whole value has the labels, one mark each, so that none is lost.
const maxMarks, maxMarkPath = 64, 12

// addMark adds a mark, unless another one has it already.
func addMark(marks []flowMark, m flowMark) []flowMark {
	if hasMark(marks, &m) {
		return marks
	}
	if len(marks) < maxMarks {
		m.path = m.path[:min(len(m.path), maxMarkPath)]
		return append(marks, m)
	}
	m.path = nil
	if marks = wholly(marks); hasMark(marks, &m) {
		return marks
	}
	return append(marks, m)
}

// hasMark reports whether one of the marks says what another one does.
func hasMark(marks []flowMark, m *flowMark) bool {
	for i := range marks {
		within := m.path[:min(len(m.path), maxMarkPath)]
		if n := len(marks[i].path); marks[i].Label == m.Label && n <= len(within) && slices.Equal(marks[i].path, within[:n]) {
			return true
		}
	}
	return false
}

// takeMemory returns n zero elements, of memory that is allocated for many at once: a plan has one or two marks for each step.
func takeMemory[T any](memory *[]T, n int) []T {
	const atOnce = 32
	if len(*memory) < n {
		*memory = make([]T, max(n, atOnce))
	}
	taken := (*memory)[:n:n]
	*memory = (*memory)[n:]
	return taken
}

// joinMarks returns the marks of a value that may be either of two.
func joinMarks(a, b []flowMark) []flowMark {
	if len(a) == 0 {
		return slices.Clip(b) // what is appended to it must not be written into that of another value
	}
	a = slices.Clip(a)
	for _, m := range b {
		a = addMark(a, m)
	}
	return a
}

// wholly returns the marks of a value that is made of all parts of another: it has all their labels.
func wholly(marks []flowMark) (whole []flowMark) {
	for _, m := range marks {
		if m.path = nil; !hasMark(whole, &m) {
			whole = append(whole, m)
		}
	}
	return whole
}

// within returns the marks of what a path selects. A path into what has a label gives that label.
func within(marks []flowMark, path []refs.Segment) (selected []flowMark) {
	if len(path) == 0 {
		return marks
	}
	for _, m := range marks {
		var ok bool
		if m.path, ok = pathWithin(m.path, path); ok {
			selected = addMark(selected, m)
		}
	}
	return selected
}

// pathWithin returns where a mark is in what a path selects. ok: it is there.
func pathWithin(marked []schema.Element, path []refs.Segment) (rest []schema.Element, ok bool) {
	for i, segment := range path {
		switch segment.Kind {
		case refs.Flat: // what comes after it is not followed
			return nil, true
		case refs.Each:
			rest = append(rest, eachElement)
		}
		if i >= len(marked) {
			return nil, true
		}
		if !selects(segment, marked[i]) {
			return nil, false
		}
	}
	if len(marked) == len(path) {
		return nil, true
	}
	return append(rest, marked[len(path):]...), true
}

// selects reports whether a segment of a reference may select the element of a path.
func selects(segment refs.Segment, element schema.Element) bool {
	if element.Each || element.Index {
		return true
	}
	if segment.Kind <= refs.Quoted {
		return segment.Key == element.Key
	}
	_, err := strconv.Atoi(element.Key) // it may be an index
	return err == nil
}

// elementsOfArray returns the marks of any one element of an array, also if a mark names an element.
func elementsOfArray(marks []flowMark) (elements []flowMark) {
	for _, m := range marks {
		if len(m.path) > 0 {
			m.path = m.path[1:]
		}
		elements = addMark(elements, m)
	}
	return elements
}

// below returns the marks of a value that has another value at a path.
func below(path []schema.Element, marks []flowMark) []flowMark {
	if len(path) == 0 {
		return marks
	}
	moved := make([]flowMark, len(marks))
	for i, m := range marks {
		moved[i] = m
		moved[i].path = append(slices.Clip(path), m.path...)
	}
	return moved
}

// pointerPath returns the path of a JSON Pointer.
func (f *flows) pointerPath(pointer string) []schema.Element {
	path := takeMemory(&f.pathMemory, strings.Count(pointer, "/"))[:0]
	for pointer != "" {
		part, rest, more := strings.Cut(pointer[1:], "/")
		if pointer = ""; more {
			pointer = "/" + rest
		}
		if strings.Contains(part, "~") {
			part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		}
		path = append(path, schema.Element{Key: part})
	}
	return path
}

// labelsOf returns the labels of marks, each once.
func labelsOf(marks []flowMark) (labels []steps.Label) {
	for _, m := range marks {
		if !slices.Contains(labels, m.Label) {
			labels = append(labels, m.Label)
		}
	}
	return labels
}

// covered reports whether a value with some marks has all labels of others where these have them.
func covered(marks, others []flowMark) bool {
	return !slices.ContainsFunc(others, func(m flowMark) bool { return !hasMark(marks, &m) })
}

// words tells the way, from where it begins: `mail.read (step 0) $result.body`, `expr (step 1)`.
func (w *flowWay) words() (words []string) {
	for ; w != nil; w = w.before {
		if w.step == nil {
			words = append(words, w.text)
			continue
		}
		text := stepWords(w.step, w.level)
		if w.before == nil {
			text += " $result" + steps.FlowPath(w.path)
		}
		words = append(words, text)
	}
	slices.Reverse(words)
	return words
}

// stepWords names a step in a way.
func stepWords(s *Step, level string) string {
	name := s.Name()
	if name == "" {
		name = "inline chain"
	}
	return name + " (step " + level + strconv.Itoa(s.Number) + ")"
}
