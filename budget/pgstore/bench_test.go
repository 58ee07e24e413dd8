//go:build unix

package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/memstore"
	"github.com/onecall-mcp/onecall/budget/pgstore"
)

// document returns JSON of about the given number of bytes.
func document(size int) []byte {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `{"id":%d,"name":"item %x","price":1.10},`, i, i*2654435761)
	}
	return []byte("[" + b.String() + "0]")
}

// BenchmarkStore keeps a result, reads it again (from the second time on, a large one is in memory) and reads it for the first time, on a
// server of this machine and in memory.
func BenchmarkStore(b *testing.B) {
	url := shared.Start(b).Database(b)
	memory, err := memstore.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, size := range []int{1_000, 2_000, 100_000, 1_000_000, 10_000_000} {
		e := budget.Entry{Created: time.Now(), Expires: time.Now().Add(time.Hour), Value: document(size)}
		benchmarkStore(b, "baseline=memory", memory, memory, e)
		benchmarkStore(b, "postgres", open(b, pgstore.Options{URL: url}), open(b, pgstore.Options{URL: url}), e)
	}
}

// benchmarkStore measures one store; other is another one of the same results.
func benchmarkStore(b *testing.B, name string, d, other budget.Driver, e budget.Entry) {
	get := func(b *testing.B, from budget.Driver, key string) {
		if got, err := from.Get(context.Background(), key, nil); err != nil || len(got.Value) != len(e.Value) {
			b.Fatalf("%d bytes, %v; want %d", len(got.Value), err, len(e.Value))
		}
	}
	n := 0
	put := func(b *testing.B) (key string) {
		n++
		key = fmt.Sprint(name, len(e.Value), n)
		if err := d.Put(context.Background(), key, e); err != nil {
			b.Fatal(err)
		}
		return key
	}
	b.Run(fmt.Sprintf("%s/put/%d", name, len(e.Value)), func(b *testing.B) {
		for b.Loop() {
			put(b)
		}
	})
	b.Run(fmt.Sprintf("%s/get/%d", name, len(e.Value)), func(b *testing.B) {
		key := put(b)
		for b.Loop() {
			get(b, d, key)
		}
	})
	b.Run(fmt.Sprintf("%s/first/%d", name, len(e.Value)), func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			key := put(b)
			b.StartTimer()
			get(b, other, key)
		}
	})
}
