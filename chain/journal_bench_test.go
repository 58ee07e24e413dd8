package chain_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
)

// BenchmarkJournal runs ten reads that do nothing with a journal in memory and without one.
func BenchmarkJournal(b *testing.B) {
	text := []byte(`{"steps":[` + strings.TrimSuffix(strings.Repeat(`{"fn":"bin.get","args":{"a":1}},`, 10), ",") + `]}`)
	store := &bin{items: map[string]string{}}
	functions := store.functions()
	for i := range functions {
		functions[i].Prompt = true
		if functions[i].Name == "bin.get" {
			functions[i].Call = noop
		}
	}
	registry := newRegistry(b, functions)
	for _, on := range []bool{false, true} {
		b.Run(fmt.Sprintf("journal=%t", on), func(b *testing.B) {
			o := &chain.Options{Functions: registry}
			if on {
				j, err := journal.New(&journal.Memory{}, nil)
				must(b, err)
				defer j.Close()
				o.Journal = j
			}
			engine, err := chain.New(o)
			must(b, err)
			b.ReportAllocs()
			for b.Loop() {
				if a := engine.Run(b.Context(), text, nil); !a.OK {
					b.Fatalf("got %s, want success", a.JSON)
				}
			}
		})
	}
}

func noop(context.Context, []byte) ([]byte, error) { return []byte(`{"keys":[],"n":0}`), nil }
