package transport

import (
	"context"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/steps"
)

// keyring knows callers by tokens that end, signed with keys that may be taken back: that is seen at the next look.
type keyring struct {
	mu        sync.Mutex
	known     mcptest.Callers
	next      mcptest.Callers // what there is to be seen; nil: nothing else
	keys      uint64
	verified  int
	looked    int
	lookedNow int
}

func newKeyring() *keyring {
	k := &keyring{known: mcptest.Callers{}, keys: 1}
	for name, caller := range mcptest.Staff {
		one := *caller
		one.Expires = time.Now().Add(time.Hour)
		k.known[name] = &one
	}
	return k
}

func (k *keyring) Verify(ctx context.Context, token string) (*steps.Caller, error) {
	caller, err := k.ask(ctx, token)
	if err == nil && !time.Now().Before(caller.Expires) {
		return nil, fault.New(fault.Denied, "it has expired")
	}
	return caller, err
}

func (k *keyring) Hold(ctx context.Context, token string) (*steps.Caller, error) {
	return k.ask(ctx, token)
}

func (k *keyring) ask(ctx context.Context, token string) (*steps.Caller, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.verified++
	return k.known.Verify(ctx, token)
}

func (k *keyring) Keys() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys
}

func (k *keyring) Look(now bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.looked++
	if now {
		k.lookedNow++
	}
	if k.next != nil {
		k.known, k.next = k.next, nil
		k.keys++
	}
}

// without has somebody's key taken back.
func (k *keyring) without(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.next = maps.Clone(k.known)
	delete(k.next, name)
}

func (k *keyring) count() (verified, looked, now int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.verified, k.looked, k.lookedNow
}

// slowCall begins a call that runs until it is cancelled, and gives what it is answered.
func slowCall(t *testing.T, s *served, url, token string, stateless bool) <-chan string {
	t.Helper()
	answered := mcptest.BeginCall(t, url, token, `{"steps":[{"fn":"shop.slow"}]}`, stateless)
	<-s.shop.started
	return answered
}

// streamOf begins a stream that stays open; it is closed when the server ends it.
func streamOf(t *testing.T, url, token string) <-chan struct{} {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}` + mcptest.StatelessMeta + `}}`
	r, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + token,
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"} {
		r.Header.Set(key, value)
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || response.StatusCode != 200 {
		t.Fatal(response, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
	}()
	return ended
}

// soon waits for what a channel gives or for its end, in many short times: a machine that stands still for long has had one.
func soon[T any](t *testing.T, what string, from <-chan T) (got T) {
	t.Helper()
	const short = 10 * time.Millisecond
	for range mcptest.Patience / short {
		select {
		case got = <-from:
			return got
		case <-time.After(short):
		}
	}
	t.Fatalf("it did not happen: %s", what)
	return got
}

// TestKeysTakenBackWhileItRuns: what runs for a caller ends when its key is taken back, though nobody comes, and though nobody
// looked but the server itself; what runs for others goes on.
func TestKeysTakenBackWhileItRuns(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]func(*served){"by itself": func(*served) {}, "when it is told to": func(s *served) { s.LookAgain() }} {
		for version, stateless := range map[string]bool{"2025-11-25": false, "2026-07-28": true} {
			t.Run(name+", "+version, func(t *testing.T) {
				t.Parallel()
				s, k := serve(t, nil), newKeyring()
				url := s.behind(t, &Access{Callers: k})
				ann, bob := slowCall(t, s, url, "ann", stateless), slowCall(t, s, url, "bob", stateless)
				stream, other := streamOf(t, url, "ann"), streamOf(t, url, "eve")
				k.without("ann")
				how(s)
				if body := soon(t, "the call of whose key is gone ends", ann); !strings.Contains(body, "cancelled") {
					t.Errorf("whose key is gone: %s", body)
				}
				soon(t, "the stream of whose key is gone ends", stream)
				select {
				case body := <-bob:
					t.Errorf("another's call: %s", body)
				case <-other:
					t.Error("another's stream has ended")
				case <-time.After(50 * time.Millisecond):
				}
				if _, _, now := k.count(); (now > 0) != (name != "by itself") {
					t.Errorf("it was to be looked at now %d times", now)
				}
				k.without("bob")
				s.LookAgain()
				<-bob
			})
		}
	}
}

// TestNobodyLooks: the keys are looked at by who comes, and while something is open.
func TestNobodyLooks(t *testing.T) {
	t.Parallel()
	s, k := serve(t, nil), newKeyring()
	url := s.behind(t, &Access{Callers: k})
	if r, body := mcptest.Send(t, "POST", url, mcptest.Hello, mcptest.Header{"Authorization": "Bearer ann"}); r.StatusCode != 200 {
		t.Fatal(body)
	}
	time.Sleep(watchEvery + watchEvery/2)
	if _, looked, _ := k.count(); looked != 0 {
		t.Errorf("with nothing open it was looked %d times", looked)
	}
	running := slowCall(t, s, url, "ann", true)
	mcptest.Until(func() bool { _, looked, _ := k.count(); return looked > 1 })
	s.shop.enough <- struct{}{}
	<-running
}

// TestOtherKeys: keys that are others, with which the caller has its rights still, end nothing, and are not asked about again.
func TestOtherKeys(t *testing.T) {
	t.Parallel()
	s, k := serve(t, nil), newKeyring()
	url := s.behind(t, &Access{Callers: k})
	ann := slowCall(t, s, url, "ann", true)
	k.without("nobody")
	s.LookAgain()
	before, _, _ := k.count()
	s.LookAgain()
	if after, _, _ := k.count(); after != before {
		t.Errorf("nothing has changed since, and %d tokens were verified", after-before)
	}
	s.shop.enough <- struct{}{}
	if body := <-ann; !strings.Contains(body, "late") {
		t.Errorf("it did not end as it would have: %s", body)
	}
}

// ending gives somebody a token that ends after a while.
func (k *keyring) ending(name string, after time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	one := *mcptest.Staff[name]
	one.Expires = time.Now().Add(after)
	k.known = maps.Clone(k.known)
	k.known[name] = &one
}

// TestExpiredWhileItRuns: a call outlasts its token, through a change of access too, and is cancelled when its key is taken back; nothing
// begins with it.
func TestExpiredWhileItRuns(t *testing.T) {
	t.Parallel()
	s, k := serve(t, nil), newKeyring()
	url := s.behind(t, &Access{Callers: k})
	headers := mcptest.Header{"Authorization": "Bearer ann", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "chain"}
	answered := make(chan string, 1)
	for life := time.Second; ; life *= 2 { // a machine may take long to begin
		k.ending("ann", life)
		go func() {
			_, body := mcptest.Send(t, "POST", url, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"chain","arguments":{"steps":[{"fn":"shop.slow"}]}`+mcptest.StatelessMeta+"}}", headers)
			answered <- body
		}()
		select {
		case <-s.shop.started:
		case <-answered:
			continue
		}
		break
	}
	mcptest.Until(func() bool {
		r, _ := mcptest.Send(t, "POST", url, mcptest.Hello, mcptest.Header{"Authorization": "Bearer ann"})
		return r.StatusCode == 401
	})
	s.SetAccess(&Access{Callers: k})
	k.without("nobody")
	s.LookAgain()
	select {
	case body := <-answered:
		t.Errorf("it has ended with its token: %s", body)
	case <-time.After(50 * time.Millisecond):
	}
	k.without("ann")
	s.LookAgain()
	if body := soon(t, "an expired token's call, whose key is gone, ends", answered); !strings.Contains(body, "cancelled") {
		t.Error(body)
	}
}
