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

// Turns splits a dialog into a chain for each turn of the user, as nobody can make the calls of a turn before the user has spoken. A chain
// of a single turn is the only one.
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

// Parts splits a chain where a model must read a result before it can write the next step: before a step that names an entry of a list
// of several, or a member by a key that is the value itself, such as "$2.items.4711.id". That was chosen. A chain without such a step is
// the only one.
func (c *Chain) Parts() ([]*Chain, error) {
	written, err := c.Written()
	if err != nil {
		return nil, err
	}
	starts := []int{0}
	for i := range written {
		if start := starts[len(starts)-1]; i > start && c.chosen(written[i].Args, start, i) {
			starts = append(starts, i)
		}
	}
	return c.split(written, starts)
}

// split makes a chain of the steps from each start to the next. Values of earlier chains stand in the arguments as they are: the model has
// read them, and so a chain returns the results that later ones refer to.
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
	for i, first := range slices.Backward(starts) {
		var err error
		if list[i], err = c.between(written, first, end, later); err != nil {
			return nil, err
		}
		end = first
	}
	return list, nil
}

// between is the chain of the steps from first to end. It adds the steps before them that it refers to.
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

// chosen reports whether a value refers to an entry that was chosen from the result of one of the steps from start to end.
func (c *Chain) chosen(value any, start, end int) bool {
	switch v := value.(type) {
	case map[string]any:
		for _, member := range v {
			if c.chosen(member, start, end) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(element any) bool { return c.chosen(element, start, end) })
	case string:
		if step, path, ok := referred(v); ok && step >= start && step < end {
			return chosenFrom(c.result(step), path)
		}
	}
	return false
}

// chosenFrom reports whether a path names an entry of a list of several, or a member by a key that is the value at its end.
func chosenFrom(result []byte, path string) bool {
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
	ofStep   = regexp.MustCompile(`^\$(\d+)(.*)$`)
	segments = regexp.MustCompile(`\.([^.\[]+)|\[\d+\]`)
)

// referred is the step that a text refers to by its number, and the path in its result; false if it is no such reference.
func referred(text string) (step int, path string, ok bool) {
	match := ofStep.FindStringSubmatch(text)
	if match == nil {
		return 0, "", false
	}
	if _, err := refs.Parse(text); err != nil {
		return 0, "", false
	}
	step, err := strconv.Atoi(match[1])
	return step, match[2], err == nil
}

// within is a value as a chain that begins with step first writes it: references to the chain's steps by their numbers in it, and what
// earlier steps gave literally. Those steps are added to earlier.
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
		switch step, path, ok := referred(v); {
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
