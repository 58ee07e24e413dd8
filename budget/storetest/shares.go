package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
)

// storedResult is a result in a model.
type storedResult struct {
	key   string
	owner string
	size  int
}

// model is the expected content of a store, the oldest first.
type model struct {
	d        budget.Driver
	maxBytes int
	present  []storedResult
	n        int // number of Puts so far, also by earlier models of the store: it makes keys unique and times ascend
}

// maxOverhead is the most that a driver counts for a result in addition to its value.
const maxOverhead = 700

func (m *model) bytes(of string) (sum int) {
	for _, k := range m.present {
		if k.owner == of {
			sum += k.size
		}
	}
	return sum
}

// ownerShares checks that a full store removes the oldest results of the owner that uses most, and nothing else. A driver counts somewhat
// more than the values, so it may choose differently among owners that use about as much.
func ownerShares(t *testing.T, d budget.Driver) {
	const maxBytes = 64 << 10
	if err := d.SetMaxBytes(maxBytes); err != nil {
		t.Fatal(err)
	}
	random := make([]byte, maxBytes)
	_, _ = rand.NewChaCha8([32]byte{5}).Read(random)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{d: d, maxBytes: maxBytes, n: n}
		for range rapid.IntRange(1, 20).Draw(rt, "puts") {
			owner := rapid.SampledFrom([]string{"a", "a:1:", "a:2:x", "b", "b:3:", "c:1:", ""}).Draw(rt, "owner")
			size := rapid.OneOf(rapid.IntRange(1, 5_000), rapid.IntRange(1, 45_000)).Draw(rt, "size")
			m.put(t, rt, owner, random[:size])
		}
		for _, k := range m.present {
			if err := d.Delete(t.Context(), k.key); err != nil {
				rt.Fatal(err)
			}
		}
		n = m.n
	})
}

// put stores one more result and checks what is left.
func (m *model) put(t *testing.T, rt *rapid.T, owner string, value []byte) {
	m.n++
	later := time.Duration(m.n) * time.Millisecond
	e := budget.Entry{Owner: owner, Created: now.Add(later), Expires: now.Add(time.Hour + later), Value: value}
	added := storedResult{fmt.Sprint("part", m.n), e.BaseOwner(), len(value)}
	before := m.present
	hasOthers := false
	for _, k := range before {
		hasOthers = hasOthers || k.owner != added.owner
	}
	switch err := m.d.Put(t.Context(), added.key, e); {
	case fault.CodeOf(err) == fault.LimitExceeded && hasOthers && added.size > m.maxBytes/2-maxOverhead:
		if m.refresh(t, rt, value); len(m.present) != len(before) {
			rt.Fatalf("a refused Put removed results: %v left of %v", m.present, before)
		}
		return
	case err != nil:
		rt.Fatal(err)
	case hasOthers && added.size > m.maxBytes/2:
		rt.Fatalf("Put of %d bytes, more than half of the store, succeeded although other owners have results", added.size)
	}
	m.present = append(slices.Clone(before), added)
	m.refresh(t, rt, value)
	m.check(rt, before, added)
}

// refresh reads what is left, in the order of age. Reading makes that the order of use, too.
func (m *model) refresh(t *testing.T, rt *rapid.T, newest []byte) {
	var left []storedResult
	for _, k := range m.present {
		e, err := m.d.Get(t.Context(), k.key, nil)
		switch {
		case errors.Is(err, budget.ErrNotFound):
			continue
		case err != nil || len(e.Value) != k.size || k.size == len(newest) && !bytes.Equal(e.Value, newest):
			rt.Fatalf("Get of %v returned %d bytes, %v", k, len(e.Value), err)
		}
		left = append(left, k)
	}
	m.present = left
}

// check compares what is left with what was there before one more was stored.
func (m *model) check(rt *rapid.T, before []storedResult, added storedResult) {
	old := &model{present: before}
	slack := maxOverhead * (len(before) + 1)
	total, alive := added.size, map[string]bool{}
	for _, k := range before {
		total += k.size
	}
	kept := 0
	for _, k := range m.present {
		kept += k.size
		alive[k.key] = true
	}
	switch {
	case !alive[added.key]:
		rt.Fatalf("the new result was not stored: %v", added)
	case kept > m.maxBytes:
		rt.Fatalf("the store has %d bytes, limit %d", kept, m.maxBytes)
	case total+slack <= m.maxBytes && len(m.present) != len(before)+1:
		rt.Fatalf("results were evicted although there was room: %v left of %v", m.present, before)
	}
	evictedFrom := map[string]bool{}
	for i := len(before) - 1; i >= 0; i-- { // newest first
		k := before[i]
		if alive[k.key] && evictedFrom[k.owner] {
			rt.Fatalf("%v was kept, but a newer result of its owner was evicted: %v left of %v", k, m.present, before)
		}
		evictedFrom[k.owner] = evictedFrom[k.owner] || !alive[k.key]
	}
	for owner := range evictedFrom {
		if owner == added.owner || !evictedFrom[owner] {
			continue
		}
		for _, other := range []string{"", "a", "b", "c"} {
			alone := other == added.owner && m.bytes(other) == added.size // it has no other to lose
			if other != owner && !alone && m.bytes(other) > old.bytes(owner)+slack {
				rt.Fatalf("%q, with %d bytes, lost some to %v, and %q has %d: %v left of %v", owner, old.bytes(owner), added, other, m.bytes(other),
					m.present, before)
			}
		}
	}
}
