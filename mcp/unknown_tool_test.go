package mcp_test

import (
	"encoding/json"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
)

// TestUnknownTool: a call of a tool that does not exist is answered with the nearest names and how to send it through chain, on every
// surface; of functions that the caller may not use it says nothing.
func TestUnknownTool(t *testing.T) {
	t.Parallel()
	for _, surface := range []mcp.Surface{mcp.SurfaceChain, mcp.SurfaceDispatch, mcp.SurfaceFlat, mcp.SurfaceHybrid} {
		t.Run(surface.String(), func(t *testing.T) {
			t.Parallel()
			c := serve(t, grouped(surface)).stdio(t, reader, nil)
			for name, want := range map[string]string{
				"shop.item.list":   `it is a function: send {"steps":[{"fn":"shop.item.list"`,
				"item.get":         `it is a function: send {"steps":[{"fn":"shop.item.get"`,
				"shop.itm.list":    `shop.item.list`,
				"shop_vault.purge": "",
				"shop.vault.purge": "",
			} {
				_, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: json.RawMessage(`{}`)})
				if err == nil || codeOf(err) != -32602 || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "purge\",\"args") {
					t.Errorf("%s: %v, want an error with %s", name, err, want)
				}
			}
		})
	}
}

// TestGroupedByFlatName: a function of a dispatcher can be called by its flat name, which is not listed, within the caller's rights.
func TestGroupedByFlatName(t *testing.T) {
	t.Parallel()
	s := serve(t, grouped(mcp.SurfaceDispatch))
	c := s.stdio(t, reader, nil)
	if text, failed := mcptest.Ask(t, c, "shop_item_get", `{"id":7}`); failed || !strings.Contains(text, `"id":7`) {
		t.Errorf("a grouped function: %s, want item 7", text)
	}
	if _, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "shop_item_create"}); err == nil {
		t.Error("a reader called a function that writes")
	}
	list, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		if tool.Name == "shop_item_get" {
			t.Error("a grouped function is listed")
		}
	}
}
