package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// emitter writes a schema of the document as one self-contained JSON Schema (draft 2020-12). Referenced schemas are under $defs, each once,
// so that recursive schemas stay finite. OpenAPI's own keywords are converted (nullable, boolean exclusive bounds) or dropped (example,
// xml, discriminator, x-…). A keyword with an invalid value is dropped with a warning.
type emitter struct {
	l        *loader
	out      []byte
	input    bool // the schema is for arguments: it has no read-only members, and has descriptions
	terse    bool // no descriptions below the top
	limit    int  // bytes past which referenced schemas are left open
	names    map[value]string
	taken    map[string]int // how often a name was requested
	queue    []value
	warnings []string
	warned   map[string]bool
	open     int // parts left open because of the limit
	visited  int
}

// maxSchemaDepth is below the depth that a registry compiles (100), because the schema becomes part of an arguments object.
// maxSubschemas bounds the schemas within a schema, below the bound of a registry (5,000).
const maxSchemaDepth, maxSubschemas = 90, 4000

func newEmitter(l *loader, input bool, limit int) *emitter {
	return &emitter{l: l, input: input, limit: limit, names: map[value]string{}, taken: map[string]int{}, warned: map[string]bool{}}
}

func (e *emitter) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !e.warned[text] && len(e.warnings) < maxWarnings {
		e.warned[text] = true
		e.warnings = append(e.warnings, text)
	}
}

// maxWarnings bounds the warnings of one schema or operation.
const maxWarnings = 20

// schema writes a schema at a depth. description, if not empty, replaces the schema's own.
func (e *emitter) schema(v value, depth int, description string) {
	e.l.countWork(1)
	e.visited++
	switch {
	case v.kind() == 't' || v.kind() == 'f':
		e.out = append(e.out, v.raw()...)
		return
	case !v.isObject():
		e.warn("a schema that is not an object or a boolean is left open")
		e.anything(description)
		return
	// References are left open past the limit (see definitions); schemas that are written in place, only past four times the limit.
	case depth > maxSchemaDepth || e.visited > maxSubschemas || len(e.out) > 4*e.limit:
		e.open++
		e.anything(description)
		return
	}
	reference := v.get("$ref")
	if reference.kind() == '"' {
		e.reference(v, reference, depth, description)
		return
	}
	e.object(v, depth, description)
}

// reference writes the target of a $ref. Before OpenAPI 3.1 the keywords next to it are ignored, except annotations and nullable, which
// many authors expect to work.
func (e *emitter) reference(v, reference value, depth int, description string) {
	target, err := e.l.follow(reference)
	if err != nil {
		e.warn("%s: it is left open", err.Error())
		e.anything(description)
		return
	}
	if !target.isObject() { // true, or not usable
		e.schema(target, depth+1, description)
		return
	}
	nullable := v.get("nullable").isTrue() || v.get("x-nullable").isTrue()
	if nullable {
		e.out = append(e.out, `{"anyOf":[`...)
	}
	e.out = append(e.out, `{"$ref":"#/$defs/`...)
	e.out = append(append(e.out, e.define(target)...), '"')
	if !nullable {
		e.siblings(v, depth, description)
		e.out = append(e.out, '}')
		return
	}
	e.out = append(e.out, `},{"type":"null"}]`...)
	e.siblings(v, depth, description)
	e.out = append(e.out, '}')
}

// siblings writes the keywords next to a $ref, after the keywords that are already written.
func (e *emitter) siblings(v value, depth int, description string) {
	e.describe(v, depth, description, true)
	for name, member := range v.members() {
		shape := keywords[name]
		if shape == 0 || name == "description" || name == "nullable" || !e.l.refSiblings && name != "default" && name != "deprecated" ||
			shape == shapeSpecial && name != "type" {
			continue
		}
		e.keyword(v, name, member, shape, depth, true)
	}
}

// define returns the name of a target in $defs. At the first reference it chooses the name and queues the target for definitions.
func (e *emitter) define(target value) string {
	if name, ok := e.names[target]; ok {
		return name
	}
	base := plainName(target.key())
	name := base
	for e.taken[name] > 0 {
		e.taken[base]++
		name = base + "_" + strconv.Itoa(e.taken[base])
	}
	e.taken[name] = 1
	e.names[target] = name
	e.queue = append(e.queue, target)
	return name
}

func plainName(text string) string {
	name := strings.Map(func(c rune) rune {
		if isPlain(c) || c == '.' || c == '-' || c == '_' {
			return c
		}
		return '_'
	}, text)
	if name == "" {
		return "schema"
	}
	return name
}

// object writes the keywords of a schema, in the order of the document.
func (e *emitter) object(v value, depth int, description string) {
	e.out = append(e.out, '{')
	nullable := v.get("nullable").isTrue() || v.get("x-nullable").isTrue()
	wrapped := nullable && !v.get("type").ok() && (v.get("allOf").ok() || v.get("anyOf").ok() || v.get("oneOf").ok() || v.get("not").ok())
	if wrapped {
		e.out = append(e.out, `"anyOf":[{"type":"null"},{`...)
	}
	preceded := false
	if !wrapped {
		preceded = e.describe(v, depth, description, false)
	}
	for name, member := range v.members() {
		e.l.countWork(1)
		shape := keywords[name]
		if shape == 0 || name == "description" || name == "nullable" {
			continue
		}
		preceded = e.keyword(v, name, member, shape, depth, preceded)
	}
	if wrapped {
		e.out = append(e.out, "}]"...)
		e.describe(v, depth, description, true)
	}
	e.out = append(e.out, '}')
}

// describe writes the description if one is wanted. preceded, here and in the methods below, reports whether the object already has a
// member, so that a comma must precede the next one. The result is preceded for the member that follows.
func (e *emitter) describe(v value, depth int, description string, preceded bool) bool {
	if !e.input || e.terse && depth > 1 {
		return preceded
	}
	if description == "" {
		description = strings.TrimSpace(v.get("description").text())
	}
	if description == "" {
		return preceded
	}
	e.beginKeyword("description", preceded)
	e.out = rawjson.AppendQuote(e.out, description)
	return true
}

func (e *emitter) beginKeyword(keyword string, preceded bool) {
	if preceded {
		e.out = append(e.out, ',')
	}
	e.out = append(rawjson.AppendQuote(e.out, keyword), ':')
}

// definitions writes ,"$defs":{…} with all referenced schemas, the nearest first. Past the limit it leaves the others open.
func (e *emitter) definitions() {
	if len(e.queue) == 0 {
		return
	}
	e.out = append(e.out, `,"$defs":{`...)
	for i := 0; i < len(e.queue); i++ {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		e.out = append(rawjson.AppendQuote(e.out, e.names[e.queue[i]]), ':')
		if len(e.out) > e.limit {
			e.open++
			e.out = append(e.out, "{}"...)
			continue
		}
		e.schema(e.queue[i], 2, "")
	}
	e.out = append(e.out, '}')
}

// result returns the schema that was written; nil if it is not JSON, which would be a defect of this package.
func (e *emitter) result() json.RawMessage {
	if e.open > 0 && e.input { // not for a result, which is not checked against its schema
		e.warn("%d parts of a schema that is too large or too deep are left open", e.open)
	}
	if !jsontext.Value(e.out).IsValid() {
		e.warn("its schema cannot be written")
		return nil
	}
	return bytes.Clone(e.out)
}
