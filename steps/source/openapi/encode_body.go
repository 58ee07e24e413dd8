package openapi

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"mime"
	"mime/multipart"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/httpbody"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// bodyKind selects how a body is built from arguments.
type bodyKind uint8

const (
	binaryBody    bodyKind = iota // the argument is base64
	textBody                      // the argument is the text
	jsonBody                      // the argument or the members, unchanged
	formBody                      // application/x-www-form-urlencoded
	multipartBody                 // multipart/form-data
)

// bodyKindOf returns how a body of a media type is built, and the type to send, because a range such as */* cannot be sent.
func bodyKindOf(mediaType string) (bodyKind, string) {
	base, _, err := mime.ParseMediaType(mediaType)
	if err != nil {
		base, _, _ = strings.Cut(mediaType, ";")
		base = strings.ToLower(strings.TrimSpace(base))
	}
	switch {
	case base == "text/*":
		return textBody, "text/plain; charset=utf-8"
	case base == "" || strings.Contains(base, "*"):
		return binaryBody, "application/octet-stream"
	case httpbody.JSONType(base):
		return jsonBody, mediaType
	case base == "application/x-www-form-urlencoded":
		return formBody, mediaType
	case strings.HasPrefix(base, "multipart/"):
		return multipartBody, mediaType
	case httpbody.TextType(base):
		return textBody, mediaType
	}
	return binaryBody, mediaType
}

// bodyArguments are the arguments of the body.
type bodyArguments struct {
	whole   jsontext.Value // the argument that is the whole body; nil: not given
	members []pair         // the arguments that are members, by names on the wire, in the order of the arguments
	args    []string       // the argument names of members
	blocks  *steps.Blocks  // of the run, whose bytes files may be
}

// encode returns the body; nil and "" if there is none. The bytes are newly allocated.
func (b *body) encode(arguments *bodyArguments) (content []byte, contentType string, f *fault.Error) {
	if arguments.whole == nil && len(arguments.members) == 0 && (b.arg != "" || !b.required) {
		return nil, "", nil
	}
	kind, contentType := bodyKindOf(b.mediaType)
	switch kind {
	case jsonBody:
		return b.json(arguments), contentType, nil
	case formBody:
		content, f = b.form(arguments)
	case multipartBody:
		return b.multipart(arguments, contentType)
	case textBody:
		content = []byte(asText(b.value(arguments)))
	default:
		content, _, f = decodeFile(b.arg, b.value(arguments)) // a body has no file name
	}
	return content, contentType, f
}

// json joins the members unchanged: numbers, escapes and key order are the caller's.
func (b *body) json(arguments *bodyArguments) []byte {
	if arguments.whole != nil {
		return bytes.Clone(arguments.whole)
	}
	size := 2
	for _, m := range arguments.members {
		size += len(m.name) + len(m.value) + 4
	}
	out := append(make([]byte, 0, size), '{')
	for i, m := range arguments.members {
		if i > 0 {
			out = append(out, ',')
		}
		out = rawjson.AppendQuote(out, m.name)
		out = append(append(out, ':'), m.value...)
	}
	return append(out, '}')
}

// value returns the body as one value.
func (b *body) value(arguments *bodyArguments) jsontext.Value {
	if arguments.whole != nil {
		return arguments.whole
	}
	return b.json(arguments)
}

// formFields returns the fields of a form: the members, or those of the one argument.
func (b *body) formFields(arguments *bodyArguments) ([]pair, []string, *fault.Error) {
	if arguments.whole == nil {
		return arguments.members, arguments.args, nil
	}
	if arguments.whole.Kind() != '{' {
		return nil, nil, badArgument(b.arg, "the body is a form: an object is needed")
	}
	members := membersOf(arguments.whole)
	args := make([]string, len(members))
	for i := range args {
		args[i] = b.arg
	}
	return members, args, nil
}

// formEscaper escapes a blank as "+", as HTML forms do.
func formEscaper(styledValue) func(string) string { return url.QueryEscape }

func (b *body) form(arguments *bodyArguments) ([]byte, *fault.Error) {
	if arguments.whole.Kind() == '"' {
		return []byte(asText(arguments.whole)), nil
	}
	members, args, f := b.formFields(arguments)
	if f != nil {
		return nil, f
	}
	var out []byte
	for i, m := range members {
		field, described := b.fields[m.name]
		p := parameter{arg: args[i], name: m.name, style: field.style, explode: field.explode || !described, mediaType: field.mediaType}
		// A media type counts only if it is JSON and the value is an object or an array; other values are sent as text.
		if p.mediaType != "" && (!httpbody.JSONType(p.mediaType) || m.value.Kind() != '{' && m.value.Kind() != '[') {
			p.mediaType = ""
		}
		text, f := p.pairsText(m.value, formEscaper)
		switch {
		case f != nil:
			return nil, f
		case text == "":
			continue
		case len(out) > 0:
			out = append(out, '&')
		}
		out = append(out, text...)
	}
	if out == nil {
		out = []byte{} // an empty body; nil would mean no body
	}
	return out, nil
}

// multipart writes one part for each member, and one for each element of an array (OpenAPI 3.0.4, section 4.8.14.4).
func (b *body) multipart(arguments *bodyArguments, contentType string) ([]byte, string, *fault.Error) {
	members, args, f := b.formFields(arguments)
	if f != nil {
		return nil, "", f
	}
	var out bytes.Buffer
	writer := multipart.NewWriter(&out)
	for i, m := range members {
		values := []jsontext.Value{m.value}
		field := b.fields[m.name]
		if m.value.Kind() == '[' && !httpbody.JSONType(field.mediaType) {
			values = elementsOf(m.value)
		}
		for _, value := range values {
			if f := writePart(writer, arguments.blocks, args[i], m.name, field, value); f != nil {
				return nil, "", f
			}
		}
	}
	if err := writer.Close(); err != nil {
		return nil, "", fault.New(fault.Internal, "the body could not be made")
	}
	base, _, _ := strings.Cut(contentType, ";")
	return out.Bytes(), strings.TrimSpace(base) + "; boundary=" + writer.Boundary(), nil
}

// writePart writes one part: a file, JSON, or plain text. It writes nothing for a null.
func writePart(writer *multipart.Writer, blocks *steps.Blocks, arg, name string, field field, value jsontext.Value) *fault.Error {
	if value.Kind() == 'n' {
		return nil
	}
	content, fileName, contentType := []byte(nil), "", field.mediaType
	switch {
	case field.binary:
		var f *fault.Error
		if content, fileName, f = decodeFile(arg, value); f != nil {
			return f
		}
		if fileName == "" {
			fileName = name
		}
		if contentType == "" || strings.ContainsAny(contentType, "*,") {
			contentType = fileType(contentType, blocks.WithBytes(content))
		}
	case value.Kind() == '{' || value.Kind() == '[' || httpbody.JSONType(field.mediaType):
		content, contentType = value, "application/json"
	default:
		content = []byte(asText(value))
	}
	header := textproto.MIMEHeader{}
	disposition := fmt.Sprintf(`form-data; name="%s"`, dispositionEscaper.Replace(name))
	if fileName != "" {
		disposition += fmt.Sprintf(`; filename="%s"`, dispositionEscaper.Replace(fileName))
	}
	header.Set("Content-Disposition", disposition)
	if contentType != "" && !strings.ContainsAny(contentType, "\r\n") {
		header.Set("Content-Type", contentType)
	}
	part, err := writer.CreatePart(header)
	if err == nil {
		_, err = part.Write(content)
	}
	if err != nil {
		return fault.New(fault.Internal, "the body could not be made")
	}
	return nil
}

// fileType returns the type of a file: that of the block that it is, if the declared types, which may be ranges, have it. "": any.
func fileType(declared string, block *steps.Block) string {
	if block == nil {
		return "application/octet-stream"
	}
	kind, _, _ := strings.Cut(block.MIMEType(), "/")
	for one := range strings.SplitSeq(cmp.Or(declared, "*/*"), ",") {
		one, _, _ = strings.Cut(strings.ToLower(one), ";")
		switch strings.TrimSpace(one) {
		case "*", "*/*", kind + "/*", block.MIMEType():
			return block.MIMEType()
		}
	}
	return "application/octet-stream"
}

// dispositionEscaper escapes names in a Content-Disposition as browsers do (WHATWG HTML, multipart/form-data encoding).
var dispositionEscaper = strings.NewReplacer(`"`, "%22", "\r", "%0D", "\n", "%0A")

// decodeFile decodes a file's content from an argument: base64 text, or {"name","data"} with data in base64.
// name is "" if the argument has none.
func decodeFile(arg string, value jsontext.Value) (content []byte, name string, f *fault.Error) {
	encoded := value
	if value.Kind() == '{' {
		encoded = nil
		for _, m := range membersOf(value) {
			switch {
			case m.name == "name" && m.value.Kind() == '"':
				name = asText(m.value)
			case m.name == "data":
				encoded = m.value
			}
		}
	}
	if encoded.Kind() != '"' {
		return nil, "", badArgument(arg, `a file is given as base64 text, or as {"name","data"} with data in base64`)
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return nil, "", badArgument(arg, "the name of a file cannot hold control characters")
	}
	content, err := decodeBase64(asText(encoded))
	if strings.HasPrefix(asText(encoded), steps.BlockHandle) { // which the second alphabet may well decode
		return nil, "", badArgument(arg, "this is the handle of a block, not its bytes: refer to the data of a step's result, as in $0.data; "+
			"result.get with this token as its token gives a step such a result")
	}
	if err != nil {
		return nil, "", badArgument(arg, "the data is not base64 (RFC 4648): encode the bytes of the file")
	}
	return content, name, nil
}

// decodeBase64 decodes both alphabets of RFC 4648, with or without padding.
func decodeBase64(text string) ([]byte, error) {
	text = strings.TrimRight(text, "=")
	if strings.ContainsAny(text, "-_") {
		return base64.RawURLEncoding.DecodeString(text)
	}
	return base64.RawStdEncoding.DecodeString(text)
}
