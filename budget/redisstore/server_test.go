package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/redisstore"
	"github.com/onecall-mcp/onecall/internal/redisconn/redistest"
)

func open(tb testing.TB, o redisstore.Options) *redisstore.Store {
	tb.Helper()
	s, err := redisstore.New(&o)
	must(tb, err)
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func put(t *testing.T, s *redisstore.Store, key string, e budget.Entry) {
	t.Helper()
	if err := s.Put(t.Context(), key, e); err != nil {
		t.Fatalf("Put(%s): %v", key, err)
	}
}

// entry returns an entry that lives for five minutes from now.
func entry(now time.Time, value string) budget.Entry {
	return budget.Entry{Owner: "o", Created: now, Expires: now.Add(5 * time.Minute), Value: []byte(value)}
}

// operations calls each operation once and returns the errors.
func operations(ctx context.Context, s *redisstore.Store) map[string]error {
	_, get := s.Get(ctx, "k", nil)
	return map[string]error{
		"Get":    get,
		"Put":    s.Put(ctx, "k", entry(time.Now(), "1")),
		"Touch":  s.Touch(ctx, "k", time.Now().Add(time.Minute)),
		"Delete": s.Delete(ctx, "k"),
	}
}

// urlOf returns the URL of a proxy, with a secret in it.
func urlOf(p *redistest.Proxy) string { return "redis://onecall:s3cr3t-word@" + p.Address() + "/0" }

// must fails a test whose setup failed.
func must(t interface {
	Helper()
	Fatal(args ...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
