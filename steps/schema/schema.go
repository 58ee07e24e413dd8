package schema

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// Bounds of a schema. The compiler's work grows with the square of the number of subschemas, and the schema of a source must not
// delay the start.
const maxSchemaBytes, maxSchemaDepth, maxSubschemas = 4 << 20, 100, 5000

// schemaURL names every schema to the compiler; it is never loaded.
const schemaURL = "onecall:///schema"

// CompactSchema returns a schema as compact JSON; nil for an empty text. For a text that cannot be a schema it returns nil and a warning.
func CompactSchema(schema []byte) (compact []byte, warning string) {
	if len(schema) == 0 {
		return nil, ""
	}
	compact, f := CompactWithin(schema, maxDepth)
	switch {
	case f != nil:
		return nil, "it cannot be read as JSON: " + f.Message
	case compact[0] != '{' && compact[0] != 't' && compact[0] != 'f':
		return nil, "it is not a JSON Schema"
	}
	return compact, ""
}

// Compile prepares a schema of any draft. It returns nil for a schema that is empty or cannot be used. warnings says which parts are not
// checked, and why.
func Compile(schema []byte) (v *Validator, warnings string) {
	compiled, warnings := compileValidator(schema)
	if compiled == nil {
		return nil, warnings
	}
	// The first use compiles it again: most functions are never called, and the compiled form is many times as large.
	v = &Validator{schema: schema}
	v.simple = sync.OnceValue(func() *simpleSchema { return newSimpleSchema(gjson.ParseBytes(schema), 0) })
	return v, warnings
}

func compileValidator(schema []byte) (compiled *compiledSchema, warnings string) {
	switch {
	case len(schema) == 0:
		return nil, ""
	case len(schema) > maxSchemaBytes:
		return nil, fmt.Sprintf("it is longer than %d bytes", maxSchemaBytes)
	}
	doc, err := normalize(schema)
	if err != nil {
		return nil, err.Error()
	}
	if doc.subschemas > maxSubschemas {
		return nil, fmt.Sprintf("it has more than %d subschemas", maxSubschemas)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(allowAllLoader{})
	compiled = &compiledSchema{}
	compiled.countWork(compiler, doc)
	if err = compiler.AddResource(schemaURL, doc.root); err == nil {
		compiled.schema, err = compiler.Compile(schemaURL)
	}
	if err != nil {
		return nil, fault.Clip(err.Error(), maxText)
	}
	return compiled, doc.warnings()
}

// allowAllLoader loads every external schema as a schema that allows anything, so nothing is ever fetched.
type allowAllLoader struct{}

// Load implements jsonschema.URLLoader.
func (allowAllLoader) Load(string) (any, error) { return true, nil }

func compileRegexp(pattern string) (jsonschema.Regexp, error) {
	r, err := regexp.Compile(ecmaToRE2(pattern))
	if err != nil {
		return nil, err
	}
	return r, nil
}

// ecmaToRE2 rewrites escapes like \u00e9, the only notation of JSON Schema patterns that RE2 spells differently. Constructs that RE2 lacks
// (look-around, back-references) stay, and its compiler rejects them.
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

// maxText bounds, in bytes, the text of an error in a message.
const maxText = 2000

// Properties lists the top-level properties of a schema, including those of references and branches, in the order of the schema.
func Properties(schema []byte) []string {
	w := newWalker(schema)
	return w.properties(w.root)
}

// Members lists the properties of the value that a schema describes, or of its elements if it is an array, as Properties does.
func Members(schema []byte) []string {
	w := newWalker(schema)
	if names := w.properties(w.root); len(names) > 0 {
		return names
	}
	return w.properties(child(w.resolve(w.root), "items"))
}

func (w *walker) properties(root gjson.Result) []string {
	var names []string
	seen, visited := map[string]bool{}, map[int]bool{}
	var collect func(at gjson.Result)
	collect = func(at gjson.Result) {
		at = w.resolve(at)
		if !at.IsObject() || visited[at.Index] {
			return
		}
		visited[at.Index] = true
		for name := range each(child(at, "properties")) {
			if !seen[name.Str] {
				seen[name.Str] = true
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
	collect(root)
	return names
}
