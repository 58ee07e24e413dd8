package mcp_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// TestPageIsNoServer: a likely mistake is the URL of a web page or of another service.
func TestPageIsNoServer(t *testing.T) {
	t.Parallel()
	for what, want := range map[string]string{
		"200 text/html; charset=utf-8": "it answered with text/html, which no MCP server does: check its url",
		"200 image/png":                "it answered with image/png, which no MCP server does: check its url",
		"200 ":                         "it answered with no content type, which no MCP server does: check its url",
		"404 text/plain":               "it answered Not Found: check its url (a server of the older kind needs the HTTP+SSE transport)",
		"501 text/html":                "it answered 501 Not Implemented, which no MCP server does: check its url",
		"503 text/html":                "it answered 503 Service Unavailable: it is tried again",
	} {
		url := listen(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			status, kind, _ := strings.Cut(what, " ")
			w.Header()["Content-Type"] = []string{kind}
			code, _ := strconv.Atoi(status)
			w.WriteHeader(code)
			fmt.Fprint(w, "hello")
		}))
		s := openSource(t, &mcpsource.Options{Name: "page", URL: url})
		await(t, s, steps.StateRetrying)
		if f := s.Status().Error; f == nil || !strings.HasSuffix(f.Message, want) {
			t.Errorf("answer %q: got %v, want %s at the end", what, f, want)
		}
	}
}
