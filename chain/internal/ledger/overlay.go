package ledger

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// overlay returns a chain in which each field that was sent replaces the chain's own. If `steps` was sent, the chain's own `return` is
// dropped. `replace` replaces single steps, by number or id; replaced has their pointers in the request, by number.
func overlay(chain []byte, sent *rawjson.Table) (text []byte, replaced map[int]string, _ *fault.Error) {
	merged := rawjson.NewTable(chain)
	if sent.Has("steps") {
		merged.Remove("return")
		if sent.Has("replace") {
			return nil, nil, fault.New(fault.BadRequest,
				"replace is sent together with steps: send all steps, or only the ones to replace").Under("/replace")
		}
	}
	for _, m := range sent.List {
		switch {
		case m.Name == "replace" && m.Raw != "null":
			steps, places, f := replaceSteps(gjson.Parse(merged.Get("steps")), gjson.Parse(m.Raw))
			if f != nil {
				return nil, nil, f
			}
			merged.Set("steps", steps)
			replaced = places
		case !slices.Contains(facts.ResumeFields, m.Name):
			merged.Set(m.Name, m.Raw)
		}
	}
	return rawjson.AppendObject(nil, merged.List), replaced, nil
}

// replaceSteps returns an array of steps, some of them replaced, and the pointers of these in the request, by number.
func replaceSteps(steps, replacements gjson.Result) (text string, places map[int]string, f *fault.Error) {
	if !replacements.IsObject() {
		return "", nil, fault.New(fault.BadRequest, "must be an object of whole steps by their number or id, as in {\"2\":{\"fn\":…}}%s",
			decode.InsteadOf("object", replacements)).Under("/replace")
	}
	list := steps.Array()
	var known []string
	for i, step := range list {
		known = append(known, strconv.Itoa(i))
		if id := step.Get("id").Str; id != "" {
			known = append(known, id)
		}
	}
	places = map[int]string{}
	replacements.ForEach(func(key, step gjson.Result) bool {
		n, err := strconv.Atoi(key.Str)
		if err != nil {
			n = slices.IndexFunc(list, func(s gjson.Result) bool { return s.Get("id").Str == key.Str })
		}
		if n < 0 || n >= len(list) {
			f = fault.New(fault.BadRequest, "the run has no step %s", fault.ClipRunes(key.Str, 60)).Under(fault.Key("/replace", key.Str))
			f.Available, f.Nearest = known, fault.Nearest(key.Str, known, 1)
			return false
		}
		list[n], places[n] = step, fault.Key("/replace", key.Str)
		if err != nil && step.IsObject() && !step.Get("id").Exists() { // it is named by its id, to which other steps refer
			list[n] = gjson.Parse(withID(step.Raw, key.Raw))
		}
		return true
	})
	raw := make([]string, len(list))
	for i, step := range list {
		raw[i] = step.Raw
	}
	return "[" + strings.Join(raw, ",") + "]", places, f
}

// withID returns an object that has no id with one, a JSON string.
func withID(object, id string) string {
	members := strings.TrimSpace(object[1:])
	if members != "}" {
		members = "," + members
	}
	return `{"id":` + id + members
}

// resolveIDs replaces the ids in a path, such as make[2].1, by step numbers. Unknown ids stay.
func resolveIDs(steps gjson.Result, path string) string {
	segments := strings.Split(path, ".")
	for i, segment := range segments {
		name, element, isElement := strings.Cut(segment, "[")
		var inner gjson.Result
		for number, step := range steps.Array() {
			if text := strconv.Itoa(number); name == text || name == step.Get("id").Str {
				name, inner = text, step.Get("chain.steps")
				break
			}
		}
		if segments[i] = name; isElement {
			segments[i] += "[" + element
		}
		steps = inner
	}
	return strings.Join(segments, ".")
}
