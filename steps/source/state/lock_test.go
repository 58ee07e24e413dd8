package state_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/chain/journal/sqljournal"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/state"
)

// taken is one time that a lock was held: from when it was taken until when it would have ended, or was ended.
type taken struct {
	fence       int64
	from, until time.Time
	died        bool // the holder did not end it
}

// inside is who holds a lock just now, as the holders themselves say.
type inside struct {
	mu     sync.Mutex
	holder *taken
}

// enter says that a lock is held from now on. Nobody else may be inside whose time is not over.
func (i *inside) enter(t *testing.T, one *taken) {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	if !now.Before(one.until) { // it has slept too long
		return
	}
	if i.holder != nil && now.Before(i.holder.until) {
		t.Errorf("%+v and %+v hold the lock at once", *i.holder, *one)
	}
	i.holder = one
}

// leave says that a lock is held no more.
func (i *inside) leave(one *taken) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.holder == one {
		i.holder = nil
	}
}

// holders has callers take a lock again and again, for a short time. Some are killed while they wait, and some while they hold the lock.
func holders(t *testing.T, registries []*steps.Registry, callers, times int, ttl time.Duration) []taken {
	t.Helper()
	var mu sync.Mutex
	var list []taken
	var in inside
	var wait sync.WaitGroup
	for i := range callers {
		registry := registries[i%len(registries)]
		random := rand.New(rand.NewPCG(1, uint64(i)))
		wait.Go(func() {
			for range times {
				ctx, kill := context.WithCancel(as(t.Context(), "token:ann"))
				if random.IntN(4) == 0 {
					time.AfterFunc(time.Duration(random.Int64N(int64(ttl))), kill)
				}
				raw := call(ctx, registry, "state.lock", fmt.Sprintf(`{"name":"l","ttl":"%dms","wait":"9m"}`, ttl.Milliseconds()))
				kill()
				var got struct {
					Token string
					Fence int64
					Until time.Time
				}
				if json.Unmarshal([]byte(raw), &got) != nil {
					if !strings.HasPrefix(raw, "cancelled") {
						t.Error(raw)
					}
					continue
				}
				one := taken{got.Fence, got.Until.Add(-ttl), got.Until, random.IntN(3) == 0}
				in.enter(t, &one)
				if !one.died {
					time.Sleep(time.Duration(random.Int64N(int64(ttl)))) // it works under the lock
					in.leave(&one)
					call(as(t.Context(), "token:ann"), registry, "state.unlock", `{"token":"`+got.Token+`"}`)
				}
				mu.Lock()
				list = append(list, one)
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return list
}

// checkHolders checks that fences differ and grow in time, and that nobody has taken a lock that a holder who died still held.
func checkHolders(t *testing.T, list []taken, least int) {
	t.Helper()
	slices.SortFunc(list, func(a, b taken) int { return int(a.fence - b.fence) })
	died := 0
	for i := 1; i < len(list); i++ {
		before, now := &list[i-1], &list[i]
		if now.fence == before.fence || now.from.Before(before.from) || before.died && now.from.Before(before.until) {
			t.Errorf("%+v comes after %+v", now, before)
		}
		if before.died {
			died++
		}
	}
	if len(list) < least || died == 0 {
		t.Errorf("the lock was taken %d times, and %d holders died; want at least %d and some", len(list), died, least)
	}
}

// TestLockOfMany: fifty callers of a lock, some of which die, hold it one after another.
func TestLockOfMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j, err := journal.New(&journal.Memory{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		registry, err := steps.NewRegistry(state.New(&state.Options{Journal: func() *journal.Journal { return j }}).Functions(), nil)
		if err != nil {
			t.Fatal(err)
		}
		checkHolders(t, holders(t, []*steps.Registry{registry}, 50, 3, time.Second), 50)
	})
}

// TestLockOfProcesses: the same over one file, by the clock of its database, with a journal for each process.
func TestLockOfProcesses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal.db")
	var registries []*steps.Registry
	for range 3 {
		d, err := sqljournal.OpenSQLite(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		j, err := journal.New(d, &journal.Options{Key: make([]byte, journal.MinKeyBytes)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { j.Close() })
		registry, err := steps.NewRegistry(state.New(&state.Options{Journal: func() *journal.Journal { return j }}).Functions(), nil)
		if err != nil {
			t.Fatal(err)
		}
		registries = append(registries, registry)
	}
	checkHolders(t, holders(t, registries, 12, 2, 50*time.Millisecond), 10)
}

// TestLockHolders: only in a shared space a caller learns who holds a lock; a token ends no lock but its own.
func TestLockHolders(t *testing.T) {
	t.Parallel()
	_, registry := open(t, state.Options{Spaces: map[string][]string{"team": {"token:ann", "token:bob"}}})
	ann, bob, eve := as(t.Context(), "token:ann"), as(t.Context(), "token:bob"), as(t.Context(), "token:eve")
	var held struct{ Token string }
	if err := json.Unmarshal([]byte(call(ann, registry, "state.lock", `{"name":"a/b:c","space":"team"}`)), &held); err != nil {
		t.Fatal(err)
	}
	unlock := `{"token":"` + held.Token + `"}`
	for i, test := range []struct {
		ctx            context.Context
		function, args string
		want           string
	}{
		{bob, "state.lock", `{"name":"a/b:c","space":"team"}`, "busy at /name: token:ann holds it until "},
		{ann, "state.lock", `{"name":"own","ttl":"10m"}`, `{"token":`},
		{ann, "state.lock", `{"name":"own"}`, "busy at /name: it is held until "},
		{ann, "state.lock", `{"name":"own","ttl":"11m"}`, "bad_arguments at /ttl: ttl is a time in h, m, s or ms such as 24h (7 days are 168h), at most 10m"},
		{eve, "state.lock", `{"name":"a/b:c","space":"team"}`, `{"token":`},
		{eve, "state.unlock", unlock, `{"unlocked":false}`},
		{bob, "state.unlock", unlock, `{"unlocked":true}`},
		{ann, "state.unlock", unlock, `{"unlocked":false}`},
		{ann, "state.unlock", `{"token":"x"}`, "bad_arguments at /token"},
		{bob, "state.lock", `{"name":"a/b:c","space":"team"}`, `{"token":`},
		{bob, "state.list", `{"space":"team"}`, `{"keys":[]}`},
	} {
		if got := call(test.ctx, registry, test.function, test.args); !strings.HasPrefix(got, test.want) {
			t.Errorf("call %d: %s, want %s", i, got, test.want)
		}
	}
}
