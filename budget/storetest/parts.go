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

// kept is a result that a model knows of.
type kept struct {
	key  string
	part string
	size int
}

// model is what a store should have: the oldest first.
type model struct {
	d     budget.Driver
	most  int
	there []kept
	n     int
}

// around is the most that a driver counts for a result beside the bytes of its value.
const around = 700

func (m *model) bytes(of string) (sum int) {
	for _, k := range m.there {
		if k.part == of {
			sum += k.size
		}
	}
	return sum
}

// partsOfOwners checks that a full store gives up the oldest results of the owner that has most, and nothing else: what owners
// lose to one another, a driver that counts somewhat more than the values may decide otherwise only where they have about as
// much.
func partsOfOwners(t *testing.T, d budget.Driver) {
	const most = 64 << 10
	if err := d.SetMaxBytes(most); err != nil {
		t.Fatal(err)
	}
	random := make([]byte, most)
	_, _ = rand.NewChaCha8([32]byte{5}).Read(random)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{d: d, most: most, n: n}
		for range rapid.IntRange(1, 20).Draw(rt, "puts") {
			owner := rapid.SampledFrom([]string{"a", "a:1:", "a:2:x", "b", "b:3:", "c:1:", ""}).Draw(rt, "owner")
			size := rapid.OneOf(rapid.IntRange(1, 5_000), rapid.IntRange(1, 45_000)).Draw(rt, "size")
			m.put(t, rt, owner, random[:size])
		}
		for _, k := range m.there {
			if err := d.Delete(t.Context(), k.key); err != nil {
				rt.Fatal(err)
			}
		}
		n = m.n
	})
}

// put keeps one more, and looks at what is left.
func (m *model) put(t *testing.T, rt *rapid.T, owner string, value []byte) {
	m.n++
	later := time.Duration(m.n) * time.Millisecond
	e := budget.Entry{Owner: owner, Created: now.Add(later), Expires: now.Add(time.Hour + later), Value: value}
	one := kept{fmt.Sprint("part", m.n), e.Part(), len(value)}
	before := m.there
	others := false
	for _, k := range before {
		others = others || k.part != one.part
	}
	switch err := m.d.Put(t.Context(), one.key, e); {
	case fault.CodeOf(err) == fault.LimitExceeded && others && one.size > m.most/2-around:
		if m.look(t, rt, value); len(m.there) != len(before) {
			rt.Fatalf("a result was refused, and others are gone: %v of %v", m.there, before)
		}
		return
	case err != nil:
		rt.Fatal(err)
	case others && one.size > m.most/2:
		rt.Fatalf("%d bytes were kept beside what others have", one.size)
	}
	m.there = append(slices.Clone(before), one)
	m.look(t, rt, value)
	m.check(rt, before, one)
}

// look finds out what is left, in the order of age, which for a store that goes by use is then that of use.
func (m *model) look(t *testing.T, rt *rapid.T, newest []byte) {
	var left []kept
	for _, k := range m.there {
		e, err := m.d.Get(t.Context(), k.key, nil)
		switch {
		case errors.Is(err, budget.ErrNotFound):
			continue
		case err != nil || len(e.Value) != k.size || k.size == len(newest) && !bytes.Equal(e.Value, newest):
			rt.Fatalf("%v: %d bytes, %v", k, len(e.Value), err)
		}
		left = append(left, k)
	}
	m.there = left
}

// check compares what is left with what was there before one more was kept.
func (m *model) check(rt *rapid.T, before []kept, one kept) {
	was := &model{there: before}
	slack := around * (len(before) + 1)
	all, alive := one.size, map[string]bool{}
	for _, k := range before {
		all += k.size
	}
	left := 0
	for _, k := range m.there {
		left += k.size
		alive[k.key] = true
	}
	switch {
	case !alive[one.key]:
		rt.Fatalf("the new one is not there: %v", one)
	case left > m.most:
		rt.Fatalf("%d bytes are kept of %d", left, m.most)
	case all+slack <= m.most && len(m.there) != len(before)+1:
		rt.Fatalf("there is room, and something is gone: %v of %v", m.there, before)
	}
	lost := map[string]bool{}
	for i := len(before) - 1; i >= 0; i-- { // the newest first
		k := before[i]
		if alive[k.key] && lost[k.part] {
			rt.Fatalf("%v is there, and a newer one of its owner is gone: %v of %v", k, m.there, before)
		}
		lost[k.part] = lost[k.part] || !alive[k.key]
	}
	for part := range lost {
		if part == one.part || !lost[part] {
			continue
		}
		for _, other := range []string{"", "a", "b", "c"} {
			alone := other == one.part && m.bytes(other) == one.size // it has no other to lose
			if other != part && !alone && m.bytes(other) > was.bytes(part)+slack {
				rt.Fatalf("%q had %d bytes and lost some to %v, while %q has %d: %v of %v", part, was.bytes(part), one, other, m.bytes(other), m.there, before)
			}
		}
	}
}
