package schema

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// Portable returns a compact schema as strict clients and model APIs accept it, in its own words and order. They refuse a whole list of
// tools for one ill-formed keyword, so such a keyword is dropped at any depth: the schema then allows more, never less. Arrays get items,
// exclusive bounds are numbers, and dynamic references, which few clients know, are dropped.
func Portable(compact []byte) []byte {
	p := portable{walker: newWalker(compact)}
	return p.schema(nil, p.root, 0)
}

// PortableOutput returns a compact output schema as Portable does, or why clients must not see it. Clients compile output schemas, and
// check results against them, so a schema that is more than ill-formed in a detail is of no use to them.
func PortableOutput(compact []byte) (mended []byte, problem string) {
	p := portable{walker: newWalker(compact), output: true}
	if child(p.root, "type").Str != "object" {
		return nil, "it is not the schema of an object"
	}
	mended = p.schema(nil, p.root, 0)
	if p.problem != "" {
		return nil, p.problem
	}
	if compiled, problem := compileValidator(mended); compiled == nil {
		return nil, problem
	}
	return mended, ""
}

// portable rewrites one schema.
type portable struct {
	walker
	output  bool   // clients compile it
	problem string // the first reason why clients cannot compile it
}

// maxPortableDepth bounds the nesting of a rewritten schema; deeper schemas become {}.
const maxPortableDepth = 200

// portableForms are the forms of keywords that clients check and onecall does not. Others are in forms.
var portableForms = map[string]form{
	"title": formText, "description": formText, "format": formText, "$comment": formText, "$schema": formText, "$id": formText,
	"$ref": formText, "contentEncoding": formText, "contentMediaType": formText, "contentSchema": formSchema,
	"deprecated": formFlag, "readOnly": formFlag, "writeOnly": formFlag, "nullable": formFlag, "x-nullable": formFlag,
	"examples": formValues, "additionalItems": formSchema,
}

// schema appends a schema. A value that is none becomes {}, which allows anything.
func (p *portable) schema(out []byte, at gjson.Result, depth int) []byte {
	switch {
	case at.IsBool():
		return append(out, at.Raw...)
	case !at.IsObject() || depth > maxPortableDepth:
		return append(out, "{}"...)
	}
	start := len(out)
	out = append(out, '{')
	for key, value := range each(at) {
		before := len(out)
		if before > start+1 {
			out = append(out, ',')
		}
		out = append(append(out, key.Raw...), ':')
		valueStart := len(out)
		if out = p.keyword(out, at, key.Str, value, depth); len(out) == valueStart {
			out = out[:before]
		}
	}
	if allowsArrays(child(at, "type")) && !isSchemaOrList(child(at, "items")) {
		if len(out) > start+1 {
			out = append(out, ',')
		}
		out = append(out, `"items":{}`...)
	}
	return append(out, '}')
}

func allowsArrays(types gjson.Result) bool {
	return types.Str == "array" || slices.ContainsFunc(elements(types), func(one gjson.Result) bool { return one.Str == "array" })
}

func isSchemaOrList(items gjson.Result) bool {
	return items.IsObject() || items.IsArray() || items.IsBool()
}

// keyword appends the value of a keyword of the schema at; nothing if the keyword is dropped.
func (p *portable) keyword(out []byte, at gjson.Result, key string, value gjson.Result, depth int) []byte {
	switch key {
	case "$dynamicRef", "$dynamicAnchor", "id": // id is of draft 4; later it makes a client fail
		return out
	case "exclusiveMinimum":
		return exclusive(out, value, child(at, "minimum"))
	case "exclusiveMaximum":
		return exclusive(out, value, child(at, "maximum"))
	case "minimum", "maximum":
		if child(at, "exclusive"+strings.ToUpper(key[:1])+key[1:]).Type == gjson.True {
			return out
		}
	case "items":
		return p.items(out, value, depth)
	case "dependencies":
		if value.IsObject() {
			return append(out, value.Raw...)
		}
		return out
	case "$ref":
		if value.Type == gjson.String && !p.leadsSomewhere(at, value.Str) {
			p.fail("its $ref leads to %s, which is not in the schema", fault.Quote(value.Str))
			return out
		}
	}
	form, known := portableForms[key]
	if !known {
		if form, known = forms[key]; !known {
			return append(out, value.Raw...)
		}
	}
	if p.output && !p.compiles(at, key, value, depth) {
		return out
	}
	return p.ofForm(out, form, key, value, depth)
}

// ofForm appends a value if it has the form; nothing else.
func (p *portable) ofForm(out []byte, form form, key string, value gjson.Result, depth int) []byte {
	ok := true
	switch form {
	case formSchema:
		if ok = value.IsObject() || value.IsBool(); ok {
			return p.schema(out, value, depth+1)
		}
	case formSchemaList:
		if ok = len(elements(value)) > 0; ok {
			return p.list(out, value, depth)
		}
	case formSchemaMap, formPatternMap:
		if ok = value.IsObject(); ok {
			return p.named(out, value, key == "properties", depth)
		}
	case formWordsMap:
		ok = value.IsObject()
		for _, words := range each(value) {
			_, isList := wordList(words.Value())
			ok = ok && isList
		}
	case formTypes:
		if _, ok = parseTypes(value.Value()); !ok {
			p.fail("%s is not a type", fault.Clip(value.Raw, maxText))
		}
	case formWords:
		words, isList := wordList(value.Value())
		if ok = isList; ok && len(words.([]any)) < len(elements(value)) {
			return append(out, marshalWords(words.([]any))...)
		}
	case formValues:
		ok = len(elements(value)) > 0
	case formPattern, formText:
		ok = value.Type == gjson.String
	case formFlag:
		ok = value.IsBool()
	case formCount, formNumber, formPositive:
		_, ok = parseNumber(json.Number(value.Raw), form)
		ok = ok && value.Type == gjson.Number
	}
	if ok {
		out = append(out, value.Raw...)
	}
	return out
}

func marshalWords(words []any) []byte {
	out := []byte{'['}
	for i, word := range words {
		if i > 0 {
			out = append(out, ',')
		}
		out = rawjson.AppendQuote(out, word.(string))
	}
	return append(out, ']')
}

// exclusive appends an exclusive bound, which is true beside an inclusive one in draft 4 and OpenAPI 3.0.
func exclusive(out []byte, value, inclusive gjson.Result) []byte {
	switch {
	case value.Type == gjson.Number:
		return append(out, value.Raw...)
	case value.Type == gjson.True && inclusive.Type == gjson.Number:
		return append(out, inclusive.Raw...)
	}
	return out
}

// items appends the value of items: a schema or, before 2020-12, a list of schemas.
func (p *portable) items(out []byte, value gjson.Result, depth int) []byte {
	switch {
	case len(elements(value)) > 0:
		return p.list(out, value, depth)
	case isSchemaOrList(value):
		return p.schema(out, value, depth+1)
	}
	return out
}

func (p *portable) list(out []byte, list gjson.Result, depth int) []byte {
	out = append(out, '[')
	for i, one := range elements(list) {
		if i > 0 {
			out = append(out, ',')
		}
		out = p.schema(out, one, depth+1)
	}
	return append(out, ']')
}

// named appends an object of schemas. Clients take only objects for the schemas of properties.
func (p *portable) named(out []byte, object gjson.Result, properties bool, depth int) []byte {
	out = append(out, '{')
	first := len(out)
	for name, one := range each(object) {
		if len(out) > first {
			out = append(out, ',')
		}
		out = append(append(out, name.Raw...), ':')
		switch {
		case properties && one.Type == gjson.True:
			out = append(out, "{}"...)
		case properties && one.Type == gjson.False:
			out = append(out, `{"not":{}}`...)
		default:
			out = p.schema(out, one, depth+1)
		}
	}
	return append(out, '}')
}

// leadsSomewhere reports whether a reference has its target in the schema. References below an inner id are not followed.
func (p *portable) leadsSomewhere(at gjson.Result, reference string) bool {
	document, fragment, _ := strings.Cut(reference, "#")
	switch {
	case p.inInner(at):
		return true
	case document != "":
		return strings.Contains(p.root.Raw, `"$id":`+string(rawjson.AppendQuote(nil, document)))
	case fragment != "" && fragment[0] != '/':
		return strings.Contains(p.root.Raw, `"$anchor":`+string(rawjson.AppendQuote(nil, fragment)))
	}
	target := p.target(reference)
	return target.IsObject() || target.IsBool()
}

func (p *portable) fail(format string, args ...any) {
	if p.problem == "" {
		p.problem = fault.New(fault.BadRequest, format, args...).Message
	}
}

// compiles reports whether a keyword stays in an output schema: clients compile it with Ajv, which knows one set of ids for all tools,
// patterns with the flag u, and nullable only beside a type. It fails the schema if it would refuse more without the keyword.
func (p *portable) compiles(at gjson.Result, key string, value gjson.Result, depth int) bool {
	switch key {
	case "$id":
		if depth > 0 {
			p.fail("a schema inside it has an $id")
		}
		return false
	case "$ref":
		if value.Type == gjson.String && !strings.HasPrefix(value.Str, "#") {
			p.fail("its $ref leads to %s", fault.Quote(value.Str))
		}
	case "nullable":
		if types := child(at, "type"); !types.Exists() && value.IsBool() {
			p.fail("it has nullable without a type")
		}
		return !(value.Type == gjson.False && slices.ContainsFunc(child(at, "type").Array(), func(t gjson.Result) bool { return t.Str == "null" }))
	case "pattern":
		return isUnicodePattern(value.Str)
	case "patternProperties":
		for pattern := range each(value) {
			if !isUnicodePattern(pattern.Str) {
				p.fail("the pattern %s cannot be used", fault.Quote(pattern.Str))
			}
		}
	}
	return true
}

// Patterns of JavaScript with the flag u are stricter than RE2 about escapes and lone brackets.
var (
	unicodePattern = regexp.MustCompile(`^(?:[^\\\[\]{}]|\\(?:[dDwWsSbBfnrtv0^$\\.*+?()\[\]{}|/]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})|` +
		`\{[0-9]+(?:,[0-9]*)?\}|\[(?:[^\\\[\]]|\\(?:[dDwWsSbfnrtv0^$\\.*+?()\[\]{}|/-]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}))*\])*$`)
	otherPattern = regexp.MustCompile(`\(\?[^:]|\\[dDwWsS]-[^\]]|-\\[dDwWsS]`)
	lookAround   = strings.NewReplacer("(?=", "(?:", "(?!", "(?:", "(?<=", "(?:", "(?<!", "(?:")
)

// isUnicodePattern reports whether a pattern is surely valid in JavaScript with the flag u.
func isUnicodePattern(pattern string) bool {
	plain := lookAround.Replace(pattern)
	_, err := compileRegexp(plain)
	return err == nil && unicodePattern.MatchString(plain) && !otherPattern.MatchString(plain)
}
