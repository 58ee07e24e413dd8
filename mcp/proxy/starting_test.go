package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// reloadedClient is a client without a session whose configuration is replaced by reloads.
type reloadedClient struct {
	*sessionlessClient
	now atomic.Pointer[sessionlessClient]
}

func (c *reloadedClient) Passthrough() mcp.Passthrough     { return c.now.Load().Passthrough() }
func (c *reloadedClient) View() *steps.View                { return c.now.Load().View() }
func (c *reloadedClient) AwaitSources(ctx context.Context) { c.now.Load().AwaitSources(ctx) }
func (c *reloadedClient) Changed() <-chan struct{}         { return c.now.Load().Changed() }

// configure replaces the configuration.
func (c *reloadedClient) configure(t *testing.T, upstreams ...*startingUpstream) {
	t.Helper()
	catalog := newCatalog(t)
	var list []Upstream
	for _, u := range upstreams {
		if err := catalog.Add(u.name, u); err != nil {
			t.Fatal(err)
		}
		list = append(list, u)
	}
	c.now.Store(&sessionlessClient{proxy: New(list), catalog: catalog})
}

// startingUpstream is an upstream with resources that becomes ready when the test says so. It opens no sessions.
type startingUpstream struct {
	name    string
	mu      sync.Mutex
	ready   bool
	changed func()
}

func (u *startingUpstream) Name() string { return u.name }

func (u *startingUpstream) isReady() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ready
}

func (u *startingUpstream) Capabilities() *sdk.ServerCapabilities {
	if !u.isReady() {
		return nil
	}
	return &sdk.ServerCapabilities{Resources: &sdk.ResourceCapabilities{}}
}

func (*startingUpstream) OpenSession(context.Context, *mcpsource.DownstreamClient) (*mcpsource.UpstreamSession, error) {
	return nil, errors.New("no session")
}

func (*startingUpstream) Within(
	ctx context.Context, _ json.RawMessage, _ func(context.Context) (*mcpsource.UpstreamSession, error),
) context.Context {
	return ctx
}

func (u *startingUpstream) Functions() []steps.Function {
	if !u.isReady() {
		return nil
	}
	return []steps.Function{{Spec: steps.Spec{Name: u.name + ".get", Effect: steps.Read},
		Call: func(context.Context, []byte) ([]byte, error) { return []byte(`1`), nil }}}
}

func (u *startingUpstream) Status() steps.Status {
	if !u.isReady() {
		return steps.Status{State: steps.StateStarting}
	}
	return steps.Status{State: steps.StateReady}
}

func (u *startingUpstream) Watch(changed func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.changed = changed
}

func (*startingUpstream) Close() error { return nil }

func (u *startingUpstream) becomeReady() {
	u.mu.Lock()
	u.ready = true
	changed := u.changed
	u.mu.Unlock()
	changed()
}

// TestAnnouncedAfterReload: an upstream that becomes ready after a reload is announced, whatever becomes of one that was starting before.
func TestAnnouncedAfterReload(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]struct{ a, b bool }{
		"the other was removed":       {b: true},
		"the other is still starting": {a: true, b: true},
		"it was starting before":      {a: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a, b := &startingUpstream{name: "a"}, &startingUpstream{name: "b"}
				client := &reloadedClient{}
				client.configure(t, a)
				s := client.now.Load().proxy.Open(client).(*sessions)
				defer s.Close()
				h := &listener{queue: make(chan func(), maxQueued), resources: true}
				s.listeners[h] = true
				s.awaitStart(t.Context())
				synctest.Wait()
				late, configured := a, []*startingUpstream{}
				if kept.a {
					configured = append(configured, a)
				}
				if kept.b {
					late, configured = b, append(configured, b)
				}
				client.configure(t, configured...)
				s.Reload(t.Context().Done())
				s.awaitStart(t.Context())
				synctest.Wait()
				late.becomeReady()
				synctest.Wait()
				if n := len(h.queue); n != 1 {
					t.Errorf("the listener was notified %d times, want once", n)
				}
			})
		})
	}
}
