package transport_test

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

// testKeys are Callers with tokens that expire and keys that can be revoked, which the next refresh notices.
type testKeys struct {
	mu        sync.Mutex
	known     mcptest.Callers
	next      mcptest.Callers // what the next refresh finds; nil: no change
	keys      uint64
	verified  int
	refreshes int
	immediate int // refreshes that must not wait
}

func newKeyring() *testKeys {
	k := &testKeys{known: mcptest.Callers{}, keys: 1}
	for name, caller := range mcptest.Staff {
		expiring := *caller
		expiring.Expires = time.Now().Add(time.Hour)
		k.known[name] = &expiring
	}
	return k
}

func (k *testKeys) Verify(ctx context.Context, token string) (*steps.Caller, error) {
	caller, err := k.verify(ctx, token)
	if err == nil && !time.Now().Before(caller.Expires) {
		return nil, fault.New(fault.Denied, "it has expired")
	}
	return caller, err
}

func (k *testKeys) Reverify(ctx context.Context, token string) (*steps.Caller, error) {
	return k.verify(ctx, token)
}

func (k *testKeys) verify(ctx context.Context, token string) (*steps.Caller, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.verified++
	return k.known.Verify(ctx, token)
}

func (k *testKeys) KeysVersion() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys
}

func (k *testKeys) RefreshKeys(now bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refreshes++
	if now {
		k.immediate++
	}
	if k.next != nil {
		k.known, k.next = k.next, nil
		k.keys++
	}
}

// revoke revokes a caller's key.
func (k *testKeys) revoke(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.next = maps.Clone(k.known)
	delete(k.next, name)
}

func (k *testKeys) counts() (verified, refreshes, immediate int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.verified, k.refreshes, k.immediate
}

// openStream opens a stream; the channel is closed when the server ends it.
func openStream(t *testing.T, url, token string) <-chan struct{} {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}` +
		mcptest.StatelessMeta + `}}`
	r, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Authorization":        "Bearer " + token,
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"} {
		r.Header.Set(key, value)
	}
	response, err := mcptest.TransportTo(r.URL.Host).RoundTrip(r)
	if err != nil || response.StatusCode != 200 {
		t.Fatalf("got %v, %v; want status 200", response, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
	}()
	return ended
}

// await waits for a value or the end of a channel, in many short steps, so that a machine that stalls does not fail the test.
func await[T any](t *testing.T, what string, from <-chan T) (got T) {
	t.Helper()
	const short = 10 * time.Millisecond
	for range mcptest.Patience / short {
		select {
		case got = <-from:
			return got
		case <-time.After(short):
		}
	}
	t.Fatalf("timed out waiting for %s", what)
	return got
}

// setExpiry gives a caller a token that expires after a while.
func (k *testKeys) setExpiry(name string, after time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	expiring := *mcptest.Staff[name]
	expiring.Expires = time.Now().Add(after)
	k.known = maps.Clone(k.known)
	k.known[name] = &expiring
}
