package openapi

import (
	"slices"
	"strings"
)

// readSwagger2Body is readBody for Swagger 2.0, whose body is the parameter in body, or the parameters in formData.
func (b *builder) readSwagger2Body() {
	consumes := b.node.operation.get("consumes")
	if !consumes.ok() {
		consumes = b.l.document.root().get("consumes")
	}
	// best returns the accepted media type with the highest rank that the operation consumes, else fallback.
	best := func(accept func(bodyKind) bool, fallback string) string {
		mediaType, rank := fallback, 0
		for _, element := range consumes.elements() {
			kind, _ := bodyKindOf(element.text())
			if r := mediaRank(element.text()); r > rank && (accept(kind) || jsonRank(element.text()) > 0 && accept(jsonBody)) {
				mediaType, rank = element.text(), r
			}
		}
		return mediaType
	}
	var form []value
	for _, p := range b.mergedParameters() {
		switch p.get("in").text() {
		case "formData":
			form = append(form, p)
		case "body":
			mediaType := best(func(k bodyKind) bool { return k != formBody && k != multipartBody }, "application/json")
			if strings.Contains(mediaType, "*") {
				mediaType = "application/json"
			}
			b.makeBody(mediaType, p.get("required").isTrue(), p.get("schema"), value{}, strings.TrimSpace(p.get("description").text()))
			return
		}
	}
	if len(form) == 0 {
		return
	}
	isForm := func(k bodyKind) bool { return k == formBody || k == multipartBody }
	mediaType := best(isForm, "application/x-www-form-urlencoded")
	if slices.ContainsFunc(form, func(p value) bool { return p.get("type").text() == "file" }) {
		mediaType = best(func(k bodyKind) bool { return k == multipartBody }, "multipart/form-data")
	}
	b.body = &body{mediaType: mediaType, fields: map[string]field{}}
	for _, p := range form {
		name := p.get("name").text()
		a := &argument{sentName: name, in: "body", required: p.get("required").isTrue()}
		b.body.required = b.body.required || a.required
		encoded := field{binary: p.get("type").text() == "file"}
		encoded.style, encoded.explode = b.collectionStyle(p.get("collectionFormat").text(), "formData", "form")
		description := strings.TrimSpace(p.get("description").text())
		a.write = func(e *emitter) { e.schema(p, 1, description) }
		if encoded.binary {
			a.write = func(e *emitter) { e.file(description) }
		}
		b.body.fields[name] = encoded
		b.bodyArgs = append(b.bodyArgs, a)
	}
}
