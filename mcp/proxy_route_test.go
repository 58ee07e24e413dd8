package mcp_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/mcp"
)

func TestPassJoins(t *testing.T) {
	t.Parallel()
	a, b := newBehind(t, "a", false), newBehind(t, "b", false)
	s := inFront(t, a, b)
	url := s.http(t, reader)
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			_, o := capableClient("ann")
			c := connectOver(t, url, version, o)
			if offered := c.InitializeResult().Capabilities; offered.Resources == nil || !offered.Resources.Subscribe || offered.Prompts == nil ||
				offered.Completions == nil || offered.Tools == nil {
				t.Fatalf("capabilities %+v", offered)
			}
			resources, err := c.ListResources(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var uris []string
			for _, r := range resources.Resources {
				uris = append(uris, r.URI)
				if len(r.Icons) > 0 {
					t.Error("icons are shown")
				}
			}
			if got := strings.Join(uris, " "); got != "more://a only://a same://thing more://b only://b" {
				t.Errorf("resources %s", got)
			}
			templates, err := c.ListResourceTemplates(t.Context(), nil)
			if err != nil || len(templates.ResourceTemplates) != 2 {
				t.Errorf("templates %+v, %v", templates, err)
			}
			for uri, want := range map[string]string{"only://a": "of a", "only://b": "of b", "same://thing": "of a", "b://7/data": "of b"} {
				got, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
				if err != nil || got.Contents[0].Text != want || got.Contents[0].URI != uri {
					t.Errorf("%s: %+v, %v", uri, got, err)
				}
			}
			want := int64(-32002)
			if version >= statelessVersion {
				want = jsonrpc.CodeInvalidParams
			}
			if _, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "none://x"}); codeOf(err) != want {
				t.Errorf("unknown resource: %v", err)
			}
			prompts, err := c.ListPrompts(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var all []string
			for _, p := range prompts.Prompts {
				all = append(all, p.Name)
				got, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: p.Name})
				routes := map[string]string{"only_a": "a:only_a", "same": "a:same", "only_b": "b:only_b", "b_same": "b:same"}[p.Name]
				if err != nil || got.Description != routes {
					t.Errorf("prompt %s: %+v, %v", p.Name, got, err)
				}
			}
			if got := strings.Join(all, " "); got != "only_a same only_b b_same" {
				t.Errorf("prompts %s", got)
			}
			if _, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "none"}); codeOf(err) != jsonrpc.CodeInvalidParams {
				t.Errorf("unknown prompt: %v", err)
			}
			for _, one := range []struct {
				ref  *sdk.CompleteReference
				want string
			}{
				{&sdk.CompleteReference{Type: "ref/prompt", Name: "b_same"}, "b:same"},
				{&sdk.CompleteReference{Type: "ref/prompt", Name: "same"}, "a:same"},
				{&sdk.CompleteReference{Type: "ref/resource", URI: "b://{id}/data"}, "b:b://{id}/data"},
			} {
				got, err := c.Complete(t.Context(), &sdk.CompleteParams{Ref: one.ref, Argument: sdk.CompleteParamsArgument{Name: "x", Value: "y"}})
				if err != nil || len(got.Completion.Values) != 1 || got.Completion.Values[0] != one.want {
					t.Errorf("completion of %+v: %+v, %v", one.ref, got, err)
				}
			}
		})
	}
}

// A caller that may use no function of an upstream sees nothing else of it.
func TestPassHides(t *testing.T) {
	t.Parallel()
	w, a := newBehind(t, "writer", false), newBehind(t, "a", false)
	s := inFront(t, w, a)
	mine := connectOver(t, s.http(t, reader), "2025-11-25", nil)
	resources, err := mine.ListResources(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resources.Resources {
		if strings.Contains(r.URI, "writer") {
			t.Errorf("it is shown %s", r.URI)
		}
	}
	for _, uri := range []string{"only://writer", "writer://1/data"} {
		if _, err := mine.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("it reads %s", uri)
		}
	}
	if got, err := mine.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "same://thing"}); err != nil || got.Contents[0].Text != "of a" {
		t.Errorf("what both have: %+v, %v", got, err)
	}
	if _, err := mine.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "only_writer"}); err == nil {
		t.Error("it gets a prompt")
	}
	if n := len(slices.Collect(w.server.Sessions())); n > 1 { // the source's own
		t.Errorf("%d sessions with what is hidden", n)
	}
	more := connectOver(t, s.http(t, writer), "2025-11-25", nil)
	if _, err := more.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "only://writer"}); err != nil {
		t.Errorf("who may: %v", err)
	}
}

func TestPassPages(t *testing.T) {
	t.Parallel()
	a, b := newBehind(t, "a", false), newBehind(t, "b", false)
	for i := range 1000 + 5 {
		a.server.AddResource(&sdk.Resource{Name: "x", URI: fmt.Sprintf("x://%05d", i)}, a.read)
	}
	s := inFront(t, a, b)
	c := connectOver(t, s.http(t, reader), "2025-11-25", nil)
	seen := map[string]bool{}
	pages := 0
	for cursor := ""; pages == 0 || cursor != ""; pages++ {
		page, err := c.ListResources(t.Context(), &sdk.ListResourcesParams{Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Resources {
			if seen[r.URI] {
				t.Errorf("%s twice", r.URI)
			}
			seen[r.URI] = true
		}
		cursor = page.NextCursor
	}
	if len(seen) != 1000+10 || pages != 2 {
		t.Errorf("%d resources on %d pages", len(seen), pages)
	}
	for _, cursor := range []string{"x", "!", base64.RawURLEncoding.EncodeToString([]byte("3 prompts/list")),
		base64.RawURLEncoding.EncodeToString([]byte("-1 resources/list"))} {
		if _, err := c.ListResources(t.Context(), &sdk.ListResourcesParams{Cursor: cursor}); codeOf(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("%s: %v", cursor, err)
		}
	}
}

// The list of one upstream is passed on page by page, with the upstream's own cursors.
func TestPassPagesOfOne(t *testing.T) {
	t.Parallel()
	a := newBehind(t, "a", false)
	s := inFront(t, a)
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		c := connectOver(t, s.http(t, reader), version, nil)
		first, err := c.ListResources(t.Context(), nil)
		if err != nil || len(first.Resources) != 2 || first.NextCursor == "" {
			t.Fatalf("%+v, %v", first, err)
		}
		second, err := c.ListResources(t.Context(), &sdk.ListResourcesParams{Cursor: first.NextCursor})
		if err != nil || len(second.Resources) != 1 || second.NextCursor != "" {
			t.Errorf("%+v, %v", second, err)
		}
		if _, err := c.ListResources(t.Context(), &sdk.ListResourcesParams{Cursor: "!"}); codeOf(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("a bad cursor: %v", err)
		}
	}
}

// A secret in a name is hidden from clients, and what has the name can be had all the same.
func TestPassHidesSecretsInNames(t *testing.T) {
	t.Parallel()
	for _, more := range []bool{false, true} {
		upstreams := []*upstreamServer{newBehind(t, "a", false)}
		if more {
			upstreams = append(upstreams, newBehind(t, "b", false))
		}
		a := upstreams[0]
		a.server.AddPrompt(&sdk.Prompt{Name: "of-hunter22-x"}, func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return &sdk.GetPromptResult{Description: "got", Messages: []*sdk.PromptMessage{}}, nil
		})
		a.server.AddResource(&sdk.Resource{Name: "x", URI: "x://hunter22"}, a.read)
		s := serve(t, func(o *mcp.Options) {
			through(t, upstreams...)(o)
			o.Scrubber = secret.New([]string{"hunter22"})
		})
		c := connectOver(t, s.http(t, reader), "2025-11-25", nil)
		hits := 0
		for p, err := range c.Prompts(t.Context(), nil) {
			if err != nil || strings.Contains(p.Name, "hunter22") {
				t.Fatalf("%+v, %v", p, err)
			}
			if !strings.Contains(p.Name, "redacted") {
				continue
			}
			hits++
			if got, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: p.Name}); err != nil || got.Description != "got" {
				t.Errorf("%s: %+v, %v", p.Name, got, err)
			}
		}
		for r, err := range c.Resources(t.Context(), nil) {
			if err != nil || strings.Contains(r.URI, "hunter22") {
				t.Fatalf("%+v, %v", r, err)
			}
			if !strings.Contains(r.URI, "redacted") {
				continue
			}
			hits++
			if got, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: r.URI}); err != nil || got.Contents[0].Text != "of a" ||
				strings.Contains(got.Contents[0].URI, "hunter22") {
				t.Errorf("%s: %+v, %v", r.URI, got, err)
			}
		}
		if hits != 2 {
			t.Errorf("%d are listed", hits)
		}
	}
}
