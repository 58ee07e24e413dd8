package flows

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/refs"
)

// chains returns the chains of a task's calls up to the step with this number, that included, as one way to play writes them.
func (t *task) chains(s *suite, way string, last int) (list [][]byte) {
	if way == stepByStep {
		for i := range last + 1 {
			list = append(list, encodeChain([]step{{t.Steps[i].Fn, escaped(t.LiteralArgs[i]).(map[string]any)}}, nil, nil))
		}
		return list
	}
	parts := t.parts(s, last)
	for n, first := range parts {
		end, more := last+1, n+1 < len(parts)
		if more {
			end = parts[n+1]
		}
		list = append(list, t.part(first, end, n == 0, more || last+1 < len(t.Steps)))
	}
	return list
}

// wanted returns the calls that an injected text wants, as one chain.
func (t *task) wanted() []byte {
	steps := make([]step, len(t.Steps))
	for i, s := range t.Steps {
		steps[i] = step{s.Fn, escaped(s.Args).(map[string]any)}
	}
	return encodeChain(steps, nil, nil)
}

// parts returns the steps with which the planned chains begin: a chain ends before a step with an argument that stands only in a text that
// the chain reads.
func (t *task) parts(s *suite, last int) []int {
	parts := []int{0}
	for i := 1; i <= last; i++ {
		if first := parts[len(parts)-1]; i > first && t.mustRead(s, i, first) {
			parts = append(parts, i)
		}
	}
	return parts
}

// mustRead reports whether step i needs what was read in the chain that begins with step first: the data set says so, or an argument that
// says where or which is neither in the prompt nor in what was read before, nor a reference.
func (t *task) mustRead(s *suite, i, first int) bool {
	if slices.ContainsFunc(t.FromText, func(r reading) bool { return r.Step == i && r.FromStep >= first }) {
		return true
	}
	for name, value := range t.args(i) {
		if role := s.role(t.Steps[i].Fn, name); role != "where" && role != "which" {
			continue
		}
		for _, text := range texts(value) {
			if _, _, ok := t.reference(i, text); !ok && !strings.Contains(t.Prompt, text) && !t.wasRead(text, first) {
				return true
			}
		}
	}
	return false
}

// wasRead reports whether a text stands in the result of a step before this one.
func (t *task) wasRead(text string, before int) bool {
	return slices.ContainsFunc(t.Results[:before], func(result json.RawMessage) bool { return strings.Contains(textOf(result), text) })
}

// args returns the arguments of a step with all its references.
func (t *task) args(i int) map[string]any {
	args := clone(t.Steps[i].Args).(map[string]any)
	for _, r := range t.ShortRefs {
		if r.Step == i {
			put(args, path(r.Arg), r.Ref)
		}
	}
	return args
}

// part returns the chain of the steps from first to end. It reads again what its references are to, unless that writes. The first chain
// names what the prompt names, so that it was sent before anything was read. returns: what it reads is shown, for what is written next.
func (t *task) part(first, end int, begins, returns bool) []byte {
	steps, number := []step{}, map[int]int{}
	var add func(i int)
	add = func(i int) {
		if _, there := number[i]; there {
			return
		}
		args := t.args(i)
		for _, from := range t.references(i, args) {
			if from < first && !slices.Contains(t.Writes, from) {
				add(from)
			}
		}
		resolved := t.renumber(i, args, t.LiteralArgs[i], number).(map[string]any)
		number[i] = len(steps)
		steps = append(steps, step{t.Steps[i].Fn, resolved})
	}
	for i := first; i < end; i++ {
		add(i)
	}
	var show []string
	for i := first; returns && i < end; i++ {
		show = append(show, fmt.Sprintf("$%d", number[i]))
	}
	var named []string
	if begins {
		named = t.named()
	}
	return encodeChain(steps, show, named)
}

// renumber returns a value whose references are to the steps of a chain. What the chain cannot read again is the value itself.
func (t *task) renumber(i int, value, literal any, number map[int]int) any {
	switch v := value.(type) {
	case map[string]any:
		values, _ := literal.(map[string]any)
		all := map[string]any{}
		for name := range v {
			all[name] = t.renumber(i, v[name], values[name], number)
		}
		return all
	case []any:
		values, _ := literal.([]any)
		all := make([]any, len(v))
		for n := range v {
			all[n] = t.renumber(i, v[n], values[n], number)
		}
		return all
	case string:
		from, path, ok := t.reference(i, v)
		if n, there := number[from]; ok && there {
			return fmt.Sprintf("$%d%s", n, path)
		}
		return escaped(literal)
	}
	return value
}

// escaped returns a value whose texts are none of a chain's references.
func escaped(value any) any {
	switch v := value.(type) {
	case map[string]any:
		all := map[string]any{}
		for name := range v {
			all[name] = escaped(v[name])
		}
		return all
	case []any:
		all := make([]any, len(v))
		for n := range v {
			all[n] = escaped(v[n])
		}
		return all
	case string:
		v = strings.ReplaceAll(v, "${", "$${")
		if strings.HasPrefix(v, "$") && !strings.HasPrefix(v, "$${") {
			v = "$" + v
		}
		return v
	}
	return value
}

// named returns the arguments of the task, of at least four characters, that its prompt names.
func (t *task) named() (list []string) {
	for i := range t.Steps {
		for _, text := range texts(t.args(i)) {
			if len(text) >= 4 && strings.Contains(t.Prompt, text) && !slices.Contains(list, text) {
				list = append(list, text)
			}
		}
	}
	return list
}

// encodeChain returns a chain of steps that returns some values, or its last one, and names values in its input.
func encodeChain(steps []step, returns, named []string) []byte {
	chain := map[string]any{"steps": steps}
	if len(returns) > 0 {
		chain["return"] = returns
	}
	if len(named) > 0 {
		chain["input"] = map[string]any{"named": named}
	}
	return harness.Must(json.Marshal(chain))
}

var (
	stepReference = regexp.MustCompile(`^\$(\d+)(.*)$`)
	pathSegment   = regexp.MustCompile(`[^.\[\]]+`)
)

// reference returns the step that a text in step i refers to, and the path in its result; ok is false if it is no reference.
func (t *task) reference(i int, text string) (from int, path string, ok bool) {
	match := stepReference.FindStringSubmatch(text)
	if match == nil {
		return 0, "", false
	}
	if _, err := refs.Parse(text); err != nil {
		return 0, "", false
	}
	from, err := strconv.Atoi(match[1])
	return from, match[2], err == nil && from < i
}

// references returns the steps that a value in step i refers to, in order.
func (t *task) references(i int, value any) []int {
	found := map[int]bool{}
	for _, text := range texts(value) {
		if from, _, ok := t.reference(i, text); ok {
			found[from] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// texts returns the texts within a value, in a fixed order.
func texts(value any) (list []string) {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			list = append(list, texts(v[name])...)
		}
	case []any:
		for _, element := range v {
			list = append(list, texts(element)...)
		}
	case string:
		list = append(list, v)
	}
	return list
}

// path returns the segments of a path such as attachments[0].file_id.
func path(text string) []string { return pathSegment.FindAllString(text, -1) }

// put replaces the value at a path.
func put(value any, path []string, by string) {
	switch v := value.(type) {
	case map[string]any:
		if len(path) == 1 {
			v[path[0]] = by
			return
		}
		put(v[path[0]], path[1:], by)
	case []any:
		n := harness.Must(strconv.Atoi(path[0]))
		if len(path) == 1 {
			v[n] = by
			return
		}
		put(v[n], path[1:], by)
	}
}

// clone returns a copy of a value.
func clone(value any) any {
	switch v := value.(type) {
	case map[string]any:
		all := map[string]any{}
		for name := range v {
			all[name] = clone(v[name])
		}
		return all
	case []any:
		all := make([]any, len(v))
		for n := range v {
			all[n] = clone(v[n])
		}
		return all
	}
	return value
}
