package budget_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/diskstore"
)

const mega = 1_000_000

// arrayOf returns an array of objects with about the given number of bytes.
func arrayOf(bytes int) []byte { return numbered(bytes / 46) }

func BenchmarkMeterAllows(b *testing.B) {
	text := arrayOf(4 * mega)
	c := counter(b, 0)
	tokens := c.Count(text, -1)
	run := func(name string, size, limit int, want bool, within func(piece []byte, limit int) bool) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if within(text[:size], limit) != want {
					b.Fatalf("%d bytes, limit %d tokens: Allows returns %v, want %v", size, limit, !want, want)
				}
			}
		})
	}
	metered := func(piece []byte, limit int) bool { return budget.NewMeter(c, limit).Allows(piece) }
	joined := func(piece []byte, limit int) bool { return budget.NewMeter(c, limit).Allows(piece[:100], piece[100:]) }
	counted := func(piece []byte, limit int) bool { return c.Count(piece, -1) <= limit } // the baseline: count all
	run("far below/meter", len(text), 2*len(text), true, metered)
	run("far below/baseline", len(text), 2*len(text), true, counted)
	run("far above/meter", len(text), 8000, false, metered)
	run("far above/meter of two parts", len(text), 8000, false, joined)
	run("far above/baseline", len(text), 8000, false, counted)
	run("64 KB far above/meter", 64_000, 8000, false, metered)
	run("64 KB far above/baseline", 64_000, 8000, false, counted)
	run("just within/meter", len(text), tokens, true, metered)
	run("just within/baseline", len(text), tokens, true, counted)
}

func BenchmarkProbe(b *testing.B) {
	for _, size := range []int{mega, 50 * mega} {
		value := arrayOf(size)
		r := results(b, nil)
		b.Run(fmt.Sprintf("%dMB/probe", size/mega), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if p, err := r.Probe(b.Context(), "me", value, 200); err != nil || !bytes.Contains(p, []byte("{id,name,price}")) {
					b.Fatalf("%s, %v; want the shape {id,name,price}", p, err)
				}
			}
		})
		b.Run(fmt.Sprintf("%dMB/baseline decode", size/mega), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var items []json.RawMessage
				if err := json.Unmarshal(value, &items); err != nil || len(items) != size/46 {
					b.Fatalf("%d items, %v; want %d", len(items), err, size/46)
				}
			}
		})
	}
}

func BenchmarkPage(b *testing.B) {
	value := arrayOf(50 * mega)
	items := 50 * mega / 46
	r := results(b, nil)
	token := keep(b, r, string(value))
	envelope := &budget.Envelope{Meter: budget.NewMeter(counter(b, 0), 8000)}
	for name, number := range map[string]int{"first": 1, "last": (items + 19) / 20} {
		b.Run(name+"/page", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p, err := r.Answer(b.Context(), "me", budget.Fetch{Token: token, Mode: "paginated", Page: number, PageSet: true}, envelope, nil)
				if err != nil || !bytes.Contains(p, fmt.Appendf(nil, `{"items":[{"id":%d,`, (number-1)*20)) {
					b.Fatalf("%s, %v; want an item with id %d first", p, err, (number-1)*20)
				}
			}
		})
		b.Run(name+"/baseline decode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var all []json.RawMessage
				if err := json.Unmarshal(value, &all); err != nil || len(all) != items {
					b.Fatalf("%d items, %v; want %d", len(all), err, items)
				}
			}
		})
	}
}

func BenchmarkFiltered(b *testing.B) {
	value := arrayOf(mega)
	r := results(b, nil)
	token := keep(b, r, string(value))
	b.SetBytes(int64(len(value)))
	for b.Loop() {
		p, err := r.Answer(b.Context(), "me", budget.Fetch{Token: token, FilterKeys: []string{"name", "price"}}, nil, nil)
		if err != nil || !bytes.HasPrefix(p, []byte(`[{"name":"item 0","price":1.10},`)) {
			b.Fatalf("%.50s, %v; want objects of name and price", p, err)
		}
	}
}

// Storing, describing and paging a large array takes little memory besides the array: less than half its size in memory, and one copy for
// each use on the disk. Not parallel: it counts what the process allocates.
func TestMemory(t *testing.T) {
	value := arrayOf(20 * mega)
	use := func(r *budget.Results) int {
		allocated := func() uint64 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.TotalAlloc
		}
		before := allocated()
		answer, err := r.Probe(t.Context(), "me", value, 200)
		must(t, err)
		token := decode[probe](t, answer).Token
		uses := 0
		for _, f := range []budget.Fetch{{Page: 1, PageSet: true}, {Page: 20_000, PageSet: true},
			{Page: 1, PageSet: true, PageSize: 5000, PageSizeSet: true}} {
			f.Token = token
			uses++
			if p, err := r.Answer(t.Context(), "me", f, within(9999), nil); err == nil && len(p) < 100 ||
				err != nil && !strings.Contains(err.Error(), "page_size") {
				t.Errorf("Answer(%+v) = %s, %v; want at least 100 bytes, or an error about page_size", f, p, err)
			}
		}
		return int((allocated() - before) * 100 / uint64(len(value)) / uint64(uses))
	}
	if percent := use(results(t, nil)); percent > 50 {
		t.Errorf("a use in memory allocates %d %% of the value, want at most 50", percent)
	}
	disk, err := diskstore.Open(t.TempDir(), nil)
	must(t, err)
	r, err := budget.NewResults(disk, nil)
	must(t, err)
	defer r.Close()
	if percent := use(r); percent > 150 {
		t.Errorf("a use from the disk allocates %d %% of the value, want at most 150", percent)
	} else {
		t.Logf("a use from the disk allocates %d %% of the value", percent)
	}
}
