package mcp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/mcp"
)

// TestPageIsNoServer: the URL of a page, or of another service, is the likeliest wrong one.
func TestPageIsNoServer(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		"text/html; charset=utf-8": "it answered with text/html and not as an MCP server does: check its url",
		"image/png":                "it answered with image/png and not as an MCP server does: check its url",
		"":                         "it answered with no content type and not as an MCP server does: check its url",
	} {
		page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{kind}
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
			t.Errorf("%q: %v", kind, f)
		}
	}
}
