package chain

import (
	"slices"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// taken are the names that a hoisted one cannot have, beside the fields of a chain, a fetch and a step: those of the tools
// that call one function or tell of functions.
var taken = []string{"action", "resource", "schema", "again", "names"}

// hoistFault refuses the first name that cannot be hoisted, as it means something already where a request comes in: bad_request, At
// /hoist/N.
func hoistFault(names []string) *fault.Error {
	for i, name := range names {
		switch {
		case name == "":
			return fault.New(fault.BadRequest, "a hoisted name is empty: drop it").Under(fault.Index("/hoist", i))
		case requestShape.field(name) != nil || fetchShape.field(name) != nil || stepShape.field(name) != nil || slices.Contains(taken, name):
			return fault.New(fault.BadRequest, "%q cannot be hoisted: it is a field of the contract; give it in common instead", name).Under(fault.Index("/hoist", i))
		}
	}
	return nil
}

// hoist takes a member of the top level that is named in Options.Hoist; null is as if it were not there.
func (d *decoder) hoist(r *request, name string, v gjson.Result) bool {
	if !slices.Contains(d.hoisted, name) {
		return false
	}
	if v.Type != gjson.Null {
		r.hoisted = append(r.hoisted, objectMember{name, v.Raw})
	}
	return true
}

// common adds the hoisted members to those of `common`.
func (d *decoder) common(r *request) {
	for _, m := range r.hoisted {
		if hasKey(r.Common, m.name) {
			d.fault(fault.BadRequest, fault.Key("", m.name), "%s stands here and in common: give it once", m.name)
		}
	}
	r.Common = appendObject(nil, append(members(r.Common), r.hoisted...))
}

// commonAt is the place of a member of `common`.
func (r *request) commonAt(name string) string {
	if slices.ContainsFunc(r.hoisted, func(m objectMember) bool { return m.name == name }) {
		return fault.Key("", name)
	}
	return fault.Key("/common", name)
}
