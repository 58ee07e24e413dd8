package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// Parts of the schemas. Agents read them, so every word costs tokens.
const (
	keyInput      = `"key":{"type":"string","minLength":1,"maxLength":200}`
	spaceInput    = `"space":{"type":"string","pattern":"^[A-Za-z0-9_.-]{1,64}$","description":"default: your own; session: until it ends"}`
	versionInput  = `"ifVersion":{"type":"integer","minimum":0,"description":"only if the version is still this; 0: if the key is free"}`
	ttlInput      = `"ttl":{"type":"string","description":"as 90s or 24h"}`
	versionOutput = `"version":{"type":"integer"}`
	expiresOutput = `"expires":{"type":"string"}`
)

// function builds a function. required and members are the required names of the arguments and of the result, input and output their
// properties.
func (s *Source) function(name, description string, effect steps.Effect, required, input, members, output string,
	c steps.Call) steps.Function {
	return steps.Function{Call: c, Prompt: effect != steps.Read, Spec: steps.Spec{
		Name: name, Description: description, Input: object(input, required), Output: object(output, members),
		Effect: effect, EffectDeclared: true, Deletes: effect == steps.Destroy, Local: true, State: true, Check: checkTimes,
	}}
}

// checkTimes is the Check of the functions: it knows the arguments that are times, whatever their bounds are when the call is made.
func checkTimes(args []byte, known func(at string) bool) *fault.Error {
	for _, name := range []string{"ttl", "wait"} {
		if text := gjson.GetBytes(args, name); text.Type == gjson.String && known("/"+name) {
			if _, err := lifetime(name, text.Str, 0, maxTTL); err != nil {
				f, _ := fault.As(err)
				return f
			}
		}
	}
	return nil
}

// renewing is for a function whose calls a resume makes again.
func renewing(f steps.Function) steps.Function {
	f.Renews = true
	return f
}

func object(properties, required string) json.RawMessage {
	list, _ := json.Marshal(strings.Fields(required))
	var b bytes.Buffer
	err := json.Compact(&b, []byte(`{"type":"object","properties":{`+properties+`},"required":`+string(list)+`,"additionalProperties":false}`))
	if err != nil {
		panic(err) // the schemas are constants of this package
	}
	return b.Bytes()
}

func encode(result any) ([]byte, error) {
	encoded, err := rawjson.Marshal(result)
	if err != nil {
		return nil, &fault.Error{Code: fault.Internal, Message: "the result could not be written as JSON", Err: err}
	}
	return encoded, nil
}

func badArgument(name, format string, args ...any) *fault.Error {
	return fault.New(fault.BadArguments, format, args...).Under(fault.Key("", name))
}

// integer is an integer in any JSON spelling: for a schema 5, 5.0 and 5e0 are equal.
type integer int64

// UnmarshalJSON implements json.Unmarshaler.
func (n *integer) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return errors.New("not a whole number")
	}
	*n = integer(f)
	return nil
}
