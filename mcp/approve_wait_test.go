package mcp_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/steps"
)

// userPrompt is the user of a client of MCP 2025-11-25, for whom the test answers.
type userPrompt struct {
	asked, answer chan struct{}
}

func (u *userPrompt) options() *sdk.ClientOptions {
	return &sdk.ClientOptions{ElicitationHandler: func(ctx context.Context, _ *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		u.asked <- struct{}{}
		select {
		case <-u.answer:
			return accepted, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
}

func newUserPrompt() *userPrompt {
	return &userPrompt{make(chan struct{}, 10), make(chan struct{}, 10)}
}

// TestQuestionWithoutAnswer checks that a user who never answers keeps a call waiting only for a limited time.
func TestQuestionWithoutAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, approving(t, steps.ApproveWrite))
		o := newUserPrompt().options()
		c := mcptest.StdioOf(t, o, statefulVersion, func(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
			return s.ServeStdio(ctx, in, out, writer)
		})
		began := time.Now()
		text, _ := mcptest.Ask(t, c, "chain", createChain)
		if took := time.Since(began); gjson.Get(text, "error.code").Str != "approval_required" || took != 10*time.Minute {
			t.Errorf("after %v, want 10m and approval_required: %s", took, text)
		}
	})
}

// callAsync calls the tool and sends its answer on a channel; "": there was no answer.
func callAsync(ctx context.Context, c *sdk.ClientSession) <-chan string {
	answer := make(chan string, 1)
	go func() {
		result, err := c.CallTool(ctx, &sdk.CallToolParams{Name: "chain", Arguments: json.RawMessage(createChain)})
		if err != nil || len(result.Content) != 1 {
			answer <- ""
			return
		}
		answer <- result.Content[0].(*sdk.TextContent).Text
	}()
	return answer
}

// TestQuestionClientDisconnects checks that a call ends and sends nothing if its client gives up while the user is being asked.
func TestQuestionClientDisconnects(t *testing.T) {
	t.Parallel()
	for name, disconnect := range map[string]func(t *testing.T, url, session string, cancel func()){
		"cancels": func(_ *testing.T, _, _ string, cancel func()) { cancel() },
		"ends its session": func(t *testing.T, url, session string, _ func()) {
			mcptest.Send(t, http.MethodDelete, url, "", mcptest.Header{"Mcp-Session-Id": session, "Mcp-Protocol-Version": statefulVersion})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, approving(t, steps.ApproveWrite))
			user := newUserPrompt()
			url := s.http(t, writer)
			c := mcptest.Connect(t, &sdk.StreamableClientTransport{Endpoint: url, MaxRetries: -1}, user.options(), statefulVersion)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			answer := callAsync(ctx, c)
			<-user.asked
			disconnect(t, url, c.ID(), cancel)
			polltest.Until(t, "no call runs", func() bool { return s.Stats().Calls == 0 })
			user.answer <- struct{}{}
			if text := <-answer; gjson.Get(text, "ok").Bool() || s.shop.calls.Load() != 0 {
				t.Errorf("%d calls, want none: %s", s.shop.calls.Load(), text)
			}
		})
	}
}

// TestQuestionWhileServerEnds checks that a server that shuts down does not wait for a user. The run waits for approval.
func TestQuestionWhileServerEnds(t *testing.T) {
	t.Parallel()
	s := serve(t, approving(t, steps.ApproveWrite))
	user := newUserPrompt()
	stop := context.CancelFunc(nil)
	serving := make(chan struct{})
	c := mcptest.StdioOf(t, user.options(), statefulVersion, func(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
		ctx, stop = context.WithCancel(ctx)
		close(serving)
		return s.ServeStdio(ctx, in, out, writer)
	})
	<-serving
	answer := callAsync(t.Context(), c)
	<-user.asked
	stop()
	text := <-answer
	if code := gjson.Get(text, "error.code").Str; text != "" && code != "approval_required" && code != "cancelled" {
		t.Errorf("want approval_required or cancelled: %s", text)
	}
	user.answer <- struct{}{}
	polltest.Until(t, "no call runs", func() bool { return s.Stats().Calls == 0 })
	if n := s.shop.calls.Load(); n != 0 {
		t.Errorf("%d calls, want none", n)
	}
}

// TestQuestionWhileServerReloads checks that a call whose user is being asked keeps its configuration, and is made once.
func TestQuestionWhileServerReloads(t *testing.T) {
	t.Parallel()
	s := serve(t, approving(t, steps.ApproveWrite))
	user := newUserPrompt()
	c := mcptest.Connect(t, &sdk.StreamableClientTransport{Endpoint: s.http(t, writer)}, user.options(), statefulVersion)
	answer := callAsync(t.Context(), c)
	<-user.asked
	o, fresh := s.another(t, nil)
	drained, err := s.Reload(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-drained:
		t.Error("drained while the user is being asked")
	default:
	}
	user.answer <- struct{}{}
	if text := <-answer; !gjson.Get(text, "ok").Bool() {
		t.Errorf("the approved call failed: %s", text)
	}
	<-drained
	if s.shop.calls.Load() != 1 || fresh.calls.Load() != 0 {
		t.Errorf("%d calls of the old shop, want 1; %d of the new, want none", s.shop.calls.Load(), fresh.calls.Load())
	}
}
