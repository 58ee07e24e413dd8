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

// document returns a JSON array of about size bytes.
func document(size int) []byte {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `{"id":%d,"name":"item %x","price":1.10},`, i, i*2654435761)
	}
	return []byte("[" + b.String() + "0]")
}

// BenchmarkStore measures the disk store beside the memory store. The baseline writes and reads plain files.
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
						b.Fatalf("Get: %d bytes, %v; want %d bytes", len(got.Value), err, len(value))
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
					b.Fatalf("ReadFile: %d bytes, %v; want %d bytes", len(got), err, len(value))
				}
			}
		})
	}
}

// BenchmarkPages fetches 21 pages of a value of 50 MB, spread over the whole value. The baseline keeps no decoded values in memory, so it
// decodes the value for each page.
func BenchmarkPages(b *testing.B) {
	value := document(50_000_000)
	for name, maxDecoded := range map[string]int64{"baseline=decode-each": -1, "held": 0} {
		b.Run(name, func(b *testing.B) {
			disk, err := diskstore.Open(b.TempDir(), &diskstore.Options{MaxBytes: -1, MaxDecoded: maxDecoded})
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
						b.Fatalf("page %d: %s, %v; want at least 500 bytes", f.Page, page, err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N)/21, "ms/page")
		})
	}
}

// BenchmarkOpen opens a store with 1000 results. Open looks at each of them, to remove the expired and damaged ones.
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
	if n := len(mustReadDir(b, dir)); n != 1000 {
		b.Fatalf("the folder has %d files after Open, want 1000", n)
	}
}

func mustReadDir(b *testing.B, dir string) []os.DirEntry {
	b.Helper()
	entries, err := os.ReadDir(dir)
	check(b, err)
	return entries
}
