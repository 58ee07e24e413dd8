package datasets

import (
	"github.com/tidwall/gjson"
)

// Short writes steps in the short form, in which a step is named by its function: {"orders.get":{"id":"$0.id"}}.
func Short(list []byte) []byte {
	dst := []byte{'['}
	for i, step := range gjson.ParseBytes(list).Array() {
		if i > 0 {
			dst = append(dst, ',')
		}
		args := "{}"
		if given := step.Get("args"); given.Exists() {
			args = given.Raw
		}
		dst = append(dst, "{"+step.Get("fn").Raw+":"+args...)
		step.ForEach(func(key, value gjson.Result) bool {
			if key.Str != "fn" && key.Str != "args" {
				dst = append(append(append(append(dst, ','), key.Raw...), ':'), value.Raw...)
			}
			return true
		})
		dst = append(dst, '}')
	}
	return append(dst, ']')
}
