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

// emitter writes a schema of the document as one JSON Schema (draft 2020-12) that stands on its own: what it refers to is
// under $defs, each once, so that schemas that hold themselves come to an end. OpenAPI's own keywords are rewritten
// (nullable, exclusive bounds that are flags) or left out (example, xml, discriminator, x-…), and so is a keyword whose
// value makes no sense, which is noted.
type emitter struct {
	l       *loader
	out     []byte
	input   bool // arguments: without what is read-only, with descriptions
	terse   bool // no descriptions below the top
	limit   int  // of bytes, past which what is referred to is left open
	names   map[value]string
	taken   map[string]int // how often a name was asked for
	queue   []value
	notes   []string
	noted   map[string]bool
	open    int // parts left open because of the limit
	visited int
}

// maxSchemaDepth is below what a registry compiles (100), as what is written here stands inside an object of arguments.
// maxParts bounds the schemas in one, below what a registry compiles (5,000).
const maxSchemaDepth, maxParts = 90, 4000

func newEmitter(l *loader, input bool, limit int) *emitter {
	return &emitter{l: l, input: input, limit: limit, names: map[value]string{}, taken: map[string]int{}, noted: map[string]bool{}}
}

func (e *emitter) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !e.noted[text] && len(e.notes) < maxNotes {
		e.noted[text] = true
		e.notes = append(e.notes, text)
	}
}

// maxNotes bounds what is noted of one schema or operation.
const maxNotes = 20

// schema writes a schema that stands at depth. description takes the place of its own where it is not empty.
func (e *emitter) schema(v value, depth int, description string) {
	e.l.spend(1)
	e.visited++
	switch {
	case v.kind() == 't' || v.kind() == 'f':
		e.out = append(e.out, v.raw()...)
		return
	case !v.isObject():
		e.note("a schema that is none is left open")
		e.anything(description)
		return
	case depth > maxSchemaDepth || e.visited > maxParts || len(e.out) > 4*e.limit:
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

// reference writes what a $ref stands for. Beside it, only notes count before OpenAPI 3.1; nullable, which many mean to
// count, is taken as well.
func (e *emitter) reference(v, reference value, depth int, description string) {
	target, err := e.l.follow(reference)
	if err != nil {
		e.note("%s: it is left open", err.Error())
		e.anything(description)
		return
	}
	if !target.isObject() { // true, or nothing of use
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
		e.beside(v, depth, description)
		e.out = append(e.out, '}')
		return
	}
	e.out = append(e.out, `},{"type":"null"}]`...)
	e.beside(v, depth, description)
	e.out = append(e.out, '}')
}

// beside writes what stands beside a $ref, after something that is written already.
func (e *emitter) beside(v value, depth int, description string) {
	e.describe(v, depth, description, true)
	for name, member := range v.members() {
		shape := keywords[name]
		if shape == 0 || name == "description" || name == "nullable" || !e.l.modern && name != "default" && name != "deprecated" || shape == shapeSpecial && name != "type" {
			continue
		}
		e.keyword(v, name, member, shape, depth, true)
	}
}

// define gives the name under which a target stands in $defs.
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
	more := false
	if !wrapped {
		more = e.describe(v, depth, description, false)
	}
	for name, member := range v.members() {
		e.l.spend(1)
		shape := keywords[name]
		if shape == 0 || name == "description" || name == "nullable" {
			continue
		}
		more = e.keyword(v, name, member, shape, depth, more)
	}
	if wrapped {
		e.out = append(e.out, "}]"...)
		e.describe(v, depth, description, true)
	}
	e.out = append(e.out, '}')
}

// describe writes the description where one is wanted. more, here and below: whether something stands before.
func (e *emitter) describe(v value, depth int, description string, more bool) bool {
	if !e.input || e.terse && depth > 1 {
		return more
	}
	if description == "" {
		description = strings.TrimSpace(v.get("description").text())
	}
	if description == "" {
		return more
	}
	e.begin("description", more)
	e.out = rawjson.AppendQuote(e.out, description)
	return true
}

func (e *emitter) begin(keyword string, more bool) {
	if more {
		e.out = append(e.out, ',')
	}
	e.out = append(rawjson.AppendQuote(e.out, keyword), ':')
}

// definitions writes ,"$defs":{…} with all that was referred to, the nearest first; past the limit, what is farther is
// left open.
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

// finished gives what was written. A schema that cannot be JSON, which would be a mistake here, is left open.
func (e *emitter) finished() json.RawMessage {
	if e.open > 0 && e.input { // a result is not checked
		e.note("%d parts of a schema that is too large or too deep are left open", e.open)
	}
	if !jsontext.Value(e.out).IsValid() {
		e.note("its schema cannot be written")
		return nil
	}
	return bytes.Clone(e.out)
}
