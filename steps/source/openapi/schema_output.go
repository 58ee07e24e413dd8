package openapi

import (
	"encoding/json"
	"strings"

	"github.com/onecall-mcp/onecall/internal/httpbody"
)

// readResponses returns what the document says of the results. output is the schema of the 2xx response with JSON that has the lowest
// status. It is the schema of null if all 2xx responses are 204 or 205, and nil if the schema is not known.
func (b *builder) readResponses() (output json.RawMessage, declared []response) {
	l := b.l
	responses := b.node.operation.get("responses")
	if resolved, err := l.resolve(responses); err == nil {
		responses = resolved
	}
	var best value
	bestStatus, answers, empty, locates := "", 0, 0, false
	for status, described := range responses.members() {
		status = strings.ToLower(status)
		success := len(status) == 3 && status[0] == '2'
		if !success && status != "default" {
			continue
		}
		l.countWork(1)
		resolved, err := l.resolve(described)
		if err != nil {
			b.warn("the response %s is not described: %s", status, err)
		} else {
			declared = append(declared, response{status, b.responseTypes(resolved)})
		}
		if !success {
			continue
		}
		answers++
		if status == "204" || status == "205" {
			empty++
			for name := range resolved.get("headers").members() {
				l.countWork(1)
				locates = locates || httpbody.Locates(name)
			}
		}
		if schema := b.responseSchema(resolved); schema.ok() && (bestStatus == "" || status < bestStatus) {
			best, bestStatus = schema, status
		}
	}
	switch {
	case best.ok():
		return b.resultSchema(best), declared
	case answers == 0 || answers > empty:
		return nil, declared
	case locates:
		return json.RawMessage(emptyWithHeaders), declared
	}
	return json.RawMessage(`{"type":"null"}`), declared
}

// emptyWithHeaders is the schema of a success without a body whose headers may say where to go on (httpbody.Empty).
const emptyWithHeaders = `{"type":["object","null"],"properties":{"status":{"type":"integer"},` +
	`"headers":{"type":"object","additionalProperties":{"type":"string"}}}}`

// resultSchema returns a schema of the document as JSON Schema.
func (b *builder) resultSchema(best value) json.RawMessage {
	l := b.l
	result, known := l.outputs[best]
	if !known {
		e := newEmitter(l, false, l.limits.result)
		e.root(best)
		result = resultSchema{e.result(), e.warnings}
		l.outputs[best] = result
		l.size.results += len(result.schema)
	}
	for _, text := range result.warnings {
		b.warn("result: %s", text)
	}
	return result.schema
}

// responseTypes returns the media types of a response. none: it declares no body, a file of any type, or no type.
func (b *builder) responseTypes(response value) (types []string) {
	if b.l.swagger2 {
		produces := b.node.operation.get("produces")
		if !produces.ok() && response.get("schema").get("type").text() != "file" {
			produces = b.l.document.root().get("produces")
		}
		for _, mediaType := range produces.elements() {
			b.l.countWork(1)
			types = append(types, mediaType.text())
		}
	} else {
		for mediaType := range response.get("content").members() {
			b.l.countWork(1)
			types = append(types, mediaType)
		}
	}
	if len(types) == 0 {
		return nil
	}
	key := strings.Join(types, ", ")
	if b.l.types[key] == nil {
		b.l.types[key] = types
	}
	return b.l.types[key] // operations share what most of them declare
}

// responseSchema returns the schema of a response's JSON; no node if the response has no JSON.
func (b *builder) responseSchema(response value) value {
	if b.l.swagger2 {
		schema := response.get("schema")
		produces := b.node.operation.get("produces")
		if !produces.ok() {
			produces = b.l.document.root().get("produces")
		}
		hasJSON, declared := false, false
		for _, mediaType := range produces.elements() {
			declared = true
			hasJSON = hasJSON || jsonRank(mediaType.text()) > 0
		}
		if declared && !hasJSON || schema.get("type").text() == "file" {
			return value{}
		}
		return schema
	}
	for mediaType, content := range response.get("content").members() {
		b.l.countWork(1)
		if schema := content.get("schema"); jsonRank(mediaType) > 0 && schema.ok() && !b.isFileOfAnyType(mediaType, schema) {
			return schema
		}
	}
	return value{}
}

// isFileOfAnyType reports whether a response of any media type is bytes.
func (b *builder) isFileOfAnyType(mediaType string, schema value) bool {
	if !strings.Contains(mediaType, "*") {
		return false
	}
	resolved, err := b.l.resolve(schema)
	return err == nil && isFile(resolved)
}

// root writes a schema with its $defs.
func (e *emitter) root(schema value) {
	if schema.get("$ref").kind() == '"' {
		if target, err := e.l.resolve(schema); err == nil && target.isObject() {
			schema = target // its members at the top, for readers that do not follow a $ref
		}
	}
	e.schema(schema, 0, "")
	if len(e.queue) > 0 && len(e.out) > 0 && e.out[len(e.out)-1] == '}' {
		e.out = e.out[:len(e.out)-1]
		e.definitions()
		e.out = append(e.out, '}')
	}
}
