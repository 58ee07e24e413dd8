package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
)

// TestSessionSpending: info reports the tokens that the client has counted, each warning comes once, and when the tokens are used up
// every answer except for fetches is small.
func TestSessionSpending(t *testing.T) {
	t.Parallel()
	const maximum = 6000
	s := serve(t, func(o *mcp.Options) {
		o.Surface, o.SessionTokens = mcp.SurfaceFlat, maximum
		if err := o.Catalog.Add("more", wordySource{}); err != nil {
			t.Fatal(err)
		}
	})
	rapid.Check(t, func(r *rapid.T) {
		client := s.stdio(t, writer, nil)
		defer client.Close()
		m := newSpend(t, maximum)
		stored, _ := mcptest.Ask(t, client, "chain", `{"lite":true,"steps":[{"fn":"shop.item.list","args":{"limit":80}}],"budget":{"maxTotalTokens":200}}`)
		m.tokens += m.counter.Count([]byte(stored), -1)
		token := gjson.Get(stored, "continuation_token").Str
		if token == "" {
			r.Fatalf("want a probe, got %s", stored)
		}
		for range rapid.IntRange(1, 12).Draw(r, "calls") {
			kind := rapid.SampledFrom([]string{"chain", "low", "lite", "failure", "faults", "search", "info", "flat", "flat text", "fetch",
				"lite page", "flat page"}).Draw(r, "kind")
			call, fetches, args := spendCalls[kind], false, ""
			switch {
			case strings.Contains(call.args, "%q"):
				args, fetches = fmt.Sprintf(call.args, token), true
			case strings.Contains(call.args, "%d"):
				args = fmt.Sprintf(call.args, rapid.IntRange(0, 60).Draw(r, "how much"))
			default:
				args = call.args
			}
			text, _ := mcptest.Ask(t, client, call.tool, args)
			n := m.counter.Count([]byte(text), -1)
			if m.tokens >= maximum && !fetches && n > smallAnswer {
				r.Errorf("%s %s: %d tokens after %d of %d, want at most %d: %s", call.tool, args, n, m.tokens, maximum, smallAnswer, text)
			}
			if limit := gjson.Get(text, "usage.limit").Int(); kind == "low" && limit != 200 || m.tokens >= maximum && kind == "chain" &&
				limit != smallAnswer || m.tokens < maximum && kind == "chain" && limit != 10_000 {
				r.Errorf("%s: limit %d after %d tokens; want 200 for low, and for a chain %d once %d tokens are used, 10000 before", kind, limit, m.tokens, smallAnswer, maximum)
			}
			if kind == "search" && !gjson.Get(text, "functions").Exists() {
				r.Errorf("a search after %d: %s, want functions", m.tokens, text)
			}
			if kind == "fetch" && gjson.Get(text, "result.items.#").Int() != 80 {
				r.Errorf("a fetch after %d: %.200s, want 80 items", m.tokens, text)
			}
			if kind == "info" && (gjson.Get(text, "session.tokens").Int() != int64(m.tokens) || gjson.Get(text, "session.maxTokens").Int() != maximum) {
				r.Errorf("want session.tokens %d: %s", m.tokens, text)
			}
			reports := sessionWarnings(text)
			if due := m.due(); due > 0 && call.standard && kind != "low" {
				if len(reports) != 1 || (due == 100) != strings.Contains(reports[0], "used up") {
					r.Errorf("%s after %d, due %d: %q, want one, which says used up if 100 is due, in %s", kind, m.tokens, due, reports, text)
				}
			} else if len(reports) > 0 && (due == 0 || !call.standard) {
				r.Errorf("%s after %d: %q, want none", kind, m.tokens, reports)
			}
			if len(reports) > 0 {
				m.reported = m.due()
			}
			m.tokens += n
		}
		if text, _ := mcptest.Ask(t, client, "info", `{}`); gjson.Get(text, "session.tokens").Int() != int64(m.tokens) {
			r.Errorf("want session.tokens %d: %s", m.tokens, text)
		}
	})
}

// TestSessionSpendingConcurrently: concurrent calls lose no token and repeat no warning. Sessions are counted separately, on both
// transports.
func TestSessionSpendingConcurrently(t *testing.T) {
	t.Parallel()
	const maximum = 20_000
	s := serve(t, func(o *mcp.Options) { o.SessionTokens = maximum })
	url := s.http(t, writer)
	var all sync.WaitGroup
	for i, client := range []*sdk.ClientSession{s.stdio(t, writer, nil), connectHTTP(t, url, "2025-11-25", nil),
		connectHTTP(t, url, "2025-11-25", nil)} {
		all.Go(func() {
			m := newSpend(t, maximum)
			var mu sync.Mutex
			times := map[string]int{}
			record := func(text string) {
				mu.Lock()
				defer mu.Unlock()
				m.tokens += m.counter.Count([]byte(text), -1)
				for _, message := range sessionWarnings(text) {
					kind := "used up"
					if !strings.Contains(message, kind) {
						kind = "near"
					}
					times[kind]++
				}
			}
			var calls sync.WaitGroup
			for j := range 6 {
				calls.Go(func() {
					for k := range 14 {
						text, _ := mcptest.Ask(t, client, "chain", fmt.Sprintf(`{"lite":%v,"steps":[{"fn":"shop.item.list","args":{"limit":%d}}]}`,
							(j+k)%3 == 0, 5+i+j))
						record(text)
					}
				})
			}
			calls.Wait()
			if m.tokens < maximum {
				t.Errorf("the test used only %d tokens, want at least %d", m.tokens, maximum)
			}
			for range 2 {
				text, _ := mcptest.Ask(t, client, "chain", `{"steps":[{"fn":"shop.echo"}]}`)
				record(text)
			}
			if times["used up"] != 1 || times["near"] > 2 {
				t.Errorf("warnings %v, want one that the tokens are used up and at most two before", times)
			}
			if text, _ := mcptest.Ask(t, client, "info", `{}`); gjson.Get(text, "session.tokens").Int() != int64(m.tokens) {
				t.Errorf("want session.tokens %d: %s", m.tokens, text)
			}
		})
	}
	all.Wait()
	none := connectHTTP(t, url, "2026-07-28", nil)
	for range 40 {
		if text, _ := mcptest.Ask(t, none, "chain", `{"steps":[{"fn":"shop.item.list","args":{"limit":40}}]}`); sessionWarnings(text) != nil ||
			gjson.Get(text, "result.items.#").Int() != 40 {
			t.Fatalf("a client without a session: %.300s, want 40 items and no warning", text)
		}
	}
	if text, _ := mcptest.Ask(t, none, "info", `{}`); gjson.Get(text,
		"session").Raw != `{"tokens":0,"maxTokens":20000,"note":"this client has no session, so its use is not summed"}` {
		t.Errorf("a client without a session: %s, want a note that its use is not summed", text)
	}
}

// TestSessionWarningHeld: while a call is to give a warning, no other call gives it. If the client cancels that call, the warning comes
// again.
func TestSessionWarningHeld(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *mcp.Options) { o.SessionTokens = 4500 })
	client := s.stdio(t, writer, nil)
	if text, _ := mcptest.Ask(t, client, "chain", `{"steps":[{"fn":"shop.item.list","args":{"limit":80}}]}`); sessionWarnings(text) != nil ||
		gjson.Get(text, "usage.tokens").Int() < 3375 {
		t.Fatalf("the first call: %s, want no warning, and at least 3375 tokens", text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := client.CallTool(ctx, &sdk.CallToolParams{Name: "chain", Arguments: json.RawMessage(`{"steps":[{"fn":"shop.slow"}]}`)})
		done <- err
	}()
	<-s.shop.started
	if text, _ := mcptest.Ask(t, client, "chain", `{"steps":[{"fn":"shop.echo"}]}`); sessionWarnings(text) != nil {
		t.Errorf("a second call gives the same warning: %s", text)
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("the canceled call was answered")
	}
	<-s.shop.ended
	warnings := func() int {
		text, _ := mcptest.Ask(t, client, "chain", `{"steps":[{"fn":"shop.item.get","args":{}}]}`)
		return len(sessionWarnings(text))
	}
	polltest.Until(t, "no call runs", func() bool { return s.Stats().Calls == 0 })
	if first, second := warnings(), warnings(); first != 1 || second != 0 {
		t.Errorf("the unread warning came %d times, want 1; then %d times, want 0", first, second)
	}
	if text, _ := mcptest.Ask(t, client, "info", `{}`); gjson.Get(text, "session.tokens").Int() > 4050 {
		t.Errorf("the session has used enough tokens for the next warning: %s, want at most 4050", text)
	}
}
