package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/memstore"
	"github.com/onecall-mcp/onecall/budget/redisstore"
	"github.com/onecall-mcp/onecall/internal/redisconn/redistest"
)

// document returns JSON of about the given number of bytes.
func document(size int) []byte {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `{"id":%d,"name":"item %x","price":1.10},`, i, i*2654435761)
	}
	return []byte("[" + b.String() + "0]")
}

// BenchmarkStore stores a result and reads it, on a server of this machine and in memory.
func BenchmarkStore(b *testing.B) {
	server := redistest.Start(b)
	memory, err := memstore.New(nil)
	must(b, err)
	stores := []struct {
		name string
		d    budget.Driver
	}{
		{"baseline=memory", memory},
		{"socket", open(b, redisstore.Options{URL: server.URL(), Compress: -1})},
		{"tcp", open(b, redisstore.Options{URL: server.TCP(), Compress: -1})},
		{"compressed", open(b, redisstore.Options{URL: server.URL(), Compress: 1})},
	}
	for _, size := range []int{2_000, 100_000, 1_000_000, 64 << 20} {
		value := document(size)
		e := budget.Entry{Created: time.Now(), Expires: time.Now().Add(time.Hour), Value: value}
		for _, s := range stores {
			b.Run(fmt.Sprintf("%s/put/%d", s.name, size), func(b *testing.B) {
				for b.Loop() {
					must(b, s.d.Put(context.Background(), "k", e))
				}
			})
			b.Run(fmt.Sprintf("%s/get/%d", s.name, size), func(b *testing.B) {
				for b.Loop() {
					if got, err := s.d.Get(context.Background(), "k", nil); err != nil || len(got.Value) != len(value) {
						b.Fatalf("%d bytes, %v; want %d", len(got.Value), err, len(value))
					}
				}
			})
		}
	}
}

// BenchmarkEvict stores one large result in a full store, which removes many small ones.
func BenchmarkEvict(b *testing.B) {
	server := redistest.Start(b)
	const maximum = 32 << 20
	s := open(b, redisstore.Options{URL: server.URL(), MaxBytes: maximum, Compress: -1, Timeout: time.Minute})
	small := budget.Entry{Created: time.Now(), Expires: time.Now().Add(time.Hour), Value: document(1500)}
	large := budget.Entry{Created: time.Now(), Expires: time.Now().Add(time.Hour), Value: document(maximum - 10_000)}
	n := maximum / (len(small.Value) + 600)
	for b.Loop() {
		b.StopTimer()
		for i := range n {
			must(b, s.Put(context.Background(), fmt.Sprint(i), small))
		}
		b.StartTimer()
		must(b, s.Put(context.Background(), "large", large))
	}
	if left := server.Client(b).HLen(context.Background(), testPrefix+"sizes").Val(); left > 10 {
		b.Fatalf("%d results left, want at most 10", left)
	}
	b.ReportMetric(float64(n), "evicted/op")
}
