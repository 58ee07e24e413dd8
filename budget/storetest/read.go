package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/budget"
)

// admitted checks that a driver asks admit before it returns a value, with everything except the value.
func admitted(t *testing.T, d budget.Driver) {
	random := make([]byte, 8<<20) // cannot be compressed
	_, _ = rand.NewChaCha8([32]byte{3}).Read(random)
	for key, value := range map[string]string{"empty": "", "small": "1", "larger": string(random[:100_000]), "large": string(random),
		"zeros": string(make([]byte, 5<<20))} {
		want := entry("o:2:"+key, value)
		put(t, d, key, want)
		refused := errors.New("refused")
		for _, answer := range []error{refused, budget.ErrNotFound, nil} {
			calls := 0
			got, err := d.Get(t.Context(), key, func(e budget.Entry, size int64) error {
				calls++
				// Times are exact to the millisecond, 1e6 nanoseconds.
				if e.Value != nil || e.Owner != want.Owner || size != int64(len(value)) || e.Created.Sub(want.Created).Abs() > 1e6 ||
					e.Expires.Sub(want.Expires).Abs() > 1e6 {
					t.Errorf("%s: admit got size %d, owner %q, %v to %v, and %d bytes of value", key, size, e.Owner, e.Created, e.Expires, len(e.Value))
				}
				return answer
			})
			if calls != 1 || !errors.Is(err, answer) || answer == nil && string(got.Value) != value || answer != nil && got.Value != nil {
				t.Errorf("%s: %d calls of admit, which returns %v: Get returned %d bytes, %v", key, calls, answer, len(got.Value), err)
			}
		}
	}
	if _, err := d.Get(t.Context(), "absent",
		func(budget.Entry, int64) error { t.Error("admit was called for an absent key"); return nil }); !errors.Is(err, budget.ErrNotFound) {
		t.Error(err)
	}
}

// readByMany checks that concurrent readers get a large value even if others leave.
func readByMany(t *testing.T, d budget.Driver) {
	random := make([]byte, 4<<20)
	_, _ = rand.NewChaCha8([32]byte{4}).Read(random)
	put(t, d, "k", entry("o", string(random)))
	for round := range 3 {
		var readers sync.WaitGroup
		for i := range 20 {
			readers.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				cancels := i%2 == 0
				e, err := d.Get(ctx, "k", func(budget.Entry, int64) error {
					if cancels {
						cancel()
					}
					return nil
				})
				if !(cancels && errors.Is(err, context.Canceled)) && (err != nil || !bytes.Equal(e.Value, random)) {
					t.Errorf("Get by one of many readers: %d bytes, %v", len(e.Value), err)
				}
			})
		}
		readers.Wait()
		random[0]++
		put(t, d, "k", entry(fmt.Sprint(round), string(random)))
	}
}

// readDuringEviction checks that a reader of a value that is evicted gets all of it or ErrNotFound.
func readDuringEviction(t *testing.T, d budget.Driver) {
	const size = 3 << 20
	if err := d.SetMaxBytes(3 * size); err != nil {
		t.Fatal(err)
	}
	random := make([]byte, size) // cannot be compressed
	_, _ = rand.NewChaCha8([32]byte{6}).Read(random)
	for round := range 5 {
		first := fmt.Sprint("first", round)
		put(t, d, first, entry("o", string(random)))
		written := make(chan struct{})
		var reader sync.WaitGroup
		reader.Go(func() {
			for again := true; again; {
				select {
				case <-written:
					again = false
				default:
				}
				e, err := d.Get(t.Context(), first, nil)
				if !errors.Is(err, budget.ErrNotFound) && (err != nil || !bytes.Equal(e.Value, random)) {
					t.Errorf("Get during eviction: %d bytes, %v", len(e.Value), err)
				}
			}
		})
		for i := range 4 {
			e := entry("o", string(random))
			e.Created, e.Expires = e.Created.Add(time.Second), e.Expires.Add(time.Second)
			put(t, d, fmt.Sprint("later", round, "-", i), e)
		}
		close(written)
		reader.Wait()
	}
}
