package openapi

import (
	"encoding/json"
	"strings"
)

// output returns the schema of the result: that of the 2xx response with JSON that has the lowest status. It returns the schema of null
// if all 2xx responses are 204 or 205, and nil if the schema is not known.
func (b *builder) output() json.RawMessage {
	l := b.l
	responses := b.node.operation.get("responses")
	if resolved, err := l.resolve(responses); err == nil {
		responses = resolved
	}
	var best value
	bestStatus, answers, empty := "", 0, 0
	for status, response := range responses.members() {
		if len(status) != 3 || status[0] != '2' {
			continue
		}
		b.l.countWork(1)
		answers++
		response, err := l.resolve(response)
		if err != nil {
			b.warn("the response %s is not described: %s", status, err)
			continue
		}
		schema := b.responseSchema(response)
		if status == "204" || status == "205" {
			empty++
		}
		if schema.ok() && (bestStatus == "" || strings.ToLower(status) < bestStatus) {
			best, bestStatus = schema, strings.ToLower(status)
		}
	}
	if !best.ok() {
		if answers > 0 && answers == empty {
			return json.RawMessage(`{"type":"null"}`)
		}
		return nil
	}
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
		if schema := content.get("schema"); jsonRank(mediaType) > 0 && schema.ok() {
			return schema
		}
	}
	return value{}
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
