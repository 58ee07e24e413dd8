package journal

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// A comparable result is made in one pass, however many blocks there are.
func TestComparableResultOfManyBlocks(t *testing.T) {
	t.Parallel()
	const n = 5000
	whole, parts := &PastCall{}, make([]PastCall, n)
	for i := range parts {
		handle := fmt.Sprintf("oc1_b%039d", i)
		parts[i] = PastCall{Result: []byte(handle), Blocks: []Block{{Handle: handle, Bytes: []byte{1}}}}
		whole.Blocks = append(whole.Blocks, parts[i].Blocks...)
		whole.Result = append(whole.Result, handle...)
	}
	timed := func(calls []PastCall) time.Duration {
		shortest := time.Duration(1<<63 - 1)
		for range 3 {
			digests, started := 0, time.Now()
			for i := range calls {
				digests += bytes.Count(calls[i].ComparableResult(), []byte("sha256:"))
			}
			shortest = min(shortest, time.Since(started))
			if digests != n {
				t.Fatalf("%d digests, want %d", digests, n)
			}
		}
		return shortest
	}
	together, alone := timed([]PastCall{*whole}), timed(parts)
	if together > 10*alone {
		t.Errorf("the blocks take %d times as long together as each alone, want at most 10", together/alone)
	}
}
