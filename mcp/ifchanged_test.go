package mcp_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// TestIfChanged: a client with a session is told what has changed since its own last read, and a client without one since the answer whose
// token it sends.
func TestIfChanged(t *testing.T) {
	t.Parallel()
	var line atomic.Int64 // that differs
	page := steps.Function{Spec: steps.Spec{Name: "pages.get", Effect: steps.Read, EffectDeclared: true, Input: []byte(`{"type":"object"}`)},
		Call: func(context.Context, []byte) ([]byte, error) {
			text := strings.Repeat(`one of many lines\n`, 50)
			return fmt.Appendf(nil, `{"size":%d,"text":"%snumber %d\n%s"}`, line.Load(), text, line.Load(), text), nil
		}}
	s := serve(t, func(o *mcp.Options) {
		if err := o.Catalog.Add("pages", functions{page}); err != nil {
			t.Error(err)
		}
	})
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Staff})
	ask := func(client *sdk.ClientSession, ifChanged string) (answer, result gjson.Result) {
		text, failed := mcptest.Ask(t, client, "chain", `{"ifChanged":`+ifChanged+`,"steps":[{"pages.get":{}}]}`)
		if failed {
			t.Fatal(text)
		}
		return gjson.Parse(text), gjson.Get(text, "result")
	}
	for name, client := range map[string]*sdk.ClientSession{"stdio": s.stdio(t, writer, nil), "http": connectAs(t, url, "ann", statefulVersion),
		"without a session": connectAs(t, url, "ann", statelessVersion)} {
		hasSession := name != "without a session"
		next := func(token gjson.Result) string {
			if hasSession {
				return "true"
			}
			return token.Raw
		}
		first, result := ask(client, "true")
		if !result.Get("text").Exists() || first.Get("continuation_token").Exists() == hasSession {
			t.Errorf("%s: got %s, want the page, and a token if there is no session", name, first)
		}
		_, again := ask(client, next(first.Get("continuation_token")))
		if !again.Get("unchanged").Bool() {
			t.Errorf("%s: got %s, want that nothing has changed", name, again)
		}
		was := line.Add(1) - 1
		_, changed := ask(client, next(again.Get("continuation_token")))
		if want := fmt.Sprintf("\n-number %d\n+number %d\n", was, was+1); !strings.Contains(changed.Get("changed").Str, want) {
			t.Errorf("%s: got %s, want a diff with %q", name, changed, want)
		}
		if _, other := ask(connectAs(t, url, "eve", statefulVersion), changed.Get("continuation_token").Raw); !other.Get("text").Exists() {
			t.Errorf("%s: another caller with the token got %s, want the page", name, other)
		}
	}
	if _, other := ask(connectAs(t, url, "ann", statefulVersion), "true"); !other.Get("text").Exists() {
		t.Errorf("another session of the same caller got %s, want the page", other)
	}
}

// functions is a source with these functions.
type functions []steps.Function

func (f functions) Functions() []steps.Function { return f }
func (functions) Close() error                  { return nil }
