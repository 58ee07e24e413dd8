//go:build unix

package chain_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/diskstore"
	"github.com/onecall-mcp/onecall/budget/pgstore"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/internal/sqldb/postgrestest"
	"github.com/onecall-mcp/onecall/steps"
)

// floodOf is the environment variable that tells a child process which store to measure.
const floodOf = "ONECALL_TEST_FETCH_FLOOD"

// floodSize is the size in bytes of the result that many callers fetch at once.
const floodSize = 10 << 20

// TestFetchFlood: many concurrent fetches of one large result need little more memory than one, even if each must read it, and another
// caller's fetches are answered meanwhile. Each store is measured in its own process, which does nothing else.
func TestFetchFlood(t *testing.T) {
	if store := os.Getenv(floodOf); store != "" {
		flood(t, store)
		return
	}
	t.Parallel()
	server := postgrestest.Start(t)
	for name, store := range map[string]string{"disk": t.TempDir(), "postgres": server.Database(t)} {
		t.Run(name, func(t *testing.T) {
			inChildProcess(t, "TestFetchFlood", floodOf+"="+store)
		})
	}
}

// storeFor returns a store on the server of a URL, or in a folder.
func storeFor(t *testing.T, store string) (d budget.Driver) {
	t.Helper()
	var err error
	if strings.Contains(store, "://") {
		d, err = pgstore.New(&pgstore.Options{URL: store, Timeout: time.Minute}) // a busy machine must not fail the test
	} else {
		d, err = diskstore.Open(store, nil)
	}
	must(t, err)
	return d
}

// records is the function test.records, which returns an array of objects with the given number of bytes.
var records = steps.Function{
	Spec: steps.Spec{Name: "test.records", Effect: steps.Read, EffectDeclared: true},
	Call: func(_ context.Context, args []byte) ([]byte, error) {
		size := int(gjson.GetBytes(args, "bytes").Int())
		b := append(make([]byte, 0, size+200), '[')
		for i := uint64(1); len(b) < size; i++ {
			b = fmt.Appendf(b, `{"id":%d,"name":"%x"},`, i, i*i*0x9e3779b97f4a7c15)
		}
		return append(b, "{}]"...), nil
	},
}

func flood(t *testing.T, store string) {
	results, err := budget.NewResults(storeFor(t, store), nil)
	must(t, err)
	defer results.Close()
	e := engineOf(t, []steps.Function{records}, chain.Options{Results: results, Admission: admit.New(1, 2), MaxTotalTokens: 2000,
		MaxChainBytes: 64 << 20, MaxRunningBytes: 400 << 20}, false)
	stored := func(caller *chain.Caller, bytes int) (token string) {
		a := e.Run(t.Context(), fmt.Appendf(nil, `{"steps":[{"fn":"test.records","args":{"bytes":%d}}],"lite":true}`, bytes), caller)
		if token = gjson.GetBytes(a.JSON, "continuation_token").Str; token == "" {
			t.Fatalf("got %.300s, want a token", a.JSON)
		}
		return token
	}
	greedy, modest := &chain.Caller{ID: "greedy"}, &chain.Caller{ID: "modest"}
	large, small := stored(greedy, floodSize), stored(modest, 100_000)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)

	var all sync.WaitGroup
	var answered, refused atomic.Int32
	modes := []string{`"mode":"summary"`, `"mode":"paginated","page":100`, `"mode":"filtered","filter_keys":["absent"]`,
		`"mode":"query","query":"[0].id"`}
	for i := range 60 {
		all.Go(func() {
			a := e.Run(t.Context(), fmt.Appendf(nil, `{"continuation_token":%q,%s,"lite":true}`, large, modes[i%len(modes)]), greedy)
			switch {
			case a.OK || a.Error.Code == fault.BadRequest: // one of the modes names a key that the value does not have
				answered.Add(1)
			case a.Error.Code == fault.Busy:
				refused.Add(1)
			default:
				t.Errorf("%s: %.300s, want success, bad_request or busy", modes[i%len(modes)], a.JSON)
			}
		})
	}
	for page := range 40 {
		a := e.Run(t.Context(), fmt.Appendf(nil, `{"continuation_token":%q,"mode":"paginated","page":%d,"page_size":5,"lite":true}`, small,
			page+1), modest)
		if !a.OK {
			t.Errorf("fetch of another caller during the flood: %.300s, want success", a.JSON)
		}
	}
	all.Wait()
	runtime.ReadMemStats(&after)
	t.Logf("%d answered, %d refused; heap %d MiB before, %d MiB after", answered.Load(), refused.Load(), before.HeapSys>>20, after.HeapSys>>20)
	if grown := after.HeapSys - before.HeapSys; after.HeapSys > before.HeapSys && grown > 5*floodSize {
		t.Errorf("the heap grew by %d MiB for fetches of one result of %d MiB, want at most %d", grown>>20, floodSize>>20, 5*floodSize>>20)
	}
	if answered.Load() == 0 {
		t.Error("every fetch was refused")
	}
}
