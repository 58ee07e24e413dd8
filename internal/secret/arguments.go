package secret

import "github.com/tidwall/gjson"

// Arguments is Redaction for a function whose input schema declares secret arguments; nil if it declares none.
func Arguments(schema []byte) func(args []byte, hide func(value []byte) []byte) []byte {
	for _, secret := range secretProperties(schema) {
		if secret {
			return Redaction(schema)
		}
	}
	return nil
}

// Redaction returns a function that replaces the secret arguments of calls: properties that the input schema marks as passwords, and
// arguments and their members with names of secrets, except for numbers and booleans. It returns a copy in which hide, given the JSON of
// each secret, provides the replacement; without secrets it returns args.
func Redaction(schema []byte) func(args []byte, hide func(value []byte) []byte) []byte {
	isSecret := secretProperties(schema)
	return func(args []byte, hide func(value []byte) []byte) []byte {
		r := redaction{args: args, hide: hide}
		r.members(gjson.ParseBytes(args), isSecret, 0)
		if r.next == 0 {
			return args
		}
		return append(r.out, args[r.next:]...)
	}
}

type redaction struct {
	args []byte
	hide func(value []byte) []byte
	out  []byte // args[:next], without its secrets
	next int
}

// maxDepth is the depth from which nested values are hidden as a whole.
const maxDepth = 100

// members hides the secrets in an object or array. isSecret reports for some members of an object whether they are secret.
func (r *redaction) members(value gjson.Result, isSecret map[string]bool, depth int) {
	isObject := value.IsObject()
	value.ForEach(func(name, member gjson.Result) bool {
		secret, isKnown := isSecret[name.Str]
		if !isKnown {
			secret = isObject && (member.Type == gjson.String || member.Type == gjson.JSON) && Argument(name.Str)
		}
		switch {
		case secret, member.Type == gjson.JSON && depth == maxDepth:
			r.out = append(r.out, r.args[r.next:member.Index]...)
			r.out = append(r.out, r.hide([]byte(member.Raw))...)
			r.next = member.Index + len(member.Raw)
		case member.Type == gjson.JSON:
			r.members(member, nil, depth+1)
		}
		return true
	})
}

// secretProperties returns, for each top-level property of a schema, whether it is secret.
func secretProperties(schema []byte) map[string]bool {
	isSecret := map[string]bool{}
	gjson.GetBytes(schema, "properties").ForEach(func(name, property gjson.Result) bool {
		kind := property.Get("type").Str
		marked := property.Get("format").Str == "password" || Argument(name.Str)
		isSecret[name.Str] = marked && kind != "boolean" && kind != "integer" && kind != "number"
		return true
	})
	return isSecret
}
