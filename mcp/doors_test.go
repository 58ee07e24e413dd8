package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

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
				Extra:  &sdk.RequestExtra{TokenInfo: &sdkauth.TokenInfo{Extra: map[string]any{visitorField: v}}},
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
	r := steps.Rights{Tier: steps.TierRead}
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
	r := steps.Rights{Tier: steps.TierRead}
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
