package chain

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

type objectMember struct{ name, raw string }

// members lists the members of a raw object. Duplicate keys have already been refused.
func members(object []byte) []objectMember {
	var list []objectMember
	gjson.ParseBytes(object).ForEach(func(key, value gjson.Result) bool {
		list = append(list, objectMember{strings.Clone(key.String()), value.Raw})
		return true
	})
	return list
}

// withoutNulls copies an object without the named members that are null.
func withoutNulls(object []byte, names []string) []byte {
	out := []byte{'{'}
	gjson.ParseBytes(object).ForEach(func(key, value gjson.Result) bool {
		if value.Type == gjson.Null && slices.Contains(names, key.Str) {
			return true
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, key.Raw...), ':'), value.Raw...)
		return true
	})
	return append(out, '}')
}

// hasKey reports whether a raw object has a member with this name.
func hasKey(object []byte, name string) bool {
	return hasMember(object, func(key string) bool { return key == name })
}

// hasMember reports whether a raw object has a member whose name satisfies a condition.
func hasMember(object []byte, satisfies func(name string) bool) (ok bool) {
	if len(object) == 0 || !bytes.Contains(object, []byte(":")) {
		return false
	}
	gjson.ParseBytes(object).ForEach(func(key, _ gjson.Result) bool {
		ok = satisfies(key.String())
		return !ok
	})
	return ok
}
