package diskstore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/diskstore"
	"github.com/onecall-mcp/onecall/budget/memstore"
)

// document returns JSON of about the given number of bytes.
func document(size int) []byte {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `{"id":%d,"name":"item %x","price":1.10},`, i, i*2654435761)
	}
	return []byte("[" + b.String() + "0]")
}

func BenchmarkStore(b *testing.B) {
	for _, size := range []int{10_000, 1_000_000, 50_000_000} {
		value := document(size)
		e := budget.Entry{Created: time.Now(), Expires: time.Now().Add(time.Hour), Value: value}
		disk, err := diskstore.Open(b.TempDir(), &diskstore.Options{MaxBytes: -1, MaxDecoded: -1})
		check(b, err)
		memory, err := memstore.New(nil)
		check(b, err)
		for name, d := range map[string]budget.Driver{"disk": disk, "memory": memory} {
			b.Run(fmt.Sprintf("%s/put/%d", name, size), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					check(b, d.Put(context.Background(), "k", e))
				}
			})
			b.Run(fmt.Sprintf("%s/get/%d", name, size), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					if got, err := d.Get(context.Background(), "k", nil); err != nil || len(got.Value) != len(value) {
						b.Fatalf("%d bytes, %v; want %d", len(got.Value), err, len(value))
					}
				}
			})
			b.Run(fmt.Sprintf("%s/touch/%d", name, size), func(b *testing.B) {
				for b.Loop() {
					check(b, d.Touch(context.Background(), "k", e.Expires))
				}
			})
		}
		path := filepath.Join(b.TempDir(), "plain")
		b.Run(fmt.Sprintf("baseline file/put/%d", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				check(b, os.WriteFile(path, value, 0o600))
			}
		})
		b.Run(fmt.Sprintf("baseline file/get/%d", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				if got, err := os.ReadFile(path); err != nil || len(got) != len(value) {
					b.Fatalf("%d bytes, %v; want %d", len(got), err, len(value))
				}
			}
		})
	}
}

// BenchmarkPages pages through a value of 50 MB, with 21 pages from beginning to end, as a client does. The baseline holds no decoded
// values.
func BenchmarkPages(b *testing.B) {
	value := document(50_000_000)
	for name, maximum := range map[string]int64{"baseline=decode-each": -1, "held": 0} {
		b.Run(name, func(b *testing.B) {
			disk, err := diskstore.Open(b.TempDir(), &diskstore.Options{MaxBytes: -1, MaxDecoded: maximum})
			check(b, err)
			results, err := budget.NewResults(disk, nil)
			check(b, err)
			defer results.Close()
			token, _, err := results.Keep(context.Background(), "o", value)
			check(b, err)
			for b.Loop() {
				for i := range 21 {
					f := budget.Fetch{Token: token, Mode: "paginated", Page: 1 + i*2000, PageSet: true}
					page, err := results.Answer(context.Background(), "o", f, nil, nil)
					if err != nil || len(page) < 500 {
						b.Fatalf("%s, %v; want at least 500 bytes", page, err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N)/21, "ms/page")
		})
	}
}

// BenchmarkOpen opens, and so sweeps, a folder of many results.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	s, err := diskstore.Open(dir, nil)
	check(b, err)
	for i := range 1000 {
		e := budget.Entry{Created: time.Now(), Expires: time.Now().Add(time.Hour), Value: document(1000)}
		check(b, s.Put(context.Background(), fmt.Sprint(i), e))
	}
	for b.Loop() {
		if _, err := diskstore.Open(dir, nil); err != nil {
			b.Fatal(err)
		}
	}
	if n := len(mustRead(b, dir)); n != 1000 {
		b.Fatalf("%d results left, want 1000", n)
	}
}

func mustRead(b *testing.B, dir string) []os.DirEntry {
	b.Helper()
	entries, err := os.ReadDir(dir)
	check(b, err)
	return entries
}
