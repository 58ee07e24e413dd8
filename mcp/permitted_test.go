package mcp

import (
	"context"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/onecall-mcp/onecall/steps"
)

// TestRevokedWhileItRuns: calls that run are cancelled when their caller's token is gone, and those of others go on.
func TestRevokedWhileItRuns(t *testing.T) {
	t.Parallel()
	for name, stateless := range map[string]bool{"in a session": false, "without one": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil)
			url := s.behind(t, &Door{Callers: staff})
			ann, bob := slowCall(t, s, url, "ann", stateless), slowCall(t, s, url, "bob", stateless)
			s.SetDoor(&Door{Callers: badges{"bob": staff["bob"]}})
			if body := <-ann; !strings.Contains(body, "cancelled") {
				t.Errorf("whose token is gone: %s", body)
			}
			select {
			case body := <-bob:
				t.Errorf("another: %s", body)
			case <-time.After(50 * time.Millisecond):
			}
			s.SetDoor(&Door{Callers: badges{}})
			<-bob
		})
	}
}

// meanwhiles is what replicas share, where it takes time to read it.
type meanwhiles struct {
	*commons
	meanwhile func()
}

func (s *meanwhiles) Session(ctx context.Context, id, owner string) (steps.SessionState, error) {
	kept, err := s.commons.Session(ctx, id, owner)
	return &meanwhileState{kept, s}, err
}

type meanwhileState struct {
	steps.SessionState
	of *meanwhiles
}

func (s *meanwhileState) Read(ctx context.Context, names ...string) ([]int64, error) {
	s.of.meanwhile()
	return s.SessionState.Read(ctx, names...)
}

// TestRevokedBeforeItRuns: a call whose caller's token is taken while it is still looked up what the session has spent does nothing.
func TestRevokedBeforeItRuns(t *testing.T) {
	t.Parallel()
	shared := &meanwhiles{newCommons(), func() {}}
	s := serve(t, func(o *Options) { o.Shared, o.SessionTokens = shared, 100_000 })
	url := s.behind(t, &Door{Callers: staff})
	headers := header{"Authorization": "Bearer ann"}
	r, _ := sendTo(t, "POST", url, hello, headers)
	headers["Mcp-Session-Id"] = r.Header.Get("Mcp-Session-Id")
	const write = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"chain","arguments":{"steps":[{"fn":"shop.echo"}]}}}`
	if _, body := sendTo(t, "POST", url, write, headers); !strings.Contains(body, `said`) || s.shop.calls.Load() != 1 {
		t.Fatal(body)
	}
	shared.meanwhile = func() { s.SetDoor(&Door{Callers: badges{}}) }
	if _, body := sendTo(t, "POST", url, write, headers); !strings.Contains(body, "your rights are not what they were") || s.shop.calls.Load() != 1 {
		t.Errorf("%s, and %d calls", body, s.shop.calls.Load())
	}
}

// TestRevokedWhileItIsPassedThrough: what an upstream is asked for is not waited for any more when its caller's token is gone.
func TestRevokedWhileItIsPassedThrough(t *testing.T) {
	t.Parallel()
	b := newBehind(t, "a", false)
	started, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	b.server.AddPrompt(&sdk.Prompt{Name: "waits"}, func(ctx context.Context, _ *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		started <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		return nil, ctx.Err()
	})
	s := serve(t, func(o *Options) {
		o.Surface, o.Upstreams = SurfaceFlat, []Upstream{b}
		if err := o.Catalog.Add(b.name, b.source); err != nil {
			t.Fatal(err)
		}
	})
	url := s.behind(t, &Door{Callers: staff})
	headers := header{"Authorization": "Bearer ann"}
	r, _ := sendTo(t, "POST", url, hello, headers)
	headers["Mcp-Session-Id"] = r.Header.Get("Mcp-Session-Id")
	answered := make(chan string, 1)
	go func() {
		_, body := sendTo(t, "POST", url, `{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"waits"}}`, headers)
		answered <- body
	}()
	select {
	case <-started:
	case body := <-answered:
		t.Fatal(body)
	}
	s.SetDoor(&Door{Callers: badges{}})
	if body := <-answered; !strings.Contains(body, `"error"`) {
		t.Error(body)
	}
	<-ended
}

// TestBeginningIsCounted: a client that begins sessions faster than it may leaves none in what replicas share, and what it may
// begin is counted once.
func TestBeginningIsCounted(t *testing.T) {
	t.Parallel()
	shared := newCommons()
	s := serve(t, func(o *Options) { o.Shared, o.Limits = shared, Limits{PerSecond: 0.001, Burst: 3} })
	url := s.behind(t, &Door{Callers: staff})
	statuses := map[int]int{}
	for range 8 {
		r, _ := sendTo(t, "POST", url, hello, header{"Authorization": "Bearer ann"})
		statuses[r.StatusCode]++
		if r.StatusCode == 429 && r.Header.Get("Retry-After") == "" {
			t.Error("it is not told when to come again")
		}
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if statuses[200] != 3 || statuses[429] != 5 || len(shared.owner) != 3 {
		t.Errorf("%v, and %d sessions", statuses, len(shared.owner))
	}
}
