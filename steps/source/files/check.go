package files

import (
	"encoding/json"

	"github.com/onecall-mcp/onecall/fault"
)

// checks holds, by name, the Check of each function that takes patterns. It compiles the patterns that are known before the chain runs.
var checks = map[string]func(args []byte, known func(at string) bool) *fault.Error{
	"fs.grep": func(args []byte, known func(at string) bool) *fault.Error {
		var a grepArgs
		if json.Unmarshal(args, &a) != nil {
			return nil
		}
		if known("/pattern") && known("/literal") && known("/word") && known("/ignoreCase") {
			if _, err := compilePattern(&a); err != nil {
				return faultOf(err)
			}
		}
		return checkGlob("glob", a.Glob, known)
	},
	"fs.find": func(args []byte, known func(at string) bool) *fault.Error {
		var a struct{ Pattern *string }
		if json.Unmarshal(args, &a) != nil {
			return nil
		}
		return checkGlob("pattern", a.Pattern, known)
	},
}

func checkGlob(argument string, pattern *string, known func(at string) bool) *fault.Error {
	if pattern == nil || !known("/"+argument) {
		return nil
	}
	if _, err := argumentRule(argument, *pattern); err != nil {
		return faultOf(err)
	}
	return nil
}

func faultOf(err error) *fault.Error {
	f, _ := fault.As(err)
	return f
}
