package secret

import "github.com/tidwall/gjson"

// Arguments returns Redaction for a function whose input schema declares secret arguments; nil if it declares none.
func Arguments(schema []byte) func(args []byte, hide func(value []byte) []byte) []byte {
	for _, secret := range declared(schema) {
		if secret {
			return Redaction(schema)
		}
	}
	return nil
}

// Redaction finds the arguments of a function that are secret: properties that its input schema marks as passwords, and
// arguments and members of arguments with the names of secrets, but for numbers and booleans. What it returns copies
// arguments with what hide makes of each secret, a JSON value, in its place; without a secret it returns args.
func Redaction(schema []byte) func(args []byte, hide func(value []byte) []byte) []byte {
	known := declared(schema)
	return func(args []byte, hide func(value []byte) []byte) []byte {
		r := redaction{args: args, hide: hide}
		r.members(gjson.ParseBytes(args), known, 0)
		if r.from == 0 {
			return args
		}
		return append(r.out, args[r.from:]...)
	}
}

type redaction struct {
	args []byte
	hide func(value []byte) []byte
	out  []byte // args before from, without their secrets
	from int
}

// maxDepth is the depth below which a value is hidden whole.
const maxDepth = 100

// members hides the secrets in an object or array; known reports of members of an object whether they are some.
func (r *redaction) members(value gjson.Result, known map[string]bool, depth int) {
	isObject := value.IsObject()
	value.ForEach(func(name, member gjson.Result) bool {
		secret, isKnown := known[name.Str]
		if !isKnown {
			secret = isObject && (member.Type == gjson.String || member.Type == gjson.JSON) && Argument(name.Str)
		}
		switch {
		case secret, member.Type == gjson.JSON && depth == maxDepth:
			r.out = append(r.out, r.args[r.from:member.Index]...)
			r.out = append(r.out, r.hide([]byte(member.Raw))...)
			r.from = member.Index + len(member.Raw)
		case member.Type == gjson.JSON:
			r.members(member, nil, depth+1)
		}
		return true
	})
}

// declared reports of each top-level property of a schema whether it is a secret.
func declared(schema []byte) map[string]bool {
	known := map[string]bool{}
	gjson.GetBytes(schema, "properties").ForEach(func(name, property gjson.Result) bool {
		kind := property.Get("type").Str
		marked := property.Get("format").Str == "password" || Argument(name.Str)
		known[name.Str] = marked && kind != "boolean" && kind != "integer" && kind != "number"
		return true
	})
	return known
}
