package plan

import (
	"slices"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// reservedNames are the names that cannot be hoisted, besides the fields of chains, fetches and steps: arguments of the tools that call
// one function or describe functions.
var reservedNames = []string{"action", "resource", "schema", "again", "names"}

// HoistFault refuses the first name that already has a meaning in a request: bad_request, At /hoist/N.
func HoistFault(names []string) *fault.Error {
	for i, name := range names {
		switch {
		case name == "":
			return fault.New(fault.BadRequest, "a hoisted name is empty: drop it").Under(fault.Index("/hoist", i))
		case requestTable.Field(name) != nil || fetchTable.Field(name) != nil || stepTable.Field(name) != nil,
			slices.Contains(reservedNames, name):
			return fault.New(fault.BadRequest, "%q cannot be hoisted: it already has a meaning in requests; give it in common instead",
				name).Under(fault.Index("/hoist", i))
		}
	}
	return nil
}

// takeHoisted accepts a top-level member that Options.Hoist names. null counts as absent.
func (d *decoder) takeHoisted(r *Request, name string, v gjson.Result) bool {
	if !slices.Contains(d.Hoisted, name) {
		return false
	}
	if v.Type != gjson.Null {
		r.hoisted = append(r.hoisted, rawjson.Member{Name: name, Raw: v.Raw})
	}
	return true
}

// mergeHoisted adds the hoisted members to `common`.
func (d *decoder) mergeHoisted(r *Request) {
	for _, m := range r.hoisted {
		if hasKey(r.Common, m.Name) {
			d.Fault(fault.BadRequest, fault.Key("", m.Name), "%s is given here and in common: give it once", m.Name)
		}
	}
	r.Common = rawjson.AppendObject(nil, append(rawjson.ListMembers(r.Common), r.hoisted...))
}

// commonAt returns the JSON Pointer of a member of `common`.
func (r *Request) commonAt(name string) string {
	if slices.ContainsFunc(r.hoisted, func(m rawjson.Member) bool { return m.Name == name }) {
		return fault.Key("", name)
	}
	return fault.Key("/common", name)
}

// hasKey reports whether a raw object has a member with this name.
func hasKey(object []byte, name string) bool {
	return rawjson.HasMember(object, func(key string) bool { return key == name })
}
