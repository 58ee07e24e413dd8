package steps

import (
	"bytes"
	"testing"
	"time"
)

// An upstream chooses how many blocks a result has: the work for each of them does not grow with their number.
func TestManyBlocks(t *testing.T) {
	t.Parallel()
	const n = 32_000
	blocks, text := &Blocks{}, bytes.Buffer{}
	for range n {
		handle, err := blocks.Add(&Block{Type: "image", Bytes: []byte{1}})
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(handle)
	}
	find := quickest(func() {
		if found := len(blocks.Within(text.Bytes())); found != n {
			t.Fatalf("found %d blocks, want %d", found, n)
		}
	})
	replace := quickest(func() { blocks.Digests(text.Bytes()) }) // one pass over the same handles
	if find > 8*replace {
		t.Errorf("finding the blocks takes %d times as long as one pass over them, want at most 8", find/replace)
	}
}

// quickest returns the shortest of some durations of f: the one that other work has disturbed least.
func quickest(f func()) time.Duration {
	shortest := time.Duration(1<<63 - 1)
	for range 5 {
		started := time.Now()
		f()
		shortest = min(shortest, time.Since(started))
	}
	return shortest
}
