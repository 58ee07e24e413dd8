//go:build e2e && !race

package refs

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/expr-lang/expr/builtin"

	"github.com/onecall-mcp/onecall/fault"
)

// hostile has, for each function of expr-lang, an expression that makes as large a value as possible of $0: numbers xs,
// texts ss, a long text s, an object o with many members.
var hostile = map[string]string{
	"all": `all($0.xs, len([#, #]) > 0)`, "any": `any($0.xs, len([#, #]) < 0)`, "none": `none($0.xs, len([#, #]) < 0)`,
	"one":    `one($0.xs, len([#]) < 0)`,
	"filter": `map(1..100, filter($0.xs, # > 0))`, "map": `map($0.xs, ({"a": #, "b": [#]}))`, "count": `map(1..100, count($0.xs, # > 0))`,
	"find":      `map(1..100, find($0.xs, # < 0))`,
	"findIndex": `map(1..100, findIndex($0.xs, # < 0))`, "findLast": `map(1..100, findLast($0.xs, # < 0))`,
	"findLastIndex": `map(1..100, findLastIndex($0.xs, # < 0))`,
	"groupBy":       `map(1..100, groupBy($0.xs, #))`, "sortBy": `map(1..100, sortBy($0.xs, -#))`, "sum": `map(1..400, sum($0.xs))`,
	"len": `map($0.xs, len($0.s))`, "type": `map($0.xs, type($0.s))`, "abs": `map($0.xs, abs(#))`, "ceil": `map($0.xs, ceil(#))`,
	"floor": `map($0.xs, floor(#))`,
	"round": `map($0.xs, round(#))`, "int": `map($0.xs, int(#))`, "float": `map($0.xs, float(#))`, "string": `map($0.xs, string($0.xs))`,
	"trim": `map($0.xs, trim($0.s))`, "trimPrefix": `map($0.xs, trimPrefix($0.s, "a"))`, "trimSuffix": `map($0.xs, trimSuffix($0.s, "a"))`,
	"upper": `map($0.xs, upper($0.s))`, "lower": `map($0.xs, lower($0.s))`, "split": `map($0.xs, split($0.s, ""))`,
	"splitAfter": `map($0.xs, splitAfter($0.s, ""))`,
	"replace":    `map($0.xs, replace($0.s, "a", $0.s))`, "join": `map($0.xs, join($0.ss, $0.s))`, "indexOf": `map($0.xs, indexOf($0.s, "b"))`,
	"lastIndexOf": `map($0.xs, lastIndexOf($0.s, "b"))`, "hasPrefix": `map($0.xs, hasPrefix($0.s, $0.s))`,
	"hasSuffix": `map($0.xs, hasSuffix($0.s, $0.s))`,
	"max":       `map($0.xs, max($0.xs))`, "min": `map($0.xs, min($0.xs))`, "mean": `map($0.xs, mean($0.xs))`,
	"median": `map($0.xs, median($0.xs))`,
	"toJSON": `map($0.xs, toJSON([$0.xs, 1]))`, "fromJSON": `map($0.xs, fromJSON("[" + join($0.ss, ",") + "]"))`,
	"toBase64":   `map($0.xs, toBase64($0.s))`,
	"fromBase64": `map($0.xs, fromBase64(toBase64($0.s)))`, "now": `map($0.xs, now())`, "duration": `map($0.xs, duration("1h"))`,
	"date":     `map($0.xs, date("2024-01-01"))`,
	"timezone": `map($0.xs, timezone("UTC"))`, "first": `map($0.xs, [first($0.xs)])`, "last": `map($0.xs, [last($0.xs)])`,
	"get":  `map($0.xs, [get($0.xs, 1)])`,
	"take": `map($0.xs, take($0.xs, 9))`, "keys": `map($0.xs, keys($0.o))`, "values": `map($0.xs, values($0.o))`,
	"toPairs":   `map($0.xs, toPairs($0.o))`,
	"fromPairs": `map($0.xs, fromPairs(toPairs($0.o)))`, "reverse": `map($0.xs, reverse($0.xs))`,
	"concat": `map($0.xs, concat($0.xs, $0.xs))`, "sort": `map($0.xs, sort($0.xs))`,
	"flatten": `map($0.xs, flatten([$0.xs, $0.xs]))`, "uniq": `map($0.xs, uniq($0.xs))`,
	"bitand": `map($0.xs, bitand(#, 1))`, "bitor": `map($0.xs, bitor(#, 1))`, "bitxor": `map($0.xs, bitxor(#, 1))`,
	"bitnand": `map($0.xs, bitnand(#, 1))`,
	"bitshl":  `map($0.xs, bitshl(#, 1))`, "bitshr": `map($0.xs, bitshr(#, 1))`, "bitushr": `map($0.xs, bitushr(#, 1))`,
	"bitnot": `map($0.xs, bitnot(#))`,
}

// TestMemory: no expression allocates more than a few times the memory that it may hold, whatever it calls and reads.
// It returns a result, or exceeds a bound on memory or work: none needs the limit on time.
func TestMemory(t *testing.T) { //nolint:paralleltest // it measures what the process allocates
	sources := map[string]string{
		"objects":    `map(1..300000, ({"a": {"b": {}}}))`,
		"arrays":     `map(1..300000, [[[#]]])`,
		"nulls":      `len($0.nulls)`,
		"a document": `len($0.pairs)`,
		"escapes":    `map($0.xs, $0.s + "\n")`,
		"contains":   `map($0.xs, $0.s contains "b")`,
		"add":        `map($0.xs, $0.s + $0.s)`,
	}
	for _, f := range builtin.Builtins {
		if disabled[f.Name] != "" {
			continue
		}
		if hostile[f.Name] == "" {
			t.Errorf("hostile has no expression that calls %s", f.Name)
		}
		sources[f.Name] = hostile[f.Name]
	}
	var xs, ss, o strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&xs, ",%d", i+1000)
		fmt.Fprintf(&ss, `,"%d"`, i)
		fmt.Fprintf(&o, `,"k%d":%d`, i, i)
	}
	doc := `{"xs":[` + xs.String()[1:] + `],"ss":[` + ss.String()[1:] + `],"o":{` + o.String()[1:] + `},"s":"` + strings.Repeat("a",
		1<<20) + `"` +
		`,"nulls":[0` + strings.Repeat(",0", 16<<20) + `],"pairs":[{"a":[1]}` + strings.Repeat(`,{"a":[1]}`, 3<<20) + `]}`
	for name, source := range sources {
		if source == "" {
			continue
		}
		x := compileExpression(t, source)
		synctest.Test(t, func(t *testing.T) { // time stands still, so the limit on time ends nothing
			ctx, cancel := context.WithTimeout(t.Context(), 2*maxWall)
			defer cancel()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := x.Eval(ctx, scopeOf(doc))
			runtime.ReadMemStats(&after)
			f, isBounded := fault.As(err)
			isBounded = err == nil || isBounded && (f.Code == fault.BadExpression || f.Code == fault.LimitExceeded)
			if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 320 || !isBounded {
				t.Errorf("%s: %s allocates %d MiB and gives %v; want at most 320 MiB, and bad_expression, limit_exceeded or no error",
					name, source, mib, err)
			} else if testing.Verbose() && mib > 100 {
				t.Logf("%s: %d MiB: %v", name, mib, err)
			}
		})
	}
}
