package plan

import (
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/refs"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// elements returns how many elements the forEach of a step has. before has the bounds of the steps before it.
func (b *Bounder) elements(p *Plan, s *Step, before []stepBound, input []byte) Interval {
	n := Interval{0, Unknown, b.MaxElements}
	uses := s.ForEach.Uses()
	if b.constant(uses, s.ForEach.String(), input) {
		list, err := s.ForEach.Resolve(b.Context, &refs.Scope{Input: input})
		if value := gjson.ParseBytes(list); err == nil && value.IsArray() {
			return exactly(value.Get("#").Int()).AtMost(b.MaxElements)
		}
		return n
	}
	if len(uses) != 1 || !uses[0].Whole || uses[0].Lenient || uses[0].Root != refs.RootStep {
		return n
	}
	from := p.Steps[uses[0].Step]
	path, flat := elementsOf(nil, uses[0].Path)
	switch {
	case flat:
	case len(path) == 0 && from.ForEach != nil:
		n = before[uses[0].Step].elements
	default:
		if o := from.origin.at(path); o.fn != nil && o.arrays == 0 {
			var high int64
			if n.Low, high = schema.Items(o.fn.Spec().Output, o.path); high != schema.Unbounded {
				n.High = high
			}
		}
	}
	return n.AtMost(b.MaxElements)
}
