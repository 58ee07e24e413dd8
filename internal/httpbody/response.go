package httpbody

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
)

// withheld are the headers of a response that no result shows: they are for the client alone.
var withheld = []string{"Set-Cookie", "Set-Cookie2", "Www-Authenticate", "Proxy-Authenticate"}

// locating are the headers by which a success without a body says what it did and where to go on.
var locating = []string{"Location", "Content-Location", "Operation-Location", "Etag", "Link", "Retry-After"}

// Locates reports whether a header is one of those that a success without a body shows (Empty).
func Locates(name string) bool { return slices.Contains(locating, http.CanonicalHeaderKey(name)) }

// Response returns {"status","headers","body"} as JSON. body is JSON. shows reports whether a header, in canonical form, is shown; nil: all
// are. Cookies and challenges are never shown.
func Response(status int, header http.Header, shows func(name string) bool, body []byte) []byte {
	head := head(status, header, func(name string) bool { return !slices.Contains(withheld, name) && (shows == nil || shows(name)) })
	result := make([]byte, 0, len(head)+len(body)+8)
	result = append(append(result, bytes.TrimSuffix(head, []byte("}"))...), `,"body":`...)
	return append(append(result, body...), '}')
}

// Empty returns the result of a success without a body: {"status","headers"} with the headers that say where to go on, such as Location;
// null if there are none.
func Empty(status int, header http.Header) []byte {
	if !slices.ContainsFunc(locating, func(name string) bool { return header[name] != nil }) {
		return []byte("null")
	}
	return head(status, header, func(name string) bool { return slices.Contains(locating, name) })
}

// head returns {"status","headers"} with the headers that shows accepts. Their names are in lower case, and values of one name are joined.
func head(status int, header http.Header, shows func(name string) bool) []byte {
	shown := map[string]string{}
	for name, values := range header {
		if shows(name) {
			shown[strings.ToLower(name)] = strings.Join(values, ", ")
		}
	}
	return Marshal(struct {
		Status  int               `json:"status"`
		Headers map[string]string `json:"headers"`
	}{status, shown})
}
