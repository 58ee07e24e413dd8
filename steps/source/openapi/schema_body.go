package openapi

import (
	"cmp"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/internal/httpbody"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// jsonRank ranks JSON media types by how well they suit a body that is sent unchanged; 0: not JSON.
func jsonRank(mediaType string) int {
	base, _, _ := strings.Cut(mediaType, ";")
	base = strings.ToLower(strings.TrimSpace(base))
	switch {
	case base == "application/json":
		return 5
	case base == "application/merge-patch+json":
		return 4
	case base == "application/json-patch+json", strings.HasSuffix(base, "json-seq"):
		return 1
	case httpbody.JSONType(base):
		return 3
	case base == "*/*", base == "application/*":
		return 2
	}
	return 0
}

// mediaRank ranks media types of bodies: JSON is highest, then form, multipart, text, anything else.
func mediaRank(mediaType string) int {
	if rank := jsonRank(mediaType); rank > 0 {
		return 10 + rank
	}
	switch kind, _ := bodyKindOf(mediaType); kind {
	case formBody:
		return 4
	case multipartBody:
		return 3
	case textBody:
		return 2
	}
	return 1
}

// readBody finds the body, its media type, and its arguments.
func (b *builder) readBody() {
	if b.l.swagger2 {
		b.readSwagger2Body()
		return
	}
	declared := b.node.operation.get("requestBody")
	if !declared.ok() {
		return
	}
	resolved, err := b.l.resolve(declared)
	if err != nil || !resolved.isObject() {
		b.warn("the body is not described")
		b.wholeBody("application/json", false, value{}, "")
		return
	}
	required := resolved.get("required").isTrue()
	description := strings.TrimSpace(resolved.get("description").text())
	mediaType, content, rank := "", value{}, 0
	for name, c := range resolved.get("content").members() {
		b.l.countWork(1)
		if r := mediaRank(name); r > rank {
			mediaType, content, rank = name, c, r
		}
	}
	if content, err = b.l.resolve(content); err != nil {
		b.warn("the body is not described: %s", err)
	}
	schema := content.get("schema")
	if strings.Contains(mediaType, "*") && jsonRank(mediaType) > 0 {
		mediaType = b.typeForAny(schema)
	}
	if mediaType == "" {
		mediaType = "application/json"
	}
	b.makeBody(mediaType, required, schema, content.get("encoding"), description)
}

// typeForAny returns the media type to send if any type is accepted: bytes if the schema describes bytes, else JSON.
func (b *builder) typeForAny(schema value) string {
	if schema, err := b.l.resolve(schema); err == nil && schema.get("format").text() == "binary" {
		return "application/octet-stream"
	}
	return "application/json"
}

// makeBody makes an argument of each member that is not read-only if the body is an object with known members, else one argument of the
// whole body. It makes no body if the body is optional and could only be an empty object.
func (b *builder) makeBody(mediaType string, required bool, schema, encoding value, description string) {
	kind, _ := bodyKindOf(mediaType)
	if kind == textBody || kind == binaryBody {
		b.wholeBody(mediaType, required, schema, description)
		return
	}
	object, ok := b.l.flatten(schema)
	if ok && len(object.members) == 0 && !required && b.l.closed(schema) {
		return
	}
	if !ok || len(object.members) == 0 {
		b.wholeBody(mediaType, required, schema, description)
		return
	}
	if object.lost {
		b.warn("only the server checks which members of the body go together")
	}
	b.body = &body{mediaType: mediaType, required: required}
	if kind == formBody || kind == multipartBody {
		b.body.fields = map[string]field{}
	}
	for _, p := range object.members {
		if b.l.allReadOnly(p) {
			continue
		}
		a := &argument{sentName: p.name, in: "body", required: required && object.required[p.name]}
		a.write = func(e *emitter) { e.property(p) }
		if b.body.fields != nil {
			encoded := b.fieldOf(p, encoding.get(p.name), kind)
			b.body.fields[p.name] = encoded
			if encoded.binary {
				description := p.description()
				a.write = func(e *emitter) { e.file(description) }
				if b.isList(p) {
					a.write = func(e *emitter) {
						e.out = append(e.out, `{"type":"array","items":`...)
						e.file(description)
						e.out = append(e.out, '}')
					}
				}
			}
		}
		b.bodyArgs = append(b.bodyArgs, a)
	}
}

// isList reports whether a member is a list.
func (b *builder) isList(p *property) bool {
	return slices.ContainsFunc(slices.Concat(p.all, p.any), func(v value) bool {
		schema, err := b.l.resolve(v)
		return err == nil && hasType(schema, "array")
	})
}

func (l *loader) allReadOnly(p *property) bool {
	return !slices.ContainsFunc(slices.Concat(p.all, p.any), func(v value) bool { return !l.readOnly(v) })
}

func (p *property) description() string {
	for _, v := range slices.Concat(p.all, p.any) {
		if text := strings.TrimSpace(v.get("description").text()); text != "" {
			return text
		}
	}
	return ""
}

// wholeBody makes the body one argument.
func (b *builder) wholeBody(mediaType string, required bool, schema value, description string) {
	b.body = &body{mediaType: mediaType, required: required, arg: "body"}
	a := &argument{sentName: "body", in: "body", required: required}
	switch kind, _ := bodyKindOf(mediaType); {
	case kind == textBody:
		a.write = func(e *emitter) { e.text(cmp.Or(description, "the body, as "+mediaType)) }
	case kind == binaryBody:
		a.write = func(e *emitter) { e.file(description) }
	case !schema.ok():
		a.write = func(e *emitter) { e.anything(description) }
	default:
		a.write = func(e *emitter) { e.schema(schema, 1, description) }
	}
	b.bodyArgs = []*argument{a}
}

// text writes the schema of a body of text.
func (e *emitter) text(description string) {
	e.out = append(rawjson.AppendQuote(append(e.out, `{"type":"string","description":`...), description), '}')
}

// file writes the schema of bytes: base64 text, or such text with the file's name.
func (e *emitter) file(description string) {
	description = strings.TrimSpace(description + " (base64 of the bytes, or {name, data} with it)")
	e.out = rawjson.AppendQuote(append(e.out, `{"description":`...), description)
	e.out = append(e.out, `,"anyOf":[{"type":"string","contentEncoding":"base64"},{"type":"object","properties":{"name":{"type":"string"},`+
		`"data":{"type":"string","contentEncoding":"base64"}},"required":["data"],"additionalProperties":false}]}`...)
}

// fieldOf returns how a member of a form is encoded.
func (b *builder) fieldOf(p *property, encoding value, kind bodyKind) field {
	f := field{style: "form", explode: true}
	mediaType := encoding.get("contentType").text()
	if style := encoding.get("style").text(); style != "" {
		f.style, f.explode = style, style == "form"
	}
	if e := encoding.get("explode"); e.kind() == 't' || e.kind() == 'f' {
		f.explode = e.isTrue()
	}
	schema := value{}
	for _, v := range slices.Concat(p.all, p.any) {
		if resolved, err := b.l.resolve(v); err == nil {
			schema = resolved
			break
		}
	}
	if kind == formBody {
		f.mediaType = mediaType
		return f
	}
	items, _ := b.l.resolve(schema.get("items"))
	f.binary = isFile(schema) || isFile(items)
	// Several types are a choice (OpenAPI 3.0.4, section 4.8.15): use the first.
	mediaType, _, _ = strings.Cut(mediaType, ",")
	f.mediaType = strings.TrimSpace(mediaType)
	if f.mediaType == "" && !f.binary && (hasType(schema, "object") || hasType(items, "object")) {
		f.mediaType = "application/json"
	}
	return f
}

// isFile reports whether a schema describes bytes: type file of Swagger 2.0, format binary of OpenAPI 3.0, or contentMediaType of
// OpenAPI 3.1.
func isFile(schema value) bool {
	if schema.get("type").text() == "file" {
		return true
	}
	if !hasType(schema, "string") && schema.get("type").ok() {
		return false
	}
	return schema.get("format").text() == "binary" || schema.get("contentMediaType").ok() && !schema.get("contentEncoding").ok()
}

// hasType reports whether a schema names the type. A schema with properties and no type counts as an object.
func hasType(schema value, name string) bool {
	declared := schema.get("type")
	for _, element := range declared.elements() {
		if element.text() == name {
			return true
		}
	}
	return declared.text() == name || name == "object" && !declared.ok() && schema.get("properties").ok()
}
