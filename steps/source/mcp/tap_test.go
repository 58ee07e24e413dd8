package mcp

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"
)

// TestAbandonedRequests: on a connection that clients share, a cancelled request keeps the others' clients from being asked until its late
// answer comes, or until the server has had time to stop it; its mark is not kept for ever.
func TestAbandonedRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tap := newTap(&Source{options: Options{Name: "shared"}})
		tap.downstream = &downstream{session: &UpstreamSession{downstream: DownstreamClient{Shared: true}}}
		tap.requests = &serverRequests{conn: &connection{tap: tap}}
		only := func() *pendingRequest {
			tap.mu.Lock()
			defer tap.mu.Unlock()
			return tap.only()
		}
		begin := func() *pendingRequest {
			pending := &pendingRequest{stub: noContent, ctx: t.Context()}
			return tap.register(pending.withContext(t.Context()), tap.seq.Load()+1)
		}
		tap.forget(begin())
		running := begin()
		if got := only(); got != nil {
			t.Errorf("after a cancelled call the server may mean that one, got %v", got)
		}
		m := parseMessage(`{"id":1,"result":{}}`)
		tap.greeted.Store(true)
		tap.unseen(m.requestID(), &m)
		if got := only(); got != running {
			t.Errorf("after the late answer: got %v, want the running call", got)
		}
		tap.forget(running)
		for range 3 {
			time.Sleep(abandonedFor)
			tap.forget(begin())
		}
		if len(tap.abandoned) != 1 {
			t.Errorf("%d marks are kept, want that of the last cancelled call", len(tap.abandoned))
		}
		running = begin()
		time.Sleep(abandonedFor)
		if got := only(); got != running {
			t.Errorf("the server has had time to stop: got %v, want the running call", got)
		}
		running.setAnswer(&message{result: gjson.Parse(`{}`)})
		if tap.forget(running); len(tap.abandoned) != 0 {
			t.Errorf("a call that was answered left a mark")
		}
	})
}
