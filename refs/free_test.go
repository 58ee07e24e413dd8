package refs

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

func TestEvalFree(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, test := range []struct{ source, variables, want string }{
		{`price * count`, `{"price": 2.5, "count": 4}`, `10`},
		{`filter(xs, .n > 1)`, `{"xs": [{"n":1.10, "b":1},{"n" : 2}]}`, `[{"n":1.10,"b":1},{"n":2}]`},
		{`let y = x.a[0]; y`, `{"x":{"a":[1.50]}}`, `1.5`},
		{`1 + 1`, ``, `2`},
		{`big`, `{"big":717897987691852588770249}`, `717897987691852588770249`},
		{`len + 1`, `{"len":1}`, `2`},
	} {
		if got, err := EvalFree(ctx, test.source, []byte(test.variables)); err != nil || string(got) != test.want {
			t.Errorf("%s over %s gives %s, %v; want %s", test.source, test.variables, got, err, test.want)
		}
	}
	for _, test := range []struct {
		source, variables string
		code              fault.Code
	}{
		{`prise * 2`, `{"price":1}`, fault.BadExpression},
		{`$0.x`, `{}`, fault.BadExpression},
		{`status(0)`, `{}`, fault.BadExpression},
		{`1`, `[]`, fault.BadArguments},
		{`1`, `{"a":`, fault.BadArguments},
		{`1 +`, `{}`, fault.BadExpression},
	} {
		_, err := EvalFree(ctx, test.source, []byte(test.variables))
		e := wantCode(t, err, test.code)
		if strings.HasPrefix(test.source, "prise") && !slices.Contains(e.Nearest, "price") {
			t.Errorf("%s: Nearest is %q, want price in it", test.source, e.Nearest)
		}
	}
}

// TestCheckFree: a fault says what would be correct.
func TestCheckFree(t *testing.T) {
	t.Parallel()
	if f := CheckFree("join(xs, '\n')", []string{"xs"}); f == nil || !strings.Contains(f.Message, `write \\n`) {
		t.Errorf("line break in a text: %v, want the advice to %s", f, `write \\n`)
	}
	if f := CheckFree("len(files)", []string{"xs"}); f == nil || !strings.Contains(f.Message, "the keys of vars") ||
		!slices.Equal(f.Available, []string{"xs"}) {
		t.Errorf("unknown name: %v, want a mention of the keys of vars, and xs as available", f)
	}
}

// TestConcurrent uses one expression, one template and the cache of sources from many goroutines.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	x := compileExpression(t, `map(filter($0.items, .size > 3), .size)`)
	tpl := compileWhole(t, `$0.items[*].size`)
	s := scopeOf(orders)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 100 {
				if got, err := x.Eval(context.Background(), s); err != nil || string(got) != `[20,20]` {
					t.Errorf("Eval gives %s, %v; want [20,20]", got, err)
				}
				if got, err := tpl.Resolve(context.Background(), nil, s); err != nil || string(got) != `[3,20,20]` {
					t.Errorf("Resolve gives %s, %v; want [3,20,20]", got, err)
				}
				if _, faults := CompileExpression(`$0.total + $index`, scope()); len(faults) > 0 {
					t.Error(faults[0])
				}
			}
		})
	}
	group.Wait()
}

func TestCacheIsBounded(t *testing.T) {
	for i := range 2*maxPrograms + 1 {
		compileExpression(t, "1 + "+strings.Repeat(" ", i%1500)+string(rune('0'+i%10)))
	}
	programs.Lock()
	defer programs.Unlock()
	if n := len(programs.m); n > maxPrograms {
		t.Errorf("the cache has %d sources, want at most %d", n, maxPrograms)
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	x := compileExpression(t, `count(1..900000, # > 1)`)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := x.Eval(ctx, scopeOf(orders))
	wantCode(t, err, fault.Cancelled)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		time.Sleep(2 * time.Second)
		_, err := x.True(ctx, scopeOf(orders))
		wantCode(t, err, fault.Timeout)
	})
}
