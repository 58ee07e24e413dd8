package schema

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// What a schema may be at most: the compiler's work grows with the square of the number of subschemas, and a source's
// schema must not be able to hold up the start.
const maxSchemaBytes, maxSchemaDepth, maxSubschemas = 4 << 20, 100, 5000

// schemaURL names every schema to the compiler; it is never loaded.
const schemaURL = "onecall:///schema"

// Sound gives a schema in compact JSON, or nothing and a note when it cannot be a schema.
func Sound(schema []byte) (compact []byte, note string) {
	if len(schema) == 0 {
		return nil, ""
	}
	compact, f := CompactWithin(schema, maxDepth)
	switch {
	case f != nil:
		return nil, "it is not JSON: " + f.Message
	case compact[0] != '{' && compact[0] != 't' && compact[0] != 'f':
		return nil, "it is not a JSON Schema"
	}
	return compact, ""
}

// Compile compiles a schema of any draft. It returns nil where there is nothing to check; notes tell which parts are not
// checked, and why.
func Compile(schema []byte) (v *Validator, notes string) {
	first, notes := compileValidator(schema)
	if first == nil {
		return nil, notes
	}
	return &Validator{schema: schema, idle: []*validator{first}}, notes
}

func compileValidator(schema []byte) (compiled *validator, notes string) {
	switch {
	case len(schema) == 0:
		return nil, ""
	case len(schema) > maxSchemaBytes:
		return nil, fmt.Sprintf("it is longer than %d bytes", maxSchemaBytes)
	}
	doc, err := normalise(schema)
	if err != nil {
		return nil, err.Error()
	}
	if doc.subschemas > maxSubschemas {
		return nil, fmt.Sprintf("it has more than %d parts", maxSubschemas)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(nothing{})
	compiled = &validator{}
	compiled.count(compiler, doc)
	if err = compiler.AddResource(schemaURL, doc.root); err == nil {
		compiled.schema, err = compiler.Compile(schemaURL)
	}
	if err != nil {
		return nil, fault.Clip(err.Error(), maxText)
	}
	return compiled, doc.notes()
}

// nothing is a loader that finds every schema outside the document to allow anything: nothing is ever fetched.
type nothing struct{}

// Load implements jsonschema.URLLoader.
func (nothing) Load(string) (any, error) { return true, nil }

func compileRegexp(pattern string) (jsonschema.Regexp, error) {
	r, err := regexp.Compile(ecmaToRE2(pattern))
	if err != nil {
		return nil, err
	}
	return r, nil
}

// ecmaToRE2 rewrites the one notation of JSON Schema's patterns that RE2 has too but writes otherwise: \u00e9. What RE2
// cannot express (looking ahead or behind, references back) stays, and is refused by its compiler.
func ecmaToRE2(pattern string) string {
	if !strings.Contains(pattern, `\u`) {
		return pattern
	}
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch {
		case pattern[i] != '\\' || i+1 == len(pattern):
			b.WriteByte(pattern[i])
		case pattern[i+1] == 'u' && i+6 <= len(pattern) && isHex(pattern[i+2:i+6]):
			b.WriteString(`\x{` + pattern[i+2:i+6] + "}")
			i += 5
		default:
			b.WriteString(pattern[i : i+2])
			i++
		}
	}
	return b.String()
}

func isHex(digits string) bool {
	return strings.Trim(digits, "0123456789abcdefABCDEF") == ""
}

// maxText bounds, in bytes, a text that comes from outside and stands in a message.
const maxText = 2000

// Properties lists the top-level properties of a schema through references and branches, in the order written.
func Properties(schema []byte) []string {
	var names []string
	known, visited := map[string]bool{}, map[int]bool{}
	w := newWalker(schema)
	var collect func(at gjson.Result)
	collect = func(at gjson.Result) {
		at = w.resolve(at)
		if !at.IsObject() || visited[at.Index] {
			return
		}
		visited[at.Index] = true
		for name := range each(child(at, "properties")) {
			if !known[name.Str] {
				known[name.Str] = true
				names = append(names, name.Str)
			}
		}
		for _, keyword := range []string{"allOf", "anyOf", "oneOf", "dependentSchemas"} {
			for _, branch := range each(child(at, keyword)) {
				collect(branch)
			}
		}
		collect(child(at, "then"))
		collect(child(at, "else"))
	}
	collect(w.root)
	return names
}
