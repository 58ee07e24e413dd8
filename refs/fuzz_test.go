package refs

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// FuzzExpression: every expression ends, with JSON or a coded error.
func FuzzExpression(f *testing.F) {
	for _, source := range []string{`$0.items[0].id > 3 && status(0) == "ok"`, `filter($0.items, .size > 1) | map(.size) | sum()`,
		`let x = $0; x.a?.b ?? [1..3]`,
		`groupBy($0.items, .size)`, `join(split($0.name, ""), "-")`, `{"a": toJSON($0), "b": fromJSON("[1]")}`, `now().Format("2006")`,
		`$0.name matches "(a+)+$"`,
		`((1?:2)?:3)`, `1 < 2 < 3`, `sort(keys($0))`, `-2 ** 63 % 5`, `map(1..1000, map(1..1000, #))`, `#`, `$env`, `flatten([[$0]]) == [$0]`,
		`b"a"`, `"a"[0:1]`,
		`duration("1h") * 2`, `$0.items[-1][1:]`, `uniq($0.items)`, `toPairs($0) | fromPairs()`, `if true {1} else {2}`} {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		x, faults := CompileExpression(source, scope())
		for _, e := range faults {
			if e.Code != fault.BadExpression && e.Code != fault.BadReference && e.Code != fault.NotSupported || e.Offset < 0 ||
				e.Offset > len(e.Source) {
				t.Fatalf("%s: fault %+v, want bad_expression, bad_reference or not_supported, and its offset in the source", source, e)
			}
		}
		if x == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		got, err := x.Eval(ctx, scopeOf(orders, orders))
		switch fault.CodeOf(err) {
		case "":
			if !json.Valid(got) {
				t.Fatalf("%s gives %s, which is not JSON", source, got)
			}
		case fault.BadExpression, fault.ReferenceMissing, fault.Timeout:
		default:
			t.Fatalf("%s: %v, want bad_expression, reference_missing or timeout", source, err)
		}
		if _, err := x.True(ctx, scopeOf(orders, orders)); err != nil {
			if _, ok := fault.As(err); !ok {
				t.Fatalf("%s: True: %v, want an error with a code", source, err)
			}
		}
	})
}
