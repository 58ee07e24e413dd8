package chain_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/steps"
)

// Blocks that an answer does not show, since it is an excerpt, a lean form or a probe, do not go with it either.
func TestBlocksOfWhatIsShown(t *testing.T) {
	t.Parallel()
	sounds := func(n int) steps.Call {
		return func(ctx context.Context, _ []byte) ([]byte, error) {
			list := make([][]byte, n)
			for i := range list {
				var err error
				if list[i], err = steps.KeepBlock(ctx, &steps.Block{Type: "audio", MIME: "audio/wav", Bytes: []byte("sound")}); err != nil {
					return nil, err
				}
			}
			if n == 1 {
				return list[0], nil
			}
			return append(append([]byte{'['}, bytes.Join(list, []byte{','})...), ']'), nil
		}
	}
	fn := func(name string, call steps.Call, change func(*steps.Spec)) steps.Function {
		spec := steps.Spec{Name: name, Effect: steps.Read, EffectDeclared: true}
		change(&spec)
		return steps.Function{Spec: spec, Call: call}
	}
	fns := []steps.Function{
		fn("rec.all", sounds(3), func(*steps.Spec) {}),
		fn("rec.top", sounds(3), func(s *steps.Spec) { s.Answer = &steps.Excerpt{Top: 2} }),
		fn("rec.unsized", sounds(1), func(s *steps.Spec) { s.Answer = &steps.Excerpt{Drop: []string{"size"}} }),
		fn("rec.heavy", sounds(3), func(s *steps.Spec) { s.Heavy = "always" }),
		fn("rec.make", sounds(30), func(s *steps.Spec) { s.Effect = steps.Write }),
	}
	for _, test := range []struct {
		request    string
		probeAbove int
		blocks     int
	}{
		{`{"steps":[{"fn":"rec.all"}]}`, 0, 3},
		{`{"steps":[{"fn":"rec.all"}]}`, 50, 0},
		{`{"steps":[{"fn":"rec.top"}]}`, 0, 2},
		{`{"lite":true,"steps":[{"fn":"rec.top"}]}`, 0, 2},
		{`{"verify":true,"steps":[{"fn":"rec.top"}]}`, 0, 3},
		{`{"steps":[{"fn":"rec.unsized"}]}`, 0, 0},
		{`{"steps":[{"fn":"rec.heavy"}]}`, 0, 0},
		{`{"lite":true,"steps":[{"fn":"rec.heavy"}]}`, 0, 0},
		{`{"steps":[{"fn":"rec.make"}]}`, 0, 0},
		{`{"verify":true,"steps":[{"fn":"rec.make"}]}`, 0, 30},
		{`{"budget":{"maxTotalTokens":300},"verify":true,"steps":[{"fn":"rec.make"}]}`, 0, 0},
		{`{"budget":{"maxTotalTokens":300},"lite":true,"verify":true,"steps":[{"fn":"rec.make"}]}`, 0, 0},
	} {
		e := engineOf(t, fns, chain.Options{ProbeAbove: test.probeAbove, LeanAbove: 100}, true)
		a := e.Run(t.Context(), []byte(test.request), &chain.Caller{MaxBlockBytes: 1 << 20})
		told := gjson.GetBytes(a.JSON, "usage.blocks.count").Int()
		if !a.OK || len(a.Blocks) != test.blocks || gjson.GetBytes(a.JSON, "usage").Exists() && told != int64(test.blocks) {
			t.Errorf("%s sends %d blocks and tells of %d, want %d: %s", test.request, len(a.Blocks), told, test.blocks, a.JSON)
		}
	}
}

// Many blocks of a byte each take more memory than their bytes, and are counted as that.
func TestManyBlocksAreCounted(t *testing.T) {
	t.Parallel()
	many := steps.Function{Spec: steps.Spec{Name: "rec.many", Effect: steps.Read}, Call: func(ctx context.Context, _ []byte) ([]byte, error) {
		for range 3000 {
			if _, err := steps.KeepBlock(ctx, &steps.Block{Type: "image", Bytes: []byte{1}}); err != nil {
				return nil, err
			}
		}
		return []byte("1"), nil
	}}
	e := engineOf(t, []steps.Function{many}, chain.Options{MaxChainBytes: 1 << 20}, false)
	if a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"rec.many"}]}`), nil); codeOf(a) != fault.LimitExceeded {
		t.Errorf("got %s, want limit_exceeded", a.JSON)
	}
}

// What the store of results gets of a block is counted until the store has it.
func TestMemoryOfShownBlocks(t *testing.T) {
	t.Parallel()
	shared := admit.New(1, 2)
	driver := &watchingDriver{held: shared.Held}
	results, err := budget.NewResults(driver, nil)
	must(t, err)
	c := &camera{picture: bytes.Repeat([]byte{'x'}, 1<<20)}
	e := engineOf(t, c.functions(), chain.Options{Results: results, Admission: shared}, false)
	a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"cam.shot"}]}`), nil)
	if least := int64(len(c.picture) + driver.size - 64<<10); !a.OK || driver.size < len(c.picture)*4/3 || driver.atPut < least {
		t.Errorf("%d bytes are counted while %d are stored, want at least %d: %s", driver.atPut, driver.size, least, a.JSON)
	}
	if driver.room > driver.size+1024 {
		t.Errorf("the store gets %d bytes in memory of %d", driver.size, driver.room)
	}
	if n := shared.Held(); n != 0 {
		t.Errorf("%d bytes are counted after the run, want 0", n)
	}
}

// watchingDriver stores nothing, and tells of the last value that it should store.
type watchingDriver struct {
	budget.Driver
	held       func() int64
	size, room int
	atPut      int64
}

func (d *watchingDriver) Put(_ context.Context, _ string, e budget.Entry) error {
	d.size, d.room, d.atPut = len(e.Value), cap(e.Value), d.held()
	return nil
}

// brokenStore counts what it should store, and stores nothing. Each Put ends as put says.
type brokenStore struct {
	budget.Driver
	puts int
	put  func(n int) error
}

func (d *brokenStore) Put(context.Context, string, budget.Entry) error {
	d.puts++
	return d.put(d.puts)
}

// Handles that the store did not get are told of once. A store that is away is asked once, and none once the caller has left.
func TestHandlesThatAreLost(t *testing.T) {
	t.Parallel()
	full, away := fault.New(fault.LimitExceeded, "it is full"), fault.New(fault.Unavailable, "it is away")
	for name, test := range map[string]struct {
		put        func(n int) error
		puts, lost int
		leaves     bool
	}{
		"full for one":      {func(n int) error { return map[bool]error{true: full}[n == 2] }, 5, 1, false},
		"full":              {func(int) error { return full }, 5, 5, false},
		"away":              {func(int) error { return away }, 1, 5, false},
		"the caller leaves": {func(int) error { return nil }, 2, 4, true},
	} {
		ctx, leave := context.WithCancel(t.Context())
		driver := &brokenStore{}
		driver.put = func(n int) error {
			if test.leaves && n == 2 {
				leave()
			}
			return test.put(n)
		}
		results, err := budget.NewResults(driver, nil)
		must(t, err)
		c := &camera{picture: []byte("x")}
		a := engineOf(t, c.functions(), chain.Options{Results: results}, false).Run(ctx,
			[]byte(`{"steps":[{"fn":"cam.shot","forEach":"1..5"}]}`), nil)
		leave()
		told := fmt.Sprintf("%d handles of blocks", test.lost)
		if test.lost == 1 {
			told = "the handle oc1_b"
		}
		if driver.puts != test.puts || len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0].Message, told) {
			t.Errorf("%s: %d puts, and the warnings %v; want %d, and one that %s", name, driver.puts, a.Warnings, test.puts, told)
		}
	}
}
