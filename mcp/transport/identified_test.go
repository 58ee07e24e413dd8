package transport

import (
	"context"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/steps"
)

// TestIdentifiedOnce: a sender is identified once, and again only if its rights may have changed while it sent.
func TestIdentifiedOnce(t *testing.T) {
	t.Parallel()
	s, k := serve(t, nil), newKeyring()
	url := s.serveAs(t, &Access{Callers: k})
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chain","arguments":{"steps":[{"fn":"shop.echo","args":{"text":"x"}}]}` + mcptest.StatelessMeta + `}}`
	headers := mcptest.Header{"Content-Type": "application/json", "Mcp-Method": "tools/call", "Mcp-Name": "chain", "Mcp-Protocol-Version": "2026-07-28"}
	const requests = 10
	before, _, _ := k.count()
	for range requests {
		headers["Authorization"] = "Bearer ann"
		if r, text := mcptest.Send(t, "POST", url, body, headers); r.StatusCode != 200 {
			t.Fatal(text)
		}
	}
	// If the machine stalls for a second, one of them is identified again.
	if after, _, _ := k.count(); after-before > requests+requests/2 {
		t.Errorf("%d requests, and %d tokens verified", requests, after-before)
	}
	calls := s.shop.calls.Load()
	for who, meanwhile := range map[string]func(){
		"ann": func() { k.without("ann"); s.RecheckCallers() },
		"bob": func() { // as by a file that nobody has looked at since
			k.mu.Lock()
			k.known = maps.Clone(k.known)
			delete(k.known, "bob")
			k.mu.Unlock()
			time.Sleep(maxIdentityAge)
		},
	} {
		headers["Authorization"] = "Bearer " + who
		conn := dial(t, url, "POST", Path, headers, len(body))
		mcptest.Until(func() bool { return s.requests.of("token:"+who) > 0 })
		meanwhile()
		status, text := answerTo(t, conn, body)
		if status != 401 || s.shop.calls.Load() != calls {
			t.Errorf("%s: %d %s", who, status, text)
		}
	}
}

// TestUnchanged lists what can happen to a sender while it sends.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, k := &Server{}, newKeyring()
		let := func() *Access {
			d := &Access{Callers: k, revocable: k}
			s.access.Store(d)
			return d
		}
		d := let()
		for name, test := range map[string]struct {
			meanwhile func(*identity)
			soon      bool
		}{
			"nothing":        {func(*identity) {}, true},
			"a moment":       {func(*identity) { time.Sleep(maxIdentityAge - 1) }, true},
			"a while":        {func(*identity) { time.Sleep(maxIdentityAge) }, false},
			"its end":        {func(v *identity) { v.Expires = time.Now() }, false},
			"other keys":     {func(*identity) { k.keys++ }, false},
			"another access": {func(*identity) { d = let() }, false},
		} {
			one := *k.known["ann"]
			v := &identity{Caller: &one, access: d, identifiedAt: time.Now(), token: "ann"}
			v.keysVersion.Store(k.keys)
			one.Expires = time.Now().Add(time.Hour)
			if test.meanwhile(v); s.unchanged(v) != test.soon {
				t.Errorf("%s: %v", name, !test.soon)
			}
		}
	})
}

// slowCallers are Callers that take a while.
type slowCallers struct {
	mcptest.Callers
	asked  chan struct{} // gets a token when somebody may be waited for
	answer chan struct{} // closed when it is known
}

func (p *slowCallers) Verify(ctx context.Context, token string) (*steps.Caller, error) {
	select {
	case <-p.answer:
		return p.Callers.Verify(ctx, token)
	case <-ctx.Done():
		return nil, fault.New(fault.Timeout, "the keys did not come in time")
	case p.asked <- struct{}{}:
	}
	select {
	case <-p.answer:
		return p.Callers.Verify(ctx, token)
	case <-ctx.Done():
		return nil, fault.New(fault.Timeout, "the keys did not come in time")
	}
}

// TestSlowCallers: SetAccess does not wait for slow Callers; a call ends once its caller's token turns out to be invalid.
func TestSlowCallers(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	url := s.serveAs(t, &Access{Callers: mcptest.Staff})
	ann, bob := slowCall(t, s, url, "ann", true), slowCall(t, s, url, "bob", true)
	p := &slowCallers{mcptest.Callers{"bob": mcptest.Staff["bob"]}, make(chan struct{}), make(chan struct{})}
	s.SetAccess(&Access{Callers: p}) // nobody answers yet
	soon(t, "somebody looks who may stay", p.asked)
	close(p.answer)
	if body := soon(t, "who may not stay ends", ann); !strings.Contains(body, "cancelled") {
		t.Error(body)
	}
	s.shop.enough <- struct{}{}
	if body := soon(t, "who may stay ends", bob); !strings.Contains(body, "late") {
		t.Error(body)
	}
}

// TestSettledRights: a call ends if the new keys give its caller different rights.
func TestSettledRights(t *testing.T) {
	t.Parallel()
	s, k := serve(t, nil), newKeyring()
	url := s.serveAs(t, &Access{Callers: k})
	ann := slowCall(t, s, url, "ann", true)
	k.mu.Lock()
	k.next = maps.Clone(k.known)
	more := *k.next["ann"]
	more.Tier = steps.TierAdmin
	k.next["ann"] = &more
	k.mu.Unlock()
	s.RecheckCallers()
	if body := soon(t, "whose rights are others ends", ann); !strings.Contains(body, "cancelled") {
		t.Error(body)
	}
}
