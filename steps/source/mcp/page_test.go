package mcp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/mcp"
)

// TestPageIsNoServer: the URL of a page, or of another service, is the likeliest wrong one.
func TestPageIsNoServer(t *testing.T) {
	t.Parallel()
	for what, want := range map[string]string{
		"200 text/html; charset=utf-8": "it answered with text/html and not as an MCP server does: check its url",
		"200 image/png":                "it answered with image/png and not as an MCP server does: check its url",
		"200 ":                         "it answered with no content type and not as an MCP server does: check its url",
		"501 text/html":                "it answered 501 Not Implemented and not as an MCP server does: check its url",
		"503 text/html":                "it answered 503 Service Unavailable: it is tried again",
	} {
		page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			status, kind, _ := strings.Cut(what, " ")
			w.Header()["Content-Type"] = []string{kind}
			code, _ := strconv.Atoi(status)
			w.WriteHeader(code)
			fmt.Fprint(w, "hello")
		}))
		t.Cleanup(page.Close)
		s, err := mcp.New(&mcp.Options{Name: "page", URL: page.URL})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		changed := make(chan struct{}, 1)
		s.Watch(func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
		for s.Status().State != steps.StateRetrying {
			<-changed
		}
		if f := s.Status().Error; f == nil || !strings.HasSuffix(f.Message, want) {
			t.Errorf("%q: %v", what, f)
		}
	}
}
