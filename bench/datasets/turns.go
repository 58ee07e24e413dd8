package datasets

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/refs"
)

// Turns splits a dialog into a chain for each turn of the user, as nobody can make the calls of a turn before the user has spoken. Values of
// earlier turns stand in the arguments as they are: the model has read them, and so a chain returns the results that later turns refer to.
// A chain of a single turn is the only one.
func (c *Chain) Turns() ([]*Chain, error) {
	written, err := c.Written()
	if err != nil {
		return nil, err
	}
	if len(c.Turn) != len(written) || len(written) == 0 || c.Turn[0] == c.Turn[len(written)-1] {
		return []*Chain{c}, nil
	}
	if len(c.LiteralArgs) != len(written) || len(c.Results) != len(written) {
		return nil, fmt.Errorf("%s: a dialog of %d steps with %d literal_args and %d results", c.ID, len(written), len(c.LiteralArgs), len(c.Results))
	}
	var turns []*Chain
	later := map[int]bool{} // steps that later turns refer to
	for end := len(written); end > 0; {
		first := slices.Index(c.Turn, c.Turn[end-1])
		turn, err := c.turn(written, first, end, later)
		if err != nil {
			return nil, err
		}
		turns, end = append(turns, turn), first
	}
	slices.Reverse(turns)
	return turns, nil
}

// turn is the chain of the steps from first to end. It adds the steps of earlier turns that it refers to.
func (c *Chain) turn(written []Step, first, end int, later map[int]bool) (*Chain, error) {
	t := &Chain{ID: fmt.Sprintf("%s, turn %d", c.ID, c.Turn[first]), LiteralArgs: c.LiteralArgs[first:end], Results: c.Results[first:end]}
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

// ofStep is a reference to a step by its number.
var ofStep = regexp.MustCompile(`^\$(\d+)(.*)$`)

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
		found := ofStep.FindStringSubmatch(v)
		if _, err := refs.Parse(v); err != nil || found == nil {
			return v
		}
		step, err := strconv.Atoi(found[1])
		switch {
		case err != nil:
			return v
		case step < first:
			earlier[step] = true
			return literal
		}
		return fmt.Sprintf("$%d%s", step-first, found[2])
	}
	return value
}
