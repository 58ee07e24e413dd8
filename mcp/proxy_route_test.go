package mcp_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestPassPages(t *testing.T) {
	t.Parallel()
	a, b := newUpstream(t, "a", false), newUpstream(t, "b", false)
	for i := range 1000 + 5 {
		a.server.AddResource(&sdk.Resource{Name: "x", URI: fmt.Sprintf("x://%05d", i)}, a.read)
	}
	s := servePassThrough(t, a, b)
	c := connectHTTP(t, s.http(t, reader), "2025-11-25", nil)
	seen := map[string]bool{}
	pages := 0
	for cursor := ""; pages == 0 || cursor != ""; pages++ {
		page, err := c.ListResources(t.Context(), &sdk.ListResourcesParams{Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Resources {
			if seen[r.URI] {
				t.Errorf("%s is listed twice", r.URI)
			}
			seen[r.URI] = true
		}
		cursor = page.NextCursor
	}
	if len(seen) != 1000+10 || pages != 2 {
		t.Errorf("%d resources on %d pages, want 1010 on 2", len(seen), pages)
	}
	for _, cursor := range []string{"x", "!", base64.RawURLEncoding.EncodeToString([]byte("3 prompts/list")),
		base64.RawURLEncoding.EncodeToString([]byte("-1 resources/list"))} {
		if _, err := c.ListResources(t.Context(), &sdk.ListResourcesParams{Cursor: cursor}); codeOf(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("cursor %s: %v, want code %d", cursor, err, jsonrpc.CodeInvalidParams)
		}
	}
}

// TestPassNoSessionWithHidden: a caller that may use no function of an upstream gets no session with it.
func TestPassNoSessionWithHidden(t *testing.T) {
	t.Parallel()
	w, a := newUpstream(t, "writer", false), newUpstream(t, "a", false)
	c := connectHTTP(t, servePassThrough(t, w, a).http(t, reader), "2025-11-25", nil)
	if _, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "only://writer"}); err == nil {
		t.Error("a hidden resource was read")
	}
	if _, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "only://a"}); err != nil {
		t.Error(err)
	}
	if n := len(slices.Collect(w.server.Sessions())); n > 1 { // the source's own session is allowed
		t.Errorf("%d sessions with the hidden upstream, want at most 1", n)
	}
}
