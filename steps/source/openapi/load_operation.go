package openapi

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/onecall-mcp/onecall/fault"
)

// builder builds one operation.
type builder struct {
	l        *loader
	node     *operationNode
	warnings []string

	arguments []*argument // the arguments in the order in which they claim names
	body      *body
	bodyArgs  []*argument
}

func (b *builder) warn(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); len(b.warnings) < maxWarnings && !slices.Contains(b.warnings, text) {
		b.warnings = append(b.warnings, text)
	}
}

func (b *builder) operation() operation {
	node, l := b.node, b.l
	op := operation{
		name: node.name, id: node.id, label: operationLabel(node.method, node.path),
		description: describe(node.operation, operationLabel(node.method, node.path)),
		method:      strings.ToUpper(node.method), path: node.path, effect: effectOf(node.method),
		servers: l.operationURLs(node), security: l.securityOf(node.operation),
	}
	b.readParameters()
	b.readBody()
	b.claimNames()
	for _, a := range b.arguments {
		if a.in != "body" {
			a.parameter.arg = a.arg
			op.parameters = append(op.parameters, a.parameter)
		}
	}
	op.body = b.body
	op.input = b.input()
	op.output, op.responses = b.readResponses()
	return op
}

// effectOf returns the effect that a method promises (RFC 9110, section 9.2).
func effectOf(method string) effect {
	switch method {
	case "get", "head", "options", "trace":
		return effect{reads: true, idempotent: true}
	case "delete":
		return effect{destroys: true, idempotent: true}
	case "put":
		return effect{idempotent: true}
	}
	return effect{}
}

// maxDescription bounds a function's description in bytes, without the "…" and the "Deprecated. " that describe may add.
const maxDescription = 400

// describe returns the summary, else the beginning of the description, else the label.
func describe(operation value, label string) string {
	text := strings.TrimSpace(operation.get("summary").text())
	if text == "" {
		text, _, _ = strings.Cut(strings.TrimSpace(operation.get("description").text()), "\n\n")
	}
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxDescription {
		text = text[:maxDescription]
		if end := strings.LastIndex(text, ". "); end > maxDescription/2 {
			text = text[:end+1]
		} else {
			end := strings.LastIndexByte(text, ' ') + 1
			if end < maxDescription/2 { // few languages have spaces that far apart, but some have none
				end = len(text)
			}
			text = strings.ToValidUTF8(text[:end], "") + "…"
		}
	}
	if text == "" {
		text = label
	}
	if operation.get("deprecated").isTrue() {
		text = strings.TrimSpace("Deprecated. " + text)
	}
	return text
}

// argument is one argument of the flat input.
type argument struct {
	arg       string // its name, once claimed
	sentName  string // its name on the wire
	in        string // path, query, header, cookie, body
	required  bool
	write     func(e *emitter) // writes its schema
	parameter parameter        // the position of the argument, unless it belongs to the body
}

// mergedParameters returns the parameters of the path and of the operation; the latter replace those with the same name and location.
func (b *builder) mergedParameters() []value {
	var list []value
	position := map[[2]string]int{}
	for _, holder := range []value{b.node.item, b.node.operation} {
		for _, p := range holder.get("parameters").elements() {
			b.l.countWork(1)
			p, err := b.l.resolve(p)
			name, in := p.get("name").text(), p.get("in").text()
			switch {
			case err != nil:
				b.warn("a parameter is left out: %s", err)
				continue
			case in == "body" || in == "formData":
			case name == "" || in != "path" && in != "query" && in != "header" && in != "cookie":
				b.warn("a parameter is left out: it has no name, or no known location")
				continue
			}
			key := [2]string{in, name}
			if in == "body" {
				key[1] = "" // there is only one body, whatever its name
			}
			if i, ok := position[key]; ok {
				list[i] = p
				continue
			}
			position[key] = len(list)
			list = append(list, p)
		}
	}
	return list
}

// placeholderPattern matches {name}, also with the operators of URI templates ({+name}, {?name*}), which the name does not include.
var placeholderPattern = regexp.MustCompile(`\{[+#./;?&]?([^{}]+?)\*?\}`)

// readParameters reads the parameters of path, query, header and cookie. Each placeholder of the path gets a parameter, declared or not.
// readParameters leaves out declared path parameters without a placeholder, and headers that the call itself sets.
func (b *builder) readParameters() {
	template := b.node.path
	if cut := strings.IndexAny(template, "#"); cut >= 0 {
		template = template[:cut]
	}
	placeholders := map[string]bool{}
	var names []string
	for _, m := range placeholderPattern.FindAllStringSubmatch(template, -1) {
		if !placeholders[m[1]] {
			names = append(names, m[1])
		}
		placeholders[m[1]] = true
	}
	byLocation := map[string][]*argument{}
	for _, p := range b.mergedParameters() {
		name, in := p.get("name").text(), p.get("in").text()
		switch {
		case in == "body" || in == "formData":
			continue
		case in == "path" && !placeholders[name]:
			b.warn("the path parameter %s is left out: the path has no place for it", fault.Short(name))
			continue
		case in == "header" && b.l.setsHeader(name):
			continue
		case in == "header" && !httpguts.ValidHeaderFieldName(name):
			b.warn("the header parameter %s is left out: no header can have this name", fault.Short(name))
			continue
		}
		byLocation[in] = append(byLocation[in], b.readParameter(p, name, in))
	}
	for _, name := range names {
		declared := false
		for _, a := range byLocation["path"] {
			declared = declared || a.sentName == name
		}
		if !declared {
			b.warn("the path parameter %s is not described: it is taken as text", fault.Short(name))
			byLocation["path"] = append(byLocation["path"], &argument{sentName: name, in: "path", required: true,
				write:     func(e *emitter) { e.out = append(e.out, `{"type":["string","number"]}`...) },
				parameter: parameter{name: name, in: "path", style: "simple", required: true}})
		}
	}
	for _, in := range []string{"path", "query", "header", "cookie"} {
		b.arguments = append(b.arguments, byLocation[in]...)
	}
}

// setsHeader reports whether the call itself sets a header, which then is not an argument: Accept, Content-Type and Authorization
// (OpenAPI 3.1, section 4.8.12.1), the headers of the connection, and configured headers.
func (l *loader) setsHeader(name string) bool {
	name = http.CanonicalHeaderKey(name)
	return name == "Accept" || name == "Content-Type" || name == "Authorization" || connectionHeaders[name] || l.o.headers[name]
}

// readParameter returns the argument of one parameter.
func (b *builder) readParameter(p value, name, in string) *argument {
	a := &argument{sentName: name, in: in, required: in == "path" || p.get("required").isTrue()}
	a.parameter = parameter{name: name, in: in, required: a.required, allowReserved: p.get("allowReserved").isTrue()}
	schema := p.get("schema")
	if b.l.swagger2 && !schema.ok() {
		schema = p // in Swagger 2.0 a parameter is its own schema
	}
	for mediaType, content := range p.get("content").members() {
		schema, a.parameter.mediaType = content.get("schema"), mediaType
		break
	}
	a.parameter.style, a.parameter.explode = b.style(p, in)
	description := strings.TrimSpace(p.get("description").text())
	a.write = func(e *emitter) {
		if !schema.ok() {
			e.anything(description)
			return
		}
		e.schema(schema, 1, description)
	}
	return a
}

// styles are the styles of OpenAPI 3 by location; the first is the default.
var styles = map[string][]string{"path": {"simple", "label", "matrix"}, "query": {"form", "spaceDelimited", "pipeDelimited", "deepObject"},
	"header": {"simple"}, "cookie": {"form"}}

// style returns how a value is formatted: `style` and `explode` of OpenAPI 3, `collectionFormat` of Swagger 2.0.
func (b *builder) style(p value, in string) (style string, explode bool) {
	style = styles[in][0]
	if !b.l.swagger2 {
		declared := p.get("style")
		for _, known := range styles[in] {
			if declared.text() == known {
				style = known
			}
		}
		if declared.ok() && declared.text() != style {
			b.warn("the style %s of %s is taken as %s", fault.Short(declared.text()), fault.Short(p.get("name").text()), style)
		}
		explode = style == "form" || style == "deepObject"
		if e := p.get("explode"); e.kind() == 't' || e.kind() == 'f' {
			explode = e.isTrue()
		}
		return style, explode
	}
	format := p.get("collectionFormat")
	return b.collectionStyle(format.text(), in, style)
}

// collectionStyle returns the style for a collectionFormat of Swagger 2.0. Only a query and a form have a choice; other locations keep
// style.
func (b *builder) collectionStyle(format, in, style string) (string, bool) {
	if in != "query" && in != "formData" {
		return style, false
	}
	switch format {
	case "multi":
		return "form", true
	case "ssv":
		return "spaceDelimited", false
	case "pipes":
		return "pipeDelimited", false
	case "tsv":
		b.warn("a list with the collectionFormat tsv (separated by tabs) is sent separated by commas")
	}
	return "form", false
}
