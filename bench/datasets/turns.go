package datasets

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/refs"
)

// Turns splits a dialog into a chain for each turn of the user, because the calls of a turn cannot be made before the user has spoken. A
// dialog with a single turn stays one chain.
func (c *Chain) Turns() ([]*Chain, error) {
	written, err := c.Written()
	if err != nil || len(c.Turn) != len(written) {
		return []*Chain{c}, err
	}
	var starts []int
	for i := range written {
		if i == 0 || c.Turn[i] != c.Turn[i-1] {
			starts = append(starts, i)
		}
	}
	return c.split(written, starts)
}

// Parts splits a chain where a model must read a result before it can write the next step. That is before a step that refers to one entry
// of a list with several, or to a member by a key that is the value itself, such as "$2.items.4711.id": the model chose the entry or the
// member. It is also before a step with an argument that stands only within a text of a result. A chain without such a step is not split.
func (c *Chain) Parts() ([]*Chain, error) {
	written, err := c.Written()
	if err != nil {
		return nil, err
	}
	starts := []int{0}
	for i := range written {
		if start := starts[len(starts)-1]; i > start && (c.isChosen(written[i].Args, start, i) || c.isRead(i, start)) {
			starts = append(starts, i)
		}
	}
	return c.split(written, starts)
}

// split makes a chain of the steps from each start to the next. Values from earlier chains are literals in the arguments, because the
// model has read them; therefore a chain returns the results that later chains refer to.
func (c *Chain) split(written []Step, starts []int) ([]*Chain, error) {
	if len(starts) < 2 {
		return []*Chain{c}, nil
	}
	if len(c.LiteralArgs) != len(written) || len(c.Results) != len(written) {
		return nil, fmt.Errorf("%s: %d steps to split, with %d literal_args and %d results", c.ID, len(written), len(c.LiteralArgs),
			len(c.Results))
	}
	later := map[int]bool{} // steps whose results are needed afterwards
	for _, step := range c.Return {
		later[step] = true
	}
	list := make([]*Chain, len(starts))
	end := len(written)
	for i, first := range slices.Backward(starts) { // the last chain first, because later has what the chains after this one need
		var err error
		if list[i], err = c.between(written, first, end, later); err != nil {
			return nil, err
		}
		end = first
	}
	return list, nil
}

// between returns the chain of the steps from first up to, but without, end. The chain returns the results of the
// steps in later, and that of its last step. between adds to later the steps before first that the chain refers to.
func (c *Chain) between(written []Step, first, end int, later map[int]bool) (*Chain, error) {
	t := &Chain{ID: fmt.Sprintf("%s, from step %d", c.ID, first), LiteralArgs: c.LiteralArgs[first:end], Results: c.Results[first:end]}
	type step struct {
		Fn   string `json:"fn"`
		Args any    `json:"args"`
	}
	steps := make([]step, 0, end-first)
	for i := first; i < end; i++ {
		d := json.NewDecoder(bytes.NewReader(c.LiteralArgs[i]))
		d.UseNumber()
		var literal any
		if err := d.Decode(&literal); err != nil {
			return nil, fmt.Errorf("%s: %w", t.ID, err)
		}
		steps = append(steps, step{written[i].Fn, within(written[i].Args, literal, first, later)})
		for _, source := range c.read(i) {
			if source < first {
				later[source] = true
			}
		}
	}
	for i := first; i < end-1; i++ {
		if later[i] {
			t.Return = append(t.Return, i-first)
		}
	}
	if len(t.Return) > 0 {
		t.Return = append(t.Return, end-1-first)
	}
	var err error
	t.Steps, err = rawjson.Marshal(steps)
	return t, err
}

// read returns the earlier steps whose results a model must have read before it can write a step.
func (c *Chain) read(step int) (sources []int) {
	for _, l := range slices.Concat(c.FromText, c.ShortRefs) {
		if source, ok := l.source(); ok && l.Step == step {
			sources = append(sources, source)
		}
	}
	return sources
}

// isRead reports whether one of these is not before start.
func (c *Chain) isRead(step, start int) bool {
	return slices.ContainsFunc(c.read(step), func(source int) bool { return source >= start })
}

// isChosen reports whether a value refers to something that was chosen from the result of one of the steps from start to end.
func (c *Chain) isChosen(value any, start, end int) bool {
	switch v := value.(type) {
	case map[string]any:
		for _, member := range v {
			if c.isChosen(member, start, end) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(element any) bool { return c.isChosen(element, start, end) })
	case string:
		if step, path, ok := parseReference(v); ok && step >= start && step < end {
			return isChoice(c.result(step), path)
		}
	}
	return false
}

// isChoice reports whether a path names one entry of a list with several, or a member by a key that is the value at the end of the path.
func isChoice(result []byte, path string) bool {
	at := gjson.ParseBytes(result)
	var keys []string
	for _, segment := range segments.FindAllStringSubmatch(path, -1) {
		if key := segment[1]; key != "" {
			keys = append(keys, key)
			at = at.Map()[key]
			continue
		}
		list := at.Array()
		if len(list) > 1 {
			return true
		}
		at = gjson.Result{}
		if len(list) > 0 {
			at = list[0]
		}
	}
	return slices.Contains(keys, at.String())
}

var (
	stepReference = regexp.MustCompile(`^\$(\d+)(.*)$`)
	segments      = regexp.MustCompile(`\.([^.\[]+)|\[\d+\]`)
)

// parseReference returns the number of the step that a text refers to, and the path in its result; ok is false if the text is no such
// reference.
func parseReference(text string) (step int, path string, ok bool) {
	match := stepReference.FindStringSubmatch(text)
	if match == nil {
		return 0, "", false
	}
	if _, err := refs.Parse(text); err != nil {
		return 0, "", false
	}
	step, err := strconv.Atoi(match[1])
	return step, match[2], err == nil
}

// within returns a value as a chain that begins with step first writes it. References to the chain's own steps get the numbers of the
// steps in it. References to earlier steps become literal values, and those steps are added to earlier.
func within(value, literal any, first int, earlier map[int]bool) any {
	switch v := value.(type) {
	case map[string]any:
		values, _ := literal.(map[string]any)
		all := map[string]any{}
		for key := range v {
			all[key] = within(v[key], values[key], first, earlier)
		}
		return all
	case []any:
		values, _ := literal.([]any)
		all := make([]any, len(v))
		for i := range v {
			var one any
			if i < len(values) {
				one = values[i]
			}
			all[i] = within(v[i], one, first, earlier)
		}
		return all
	case string:
		switch step, path, ok := parseReference(v); {
		case !ok:
			return v
		case step < first:
			earlier[step] = true
			return literal
		default:
			return fmt.Sprintf("$%d%s", step-first, path)
		}
	}
	return value
}
