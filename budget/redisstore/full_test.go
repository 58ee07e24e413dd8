package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/budget/redisstore"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/redisconn/redistest"
)

// TestFullServer: a server that is out of memory stores no more results, but returns those that it has. What cannot be changed
// stays as it was.
func TestFullServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, strings.Fields("--user onecall on >s3cr3t-word ~onecall:results:* resetchannels -@all "+needed)...)
	client := server.Client(t)
	url := "redis://onecall:s3cr3t-word@" + server.Address()
	s := open(t, redisstore.Options{URL: url, Compress: -1})
	now := time.Now()
	values := map[string]string{"small": "1", "large": incompressible(3 << 20)}
	for key, value := range values {
		put(t, s, key, entry(now, value))
	}
	must(t, client.ConfigSet(t.Context(), "maxmemory", "100kb").Err())
	fresh := open(t, redisstore.Options{URL: url}) // a store that holds nothing in memory
	for key, value := range values {
		if e, err := fresh.Get(t.Context(), key, nil); err != nil || string(e.Value) != value {
			t.Errorf("%s: %d bytes, %v (%s); want the %d that were put", key, len(e.Value), err, cause(err), len(value))
		}
		if err := fresh.Touch(t.Context(), key, now.Add(time.Hour)); fault.CodeOf(err) != fault.Unavailable ||
			!strings.Contains(cause(err), "no memory left") {
			t.Errorf("Touch of %s: %v, want unavailable", key, err)
		}
	}
	if err := fresh.Put(t.Context(), "more", entry(now, "1")); fault.CodeOf(err) != fault.Unavailable ||
		!strings.Contains(cause(err), "no memory left") {
		t.Errorf("Put: %v, want unavailable", err)
	}
	must(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	if err := checkIndex(t.Context(), client, testPrefix, 1<<30); err != nil {
		t.Error(err)
	}
	put(t, fresh, "more", entry(now, "1"))
}
