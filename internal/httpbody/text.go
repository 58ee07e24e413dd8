package httpbody

import (
	"bytes"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

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

// decodeText returns the text of a body in UTF-8. isText reports whether the body is text, by its type or by its bytes. Bytes that are
// invalid in the declared character set become U+FFFD.
func decodeText(header http.Header, data []byte) (text []byte, isText bool) {
	// Any compression that remains here was not requested.
	if encoding := header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, false
	}
	mediaType, parameters, _ := mime.ParseMediaType(header.Get("Content-Type"))
	if !JSONType(mediaType) && !TextType(mediaType) && (!utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0) {
		return nil, false
	}
	charset := parameters["charset"]
	if encoding, err := htmlindex.Get(charset); err == nil && !strings.EqualFold(charset, "utf-8") {
		if changed, err := encoding.NewDecoder().Bytes(data); err == nil {
			data = changed
		}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		data = bytes.ToValidUTF8(data, []byte("\ufffd"))
	}
	return data, true
}
