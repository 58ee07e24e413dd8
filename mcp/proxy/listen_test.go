package proxy

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// slowUpstream is an upstream whose sessions cannot be opened, which it notices only at the end of until.
type slowUpstream struct {
	startingUpstream
	until chan struct{}
}

func (*slowUpstream) Capabilities() *sdk.ServerCapabilities {
	return &sdk.ServerCapabilities{Resources: &sdk.ResourceCapabilities{ListChanged: true}}
}

func (u *slowUpstream) OpenSession(context.Context, *mcpsource.DownstreamClient) (*mcpsource.UpstreamSession, error) {
	<-u.until
	return nil, errors.New("no session")
}

// TestListenersOverlap: upstreams stay connected for a listener that began before the last other one ended.
func TestListenersOverlap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		catalog := newCatalog(t)
		var down atomic.Bool
		var greetings atomic.Int32
		a := memoryUpstream(t, catalog, func(method, _ string) error {
			if method == "initialize" {
				greetings.Add(1)
			}
			if down.Load() {
				return &net.OpError{Op: "dial", Err: errors.New("down")}
			}
			return nil
		})
		b := &slowUpstream{startingUpstream{name: "b", ready: true}, make(chan struct{})}
		if err := catalog.Add("b", b); err != nil {
			t.Fatal(err)
		}
		s := (&sessionlessClient{catalog: catalog}).open(a, b)
		defer s.Close()
		listen := func() (stop context.CancelFunc) {
			ctx, stop := context.WithCancel(t.Context())
			p := &clientRequest{sessions: s, method: "subscriptions/listen"}
			req := &sdk.SubscriptionsListenRequest{Params: &sdk.SubscriptionsListenParams{
				Notifications: &sdk.NotificationSubscriptions{ResourcesListChanged: true}}}
			go func() {
				_, _ = p.listen(ctx, req, func(context.Context, string, sdk.Request) (sdk.Result, error) { return nil, nil })
			}()
			synctest.Wait()
			return stop
		}
		stopFirst := listen()
		close(b.until)
		synctest.Wait()
		b.until = make(chan struct{})
		defer listen()() // still waits for b
		stopFirst()
		synctest.Wait()
		close(b.until)
		synctest.Wait()
		session, err := s.session(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		down.Store(true)
		_, _ = session.Do(t.Context(), "ping", nil) // notices that the connection is lost
		down.Store(false)
		before := greetings.Load()
		time.Sleep(time.Minute)
		if greetings.Load() == before {
			t.Error("the lost connection was not opened again")
		}
	})
}
