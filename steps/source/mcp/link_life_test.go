package mcp

import (
	"context"
	"encoding/json"
	"runtime"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/steps"
)

// A client that takes nothing is no reason for others to wait, nor for the server.
func TestLinkWithSlowClient(t *testing.T) {
	t.Parallel()
	s := open(t, child(t, "full"))
	await(t, s, steps.StateReady)
	c := newClient("ann", "2025-11-25")
	hang := make(chan struct{})
	c.Notify = func(context.Context, string, json.RawMessage) { <-hang }
	l := linkTo(t, s, &c.Peer)
	if _, err := l.Do(t.Context(), "logging/setLevel", json.RawMessage(`{"level":"info"}`)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	started := time.Now()
	_, _ = function(t, s, "shelf.log").Call(l.Call(ctx, nil), []byte(`{"n":2000}`))
	if time.Since(started) > patience/2 {
		t.Error("the call did not return")
	}
	close(hang)
	if got := says(t, l, "shelf.pid", `{}`); got == "" {
		t.Error("the session is of no use any more")
	}
}

// A session that is lost comes back with what the client has asked for.
func TestLinkComesBack(t *testing.T) {
	t.Parallel()
	s := open(t, child(t, "full"))
	await(t, s, steps.StateReady)
	c := newClient("ann", "2025-11-25")
	l := linkTo(t, s, &c.Peer)
	for method, params := range map[string]string{"logging/setLevel": `{"level":"info"}`, "resources/subscribe": `{"uri":"a://r"}`} {
		if _, err := l.Do(t.Context(), method, json.RawMessage(params)); err != nil {
			t.Fatal(err)
		}
	}
	before := says(t, l, "shelf.pid", `{}`)
	own := gjson.Parse(do(t, s, "shelf.pid", `{}`)).String()
	if _, err := calls(t, l, "shelf.die", `{}`, ""); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("died: %v", err)
	}
	after := says(t, l, "shelf.pid", `{}`)
	if before == after || before == own || gjson.Parse(do(t, s, "shelf.pid", `{}`)).String() != own {
		t.Errorf("processes: %s, then %s; the source's own %s", before, after, own)
	}
	says(t, l, "shelf.log", `{"n":1}`)
	c.hears(t, "notifications/message")
	says(t, l, "shelf.touch", `{"uri":"a://r"}`)
	c.hears(t, "notifications/resources/updated")
}

func TestLinkBounds(t *testing.T) {
	t.Parallel()
	o := child(t, "full")
	o.MaxLinks = 2
	s := open(t, o)
	await(t, s, steps.StateReady)
	a, b := linkTo(t, s, nil), linkTo(t, s, nil)
	if says(t, a, "shelf.pid", `{}`) == says(t, b, "shelf.pid", `{}`) {
		t.Error("two clients share a process")
	}
	if _, err := s.Link(t.Context(), nil); fault.CodeOf(err) != fault.LimitExceeded {
		t.Errorf("a third: %v", err)
	}
	before := map[*Link]string{}
	for _, l := range []*Link{a, b} {
		before[l] = says(t, l, "shelf.pid", `{}`)
		l.mu.Lock()
		l.session.used = l.session.used.Add(-time.Hour)
		l.mu.Unlock()
	}
	if _, err := a.Do(t.Context(), "resources/subscribe", json.RawMessage(`{"uri":"a://r"}`)); err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	a.session.used = a.session.used.Add(-2 * time.Hour) // but it has a subscription
	a.mu.Unlock()
	third := linkTo(t, s, nil)
	says(t, third, "shelf.pid", `{}`)
	if says(t, a, "shelf.pid", `{}`) != before[a] {
		t.Error("the session with a subscription has made room")
	}
	_ = third.Close()
	if again := says(t, b, "shelf.pid", `{}`); again == before[b] {
		t.Error("no session has made room")
	}
	_ = a.Close()
	if _, err := a.Do(t.Context(), "ping", nil); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("after its end: %v", err)
	}
	if _, err := calls(t, a, "shelf.pid", `{}`, ""); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("a call after its end: %v", err)
	}
	_ = linkTo(t, s, nil).Close()
	_ = s.Close()
	if _, err := b.Do(t.Context(), "ping", nil); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("after the end of the source: %v", err)
	}
	if _, err := s.Link(t.Context(), nil); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("a link to a closed source: %v", err)
	}
}

// A server that does not start, and one that does not answer.
func TestLinkFailures(t *testing.T) {
	t.Parallel()
	mute := open(t, child(t, "mute in calls"))
	await(t, mute, steps.StateReady)
	c := newClient("ann", "2025-11-25")
	l := linkTo(t, mute, &c.Peer)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := l.Do(ctx, "resources/list", nil); err != nil { // greet answers all but calls with silence
		if code := fault.CodeOf(err); code != fault.Timeout {
			t.Errorf("mute: %v", err)
		}
	} else {
		t.Error("a mute server has answered")
	}
	silent := open(t, &Options{Name: "shelf", Command: "/nowhere/at-all"})
	if _, err := silent.Link(t.Context(), nil); fault.CodeOf(err) != fault.BadRequest {
		t.Errorf("not there: %v", err)
	}
}

// Nothing stays when links are closed.
func TestLinkLeavesNothing(t *testing.T) {
	s := open(t, child(t, "full"))
	await(t, s, steps.StateReady)
	remote := open(t, &Options{Name: "shelf", URL: listen(t, httpServer(fullServer(), nil)), Protocol: protocol.Stateful})
	await(t, remote, steps.StateReady)
	round := func() {
		for _, source := range []*Source{s, remote} {
			c := newClient("ann", "2025-11-25")
			l, err := source.Link(t.Context(), &c.Peer)
			if err != nil {
				t.Fatal(err)
			}
			says(t, l, "shelf.ask", `{}`)
			if _, err := l.Do(t.Context(), "resources/subscribe", json.RawMessage(`{"uri":"a://r"}`)); err != nil {
				t.Fatal(err)
			}
			_ = l.Close()
		}
	}
	round() // what lasts is there then
	before := runtime.NumGoroutine()
	for range 5 {
		round()
	}
	late := time.Now().Add(patience)
	for runtime.NumGoroutine() > before+4 && time.Now().Before(late) {
		time.Sleep(10 * time.Millisecond)
	}
	if after := runtime.NumGoroutine(); after > before+4 {
		stacks := make([]byte, 1<<20)
		t.Errorf("%d goroutines before, %d after\n%s", before, after, stacks[:runtime.Stack(stacks, true)])
	}
	if n := len(s.links) + len(remote.links); n != 0 {
		t.Errorf("%d links are left", n)
	}
}

// A client that waits for what a server tells is told when the server has ended meanwhile, and goes on being told, without
// calling anything.
func TestLinkComesBackByItself(t *testing.T) {
	t.Parallel()
	for name, follow := range map[string]func(l *Link) error{
		"subscribed": func(l *Link) error {
			_, err := l.Do(t.Context(), "resources/subscribe", json.RawMessage(`{"uri":"a://r"}`))
			return err
		},
		"listening": func(l *Link) error {
			l.Listen(true)
			return nil
		},
		"neither": func(*Link) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, child(t, "full"))
			await(t, s, steps.StateReady)
			c := newClient("ann", "2025-11-25")
			l := linkTo(t, s, &c.Peer)
			if err := follow(l); err != nil {
				t.Fatal(err)
			}
			if _, err := calls(t, l, "shelf.die", `{}`, ""); fault.CodeOf(err) != fault.Unavailable {
				t.Errorf("died: %v", err)
			}
			if name == "neither" {
				time.Sleep(2 * firstWait)
				l.mu.Lock()
				defer l.mu.Unlock()
				if l.sessions != 1 || len(c.all()) > 0 {
					t.Errorf("%d sessions for nobody, who is told %q", l.sessions, c.all())
				}
				return
			}
			c.hears(t, "notifications/resources/list_changed")
			c.hears(t, "notifications/prompts/list_changed")
			if name == "subscribed" {
				says(t, l, "shelf.touch", `{"uri":"a://r"}`)
				c.hears(t, "notifications/resources/updated")
			}
		})
	}
}
