package mcp_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/internal/polltest"
)

func TestProgressAndCancel(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	var mu sync.Mutex
	var reports []string
	client := s.stdio(t, writer, &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context,
		r *sdk.ProgressNotificationClientRequest) {
		mu.Lock()
		defer mu.Unlock()
		line, _ := json.Marshal([]any{r.Params.ProgressToken, r.Params.Progress, r.Params.Total, r.Params.Message})
		reports = append(reports, string(line))
	}})
	params := &sdk.CallToolParams{
		Name: "chain", Arguments: json.RawMessage(`{"lite":true,"steps":[{"id":"first","fn":"shop.echo","args":{"text":"a"}},{"fn":"shop.echo","args":{"text":"$0.said"}}]}`),
		Meta: sdk.Meta{"progressToken": "p7"},
	}
	if _, err := client.CallTool(t.Context(), params); err != nil {
		t.Fatal(err)
	}
	want := `["p7",1,2,"step 0 first: shop.echo"] ["p7",2,2,"step 1: shop.echo"]`
	polltest.Until(t, "two reports", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(reports) >= 2
	})
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(reports, " "); got != want {
		t.Errorf("told %s, want %s", got, want)
	}
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
