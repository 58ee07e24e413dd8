package httpbody

import (
	"bytes"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
)

// JSONType reports whether a media type, in lower case and without parameters, is JSON.
func JSONType(mediaType string) bool {
	return mediaType == "application/json" || mediaType == "text/json" || strings.HasSuffix(mediaType, "+json")
}

// TextType reports whether a media type, in lower case and without parameters, is text other than JSON.
func TextType(mediaType string) bool {
	if strings.HasPrefix(mediaType, "text/") || strings.HasSuffix(mediaType, "+xml") || strings.HasSuffix(mediaType, "+yaml") {
		return true
	}
	switch mediaType {
	case "application/xml", "application/yaml", "application/x-yaml", "application/javascript", "application/graphql",
		"application/x-ndjson", "application/jsonl", "application/json-seq", "application/sql", "application/sparql-query",
		"application/x-www-form-urlencoded":
		return true
	}
	return false
}

// neverText reports whether a media type that is no TextType is binary, whatever its bytes are.
func neverText(mediaType string) bool {
	kind, _, _ := strings.Cut(mediaType, "/")
	return kind == "image" || kind == "audio" || kind == "video" || kind == "font"
}

// textKind says whether a body is text.
type textKind uint8

const (
	noText     textKind = iota // the body is compressed or binary
	goodText                   // text, by its type or by its bytes
	brokenText                 // text by its type, with bytes that its character set does not have
)

// decodeText returns the text of a body in UTF-8. Bytes that are invalid in the declared character set become U+FFFD.
func decodeText(header http.Header, data []byte) (text []byte, kind textKind) {
	// Any compression that remains here was not requested.
	if encoding := header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, noText
	}
	mediaType, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	if !JSONType(mediaType) && !TextType(mediaType) && (neverText(mediaType) || !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0) {
		return nil, noText
	}
	kind = goodText
	if encoding, name := charset(header); encoding != nil {
		if changed, err := encoding.NewDecoder().Bytes(data); err == nil {
			// Only the encodings of Unicode have the character itself.
			if bytes.Contains(changed, replacement) && !strings.HasPrefix(name, "utf-") && name != "gb18030" {
				kind = brokenText
			}
			data = changed
		}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		data, kind = bytes.ToValidUTF8(data, replacement), brokenText
	}
	return data, kind
}

var replacement = []byte("\ufffd")

// charset returns the declared character set and its name; nil for UTF-8, for none and for an unknown one.
func charset(header http.Header) (decoder encoding.Encoding, name string) {
	_, parameters, _ := mime.ParseMediaType(header.Get("Content-Type"))
	found, err := htmlindex.Get(parameters["charset"])
	if err != nil {
		return nil, ""
	}
	if name, err = htmlindex.Name(found); err != nil || name == "utf-8" {
		return nil, ""
	}
	return found, name
}

// charsetName returns the name of a body's character set, for messages.
func charsetName(header http.Header) string {
	if _, name := charset(header); name != "" {
		return name
	}
	return "UTF-8"
}
