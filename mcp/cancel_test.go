package mcp_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestCancel: a call over stdio ends when its client cancels it.
func TestCancel(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	client := s.stdio(t, writer, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-s.shop.started
		cancel()
	}()
	if _, err := client.CallTool(ctx, &sdk.CallToolParams{Name: "chain",
		Arguments: json.RawMessage(`{"steps":[{"fn":"shop.slow"}]}`)}); err == nil {
		t.Error("a cancelled call was answered")
	}
	select {
	case <-s.shop.ended:
	case <-time.After(2 * time.Minute):
		t.Error("the running call was not cancelled")
	}
}
