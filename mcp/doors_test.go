package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/rights"
	"github.com/onecall-mcp/onecall/steps"
)

// until waits for something that comes; the test's own time is the bound.
func until(there func() bool) {
	for !there() {
		time.Sleep(time.Millisecond)
	}
}

// TestOneCallersBodies: who announces much and does not send it has its own messages refused, and those of nobody else.
func TestOneCallersBodies(t *testing.T) {
	t.Parallel()
	const sockets, long = 64, 4 << 20
	ping := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":%q}}`, strings.Repeat("y", 70_000))
	for name, door := range map[string]*Door{"tokens": {Callers: staff}, "none": {Access: *reader}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil)
			url := s.behind(t, door)
			headers := header{"Content-Type": "application/json", "Mcp-Protocol-Version": "2025-11-25"}
			var conns []net.Conn
			for range sockets {
				headers["Authorization"] = "Bearer ann"
				conns = append(conns, dial(t, url, "POST", Path, headers, long))
			}
			until(func() bool { return s.reading.Held() == maxReading/2 })
			send := func(token string) int {
				headers["Authorization"] = "Bearer " + token
				r, _ := sendTo(t, "POST", url, ping, headers)
				return r.StatusCode
			}
			if status := send("ann"); status != 429 {
				t.Errorf("the caller itself: %d", status)
			}
			if status := send("eve"); (status == 429) != (door.Callers == nil) {
				t.Errorf("another caller: %d", status)
			}
			headers["Authorization"] = "Bearer ann"
			if r, body := sendTo(t, "POST", url, hello, headers); r.StatusCode != 200 {
				t.Errorf("a small message: %d %s", r.StatusCode, body)
			}
			for _, conn := range conns {
				conn.Close()
			}
			until(func() bool { return s.reading.Held() == 0 })
			if status := send("ann"); status == 429 {
				t.Errorf("afterwards: %d", status)
			}
		})
	}
}

// TestLongBodies: two callers may send messages of the largest size at the same time, whatever that is.
func TestLongBodies(t *testing.T) {
	t.Parallel()
	const long = 500 << 20
	s := serve(t, func(o *Options) { o.MaxRequestBytes = long })
	url := s.behind(t, &Door{Callers: staff})
	for i, token := range []string{"ann", "eve"} {
		dial(t, url, "POST", Path, header{"Content-Type": "application/json", "Authorization": "Bearer " + token}, long)
		until(func() bool { return s.reading.Held() == int64(i+1)*long })
	}
}

// TestRevokedBeforeItBegins: a call that waits for its function is not begun with rights that are gone by then.
func TestRevokedBeforeItBegins(t *testing.T) {
	t.Parallel()
	call := func(meta string) string {
		return `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"late_item_come","arguments":{}` + meta + `}}`
	}
	const now = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}`
	less := *writer
	less.Tier = steps.TierRead
	demoted := *staff["ann"]
	demoted.Tier = steps.TierAdmin
	for name, test := range map[string]struct {
		first, then *Door
		stateless   bool
		may         bool
	}{
		"a token is gone":               {&Door{Callers: staff}, &Door{Callers: badges{"bob": staff["bob"]}}, false, false},
		"a token is gone, no session":   {&Door{Callers: staff}, &Door{Callers: badges{"bob": staff["bob"]}}, true, false},
		"its rights are others":         {&Door{Callers: staff}, &Door{Callers: badges{"ann": &demoted}}, false, false},
		"it is another's":               {&Door{Callers: staff}, &Door{Callers: badges{"ann": staff["eve"]}}, true, false},
		"without tokens, other rights":  {&Door{Access: *writer}, &Door{Access: less}, true, false},
		"without tokens, in a session":  {&Door{Access: *writer}, &Door{Access: less}, false, false},
		"without tokens, tokens now":    {&Door{Access: *writer}, &Door{Callers: staff}, true, false},
		"the same rights":               {&Door{Callers: staff}, &Door{Callers: badges{"ann": staff["ann"]}}, false, true},
		"the same rights, no session":   {&Door{Callers: staff}, &Door{Callers: badges{"ann": staff["ann"]}}, true, true},
		"without tokens, the same":      {&Door{Access: *writer}, &Door{Access: *writer}, true, true},
		"without tokens, its session's": {&Door{Access: *writer}, &Door{Access: *writer}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(o *Options) { o.Surface, o.Processed = SurfaceFlat, true })
			late := &starting{shop: newShop()}
			if err := s.catalog.Add("late", late); err != nil {
				t.Fatal(err)
			}
			url := s.behind(t, test.first)
			headers, meta := header{"Authorization": "Bearer ann"}, ""
			if test.stateless {
				meta = now
				headers["Mcp-Protocol-Version"], headers["Mcp-Method"], headers["Mcp-Name"] = "2026-07-28", "tools/call", "late_item_come"
			} else {
				r, _ := sendTo(t, "POST", url, hello, headers)
				headers["Mcp-Session-Id"] = r.Header.Get("Mcp-Session-Id")
			}
			listing := maps.Clone(headers)
			delete(listing, "Mcp-Name")
			if test.stateless {
				listing["Mcp-Method"] = "tools/list"
			}
			got, list := make(chan string, 1), make(chan string, 1)
			go func() {
				_, body := sendTo(t, "POST", url, call(meta), headers)
				got <- body
			}()
			go func() {
				_, body := sendTo(t, "POST", url, `{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{`+strings.TrimPrefix(meta, ",")+`}}`, listing)
				list <- body
			}()
			until(func() bool {
				for _, f := range s.allFaces() {
					if f.running.Load() == 2 {
						return true
					}
				}
				return false
			})
			time.Sleep(20 * time.Millisecond) // by then it waits, or it is refused while it goes there
			s.SetDoor(test.then)
			late.come()
			if body := <-got; strings.Contains(body, `"text":"1"`) != test.may || strings.Contains(body, "nothing of this was done") == test.may {
				t.Error(body)
			}
			if body := <-list; strings.Contains(body, `"late_item_come"`) != test.may || strings.Contains(body, "nothing of this was done") == test.may {
				t.Errorf("a list: %s", body)
			}
		})
	}
}

// TestRevokedAtTheLastMoment: the handler of a tool looks once more, after it has taken what it is served with.
func TestRevokedAtTheLastMoment(t *testing.T) {
	t.Parallel()
	for _, surface := range []Surface{SurfaceChain, SurfaceFlat, SurfaceDispatch} {
		s := serve(t, nil)
		s.SetDoor(&Door{Callers: staff})
		f := s.face(staff["ann"].Rights, surface)
		v := &visitor{Caller: staff["ann"], door: s.door.Load(), token: "ann"}
		for _, there := range []bool{true, false} {
			if !there {
				o, _ := s.another(t, nil)
				if _, err := s.Reload(o, &Door{Callers: badges{"bob": staff["bob"]}}); err != nil {
					t.Fatal(err)
				}
			}
			result, err := f.handler("chain", false)(t.Context(), &sdk.CallToolRequest{
				Params: &sdk.CallToolParamsRaw{Name: "chain", Arguments: json.RawMessage(`{"steps":[{"fn":"shop.echo"}]}`)},
				Extra:  &sdk.RequestExtra{TokenInfo: &auth.TokenInfo{Extra: map[string]any{visitorField: v}}},
			})
			if (err == nil) != there || there && result.IsError || s.shop.calls.Load() != 1 {
				t.Errorf("%v, %v: %+v, %v, %d calls", surface, there, result, err, s.shop.calls.Load())
			}
		}
	}
}

// TestFaceInUse: a face stays for as long as somebody looks at it, in whatever moment of a reload that is.
func TestFaceInUse(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	r := rights.Rights{Tier: steps.TierRead}
	swap := func() (old *generation) {
		old = s.now.Load()
		s.now.Store(newGeneration(&old.Options))
		return old
	}
	f := s.face(r, SurfaceFlat)
	old := swap()
	if s.face(r, SurfaceFlat) != f { // somebody looks at it after the swap
		t.Fatal("it is gone already")
	}
	s.dropFaces(old)
	if s.face(r, SurfaceFlat) != f {
		t.Error("it is gone although it was looked at")
	}
	f.running.Add(1) // a call that lasts for several reloads
	for range 3 {
		s.dropFaces(swap())
	}
	if len(s.allFaces()) != 1 {
		t.Error("it is gone although a call of it runs")
	}
	f.running.Add(-1)
	s.dropFaces(swap())
	if len(s.allFaces()) != 0 {
		t.Error("it stays although nobody looks at it")
	}
}

// TestFacesAtReloads: clients come all the time with the same rights, and find the same face after each reload.
func TestFacesAtReloads(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	r := rights.Rights{Tier: steps.TierRead}
	f := s.face(r, SurfaceFlat)
	done := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if s.face(r, SurfaceFlat) != f {
					t.Error("another face")
					return
				}
			}
		})
	}
	for range 50 {
		o := *s.o()
		if _, err := s.Reload(&o, nil); err != nil {
			t.Fatal(err)
		}
		s.face(r, SurfaceFlat)
	}
	close(done)
	all.Wait()
}

// TestOneSessionManyFaces: what is kept of a session that replicas share is kept once, whatever surface and rights its requests
// have, and over reloads; its end is that of all its calls.
func TestOneSessionManyFaces(t *testing.T) {
	t.Parallel()
	shared := newCommons()
	s := serve(t, func(o *Options) { o.Shared, o.SessionTokens = shared, 5000 })
	url := s.behind(t, &Door{Callers: staff})
	client := as(t, url, "ann", "2025-11-25")
	id := client.ID()
	s.byID(id).spent.owe(1000)
	ended := make(chan string, 1)
	go func() {
		result, err := client.CallTool(context.Background(), &sdk.CallToolParams{Name: "chain", Arguments: json.RawMessage(`{"steps":[{"fn":"shop.slow"}]}`)})
		if err != nil {
			ended <- err.Error()
			return
		}
		ended <- result.Content[0].(*sdk.TextContent).Text
	}()
	<-s.shop.started
	own := s.byID(id)
	headers := header{"Authorization": "Bearer ann", "Mcp-Session-Id": id}
	for i := range 6 {
		if i%2 == 1 {
			o, _ := s.another(t, nil)
			ann := *staff["ann"]
			if i == 3 {
				ann.Tier = steps.TierAdmin
			}
			if _, err := s.Reload(o, &Door{Callers: badges{"ann": &ann}}); err != nil {
				t.Fatal(err)
			}
		}
		for _, surface := range []string{"flat", "dispatch", "chain"} {
			if r, body := sendTo(t, "POST", url+"?surface="+surface, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, headers); r.StatusCode != 200 {
				t.Fatalf("%s: %d %s", surface, r.StatusCode, body)
			}
		}
	}
	if s.byID(id) != own {
		t.Error("something else is kept now")
	}
	_, body := sendTo(t, "POST", url+"?surface=flat", `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"info","arguments":{}}}`, headers)
	_, message, _ := strings.Cut(body, "data: ")
	if info := gjson.Get(message, "result.content.0.text").Str; gjson.Get(info, "session.tokens").Int() < 1000 {
		t.Errorf("what was owed is gone: %s", body)
	}
	if r, _ := sendTo(t, http.MethodDelete, url, "", headers); r.StatusCode != 204 {
		t.Errorf("its end: %d", r.StatusCode)
	}
	if err := <-s.shop.ended; err == nil {
		t.Error("the call was not cut")
	}
	if text := <-ended; !strings.Contains(text, "cancelled") {
		t.Errorf("the call: %s", text)
	}
}

// TestOwedByTheForgotten: what a session owes is added to what replicas know when it is let go of.
func TestOwedByTheForgotten(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	shared := newCommons()
	s := serve(t, func(o *Options) {
		o.Shared, o.SessionTokens, o.MaxSessions, o.Log = shared, 5000, 2, slog.New(slog.NewTextHandler(&log, nil))
	})
	kept := func(id string) int64 {
		shared.mu.Lock()
		defer shared.mu.Unlock()
		return shared.kept[id][sharedTokens]
	}
	begin := func() *session {
		id, err := shared.Begin(t.Context(), "token:ann", 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		state, err := shared.Session(t.Context(), id, "token:ann")
		if err != nil {
			t.Fatal(err)
		}
		n := s.here(id, staff["ann"], state)
		n.note(-1)
		return n
	}
	first := begin()
	first.spent.owe(700)
	begin()
	begin()
	until(func() bool { return kept(first.id) == 700 })
	if s.byID(first.id) != nil || len(s.ids) != 2 {
		t.Errorf("%d are kept", len(s.ids))
	}
	shared.away.Store(true)
	second := newSession("x", staff["ann"], &common{shared, first.id})
	second.spent.owe(30)
	s.settleUp(second)
	if !strings.Contains(log.String(), notAdded) || !strings.Contains(log.String(), "tokens=30") {
		t.Errorf("the log: %s", log.String())
	}
}

type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestUncheckedTokensInTheLog: who comes with what token does not fill the log.
func TestUncheckedTokensInTheLog(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	s := serve(t, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	url := s.behind(t, &Door{Callers: staff})
	for range 5 {
		for token, status := range map[string]int{"unknowable": 503, "junk": 401, "ann": 200} {
			if r, body := sendTo(t, "POST", url, hello, header{"Authorization": "Bearer " + token}); r.StatusCode != status {
				t.Errorf("%s: %d %s", token, r.StatusCode, body)
			}
		}
	}
	if text := log.String(); strings.Contains(text, "checked") {
		t.Error(text)
	}
}
