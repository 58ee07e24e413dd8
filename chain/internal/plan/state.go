package plan

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps"
)

// StateUse is a key of $state that a chain reads.
type StateUse struct {
	Key    string
	At     string // the JSON Pointer of a text that reads it
	Needed bool   // it must be there
}

// useState records which key of $state a text reads. That is read once, before the chain runs, so a key that an earlier step changes is a
// fault.
func (c *compiler) useState(u refs.Use) {
	if len(u.Path) == 0 || u.Path[0].Kind > refs.Quoted || u.Path[0].Key == "" {
		c.fault(fault.BadReference, u.At, "$state is read by key: write $state.key, or list the keys with state.list")
		return
	}
	key := u.Path[0].Key
	if p := c.changed[key]; p != nil {
		name := "step " + strconv.Itoa(p.Number)
		if p.ID != "" {
			name += " (" + p.ID + ")"
		}
		c.fault(fault.BadReference, u.At, "$state is read once, before the chain runs, and %s changes %q by %s: read it by state.get after that step",
			name, fault.ClipRunes(key, 60), p.Name())
		return
	}
	for i := range c.State {
		if use := &c.State[i]; use.Key == key {
			if !u.Lenient && !use.Needed {
				use.At, use.Needed = u.At, true
			}
			return
		}
	}
	c.State = append(c.State, StateUse{key, u.At, !u.Lenient})
}

// noteStateChange records the key of $state that a step changes, as far as its arguments say it.
func (c *compiler) noteStateChange(s *StepRequest, p *Step) {
	if p.Fn == nil || !p.Fn.Spec().State || p.Effect == steps.Read {
		return
	}
	var key gjson.Result
	own := true // the key is of the default space
	gjson.ParseBytes(WithCommon(orEmpty(s.Args), p.Common)).ForEach(func(name, value gjson.Result) bool {
		switch p.Fn.Argument(name.String()) {
		case "key":
			key = value
		case "space":
			own = false
		}
		return true
	})
	if !own || key.Type != gjson.String || strings.Contains(key.Str, "$") || c.changed[key.Str] != nil {
		return
	}
	if c.changed == nil {
		c.changed = map[string]*Step{}
	}
	c.changed[key.Str] = p
}
