package httpbody

import (
	"bytes"
	"mime"
	"net/http"
	"strings"
)

// Promised checks the type of a body against the media types that a document declares for the response; none, or one that is */* or no
// media type: any type. If the type is not among them, problem says so, for a message after "answered 200": "with text/html, where the
// document declares application/json". A response that names no type, or only application/octet-stream, as a server does for files that it
// does not know, has the declared type if that is JSON. shown is the header to read the body by.
func Promised(header http.Header, data []byte, declared []string) (shown http.Header, problem string) {
	if len(declared) == 0 || len(bytes.TrimSpace(data)) == 0 {
		return header, ""
	}
	sent, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	allJSON := true
	for _, text := range declared {
		mediaType, _, _ := mime.ParseMediaType(text)
		if covers(mediaType, sent) {
			return header, ""
		}
		allJSON = allJSON && JSONType(mediaType)
	}
	switch {
	case sent != "" && (sent != "application/octet-stream" || !allJSON):
		return header, "with " + sent + ", where the document declares " + strings.Join(declared, ", ")
	case allJSON:
		shown = header.Clone()
		shown.Set("Content-Type", "application/json")
		return shown, ""
	}
	return header, ""
}

// covers reports whether a declared media type covers one that was sent. All JSON types are one type here, and so are those of XML:
// services and documents exchange application/json, application/hal+json and application/problem+json freely.
func covers(declared, sent string) bool {
	group, isRange := strings.CutSuffix(declared, "/*")
	switch {
	case !strings.Contains(declared, "/"), declared == "*/*", declared == sent:
		return true
	case isRange:
		return strings.HasPrefix(sent, group+"/")
	}
	return JSONType(declared) && JSONType(sent) || xmlType(declared) && xmlType(sent)
}

// xmlType reports whether a media type is XML other than a page.
func xmlType(mediaType string) bool {
	return mediaType == "application/xml" || mediaType == "text/xml" ||
		strings.HasSuffix(mediaType, "+xml") && mediaType != "application/xhtml+xml"
}
