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
// arguments with what hide makes of each secret, a JSON value, in its place.
func Redaction(schema []byte) func(args []byte, hide func(value []byte) []byte) []byte {
	known := declared(schema)
	return func(args []byte, hide func(value []byte) []byte) []byte {
		return (&redaction{hide}).value(nil, gjson.ParseBytes(args), known, 0)
	}
}

type redaction struct{ hide func(value []byte) []byte }

// maxDepth is the depth below which a value is hidden whole.
const maxDepth = 100

// value appends a value without its secrets; known reports of members of an object whether they are some.
func (r *redaction) value(out []byte, value gjson.Result, known map[string]bool, depth int) []byte {
	switch {
	case value.Type != gjson.JSON:
		return append(out, value.Raw...)
	case depth > maxDepth:
		return append(out, r.hide([]byte(value.Raw))...)
	}
	open, end := byte('{'), byte('}')
	if value.IsArray() {
		open, end = '[', ']'
	}
	first := true
	out = append(out, open)
	value.ForEach(func(name, member gjson.Result) bool {
		if !first {
			out = append(out, ',')
		}
		first = false
		if open == '{' {
			out = append(append(out, name.Raw...), ':')
		}
		secret, isKnown := known[name.Str]
		if !isKnown {
			secret = open == '{' && Argument(name.Str) && (member.Type == gjson.String || member.Type == gjson.JSON)
		}
		if secret {
			out = append(out, r.hide([]byte(member.Raw))...)
		} else {
			out = r.value(out, member, nil, depth+1)
		}
		return true
	})
	return append(out, end)
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
