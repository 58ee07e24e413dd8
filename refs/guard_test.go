package refs

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// nest nests open and end n times around inner.
func nest(open, inner, end string, n int) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
}

// TestSourceBounds: sources that would overflow a stack, or compile for hours. Each ends quickly, without an error or
// with a coded one.
func TestSourceBounds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, source string
		ok           bool
	}{
		{"a million parentheses", nest("(", "1", ")", 1_000_000), false},
		{"parentheses in a string", `"` + strings.Repeat("(", 4000) + `" != ""`, true},
		{"brackets in a comment", `1 /* ` + strings.Repeat("[", 4000) + ` */`, true},
		{"parentheses up to the bound", nest("(", "1", ")", 2047), true},
		{"arrays", nest("[", "1", "]", 2000), false},
		{"unclosed", strings.Repeat("[", 4096), false},
		{"unary minus", strings.Repeat("-", 4000) + "1", false},
		{"not", strings.Repeat("!", 1000) + "true", true},
		{"many nodes", "1" + strings.Repeat("+1", 2000), false},
		{"shared conditions", nest("(", "1", " ?: 1)", 500), false},
		{"shared comparisons", nest("(1 < ", "1", " < 1)", 300), false},
		{"nested overloads", nest("trim(", "$0.name", `, "x")`, 300), true},
		{"nested replace", nest("replace(", "$0.name", `,"a","b")`, 220), true},
		{"nested join", nest("join(", "$0.items", ")", 500), true},
		{"nested sort", nest("sort(", "$0.items", ")", 500), true},
		{"predicates", nest("map([1], ", "#", ")", 300), true},
		{"conditionals", strings.Repeat("true ? 1 : ", 370) + "1", true},
		{"lets", strings.Repeat("let a = 1; ", 300) + "1", false},
		{"members", "$0" + strings.Repeat(".a", 900), true},
		{"pipes", "$0" + strings.Repeat("|string()", 400), true},
		{"a regular expression", `"a" matches "` + nest("(", "a", ")", 1500) + `"`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, faults := CompileExpression(test.source, scope())
			if test.ok != (len(faults) == 0) {
				t.Fatalf("compiled: %v, want %v: %v", !test.ok, test.ok, faults)
			}
			for _, f := range faults {
				if f.Code != fault.BadExpression || len(f.Message) > 400 {
					t.Errorf("fault %.500v, want bad_expression of at most 400 bytes", f)
				}
			}
		})
	}
}

// doublings declares n variables, each made of the one before.
func doublings(n int, first, step, last string) string {
	b := "let a0 = " + first + ";"
	for i := range n {
		b += fmt.Sprintf("let a%d = %s;", i+1, strings.ReplaceAll(step, "@", fmt.Sprintf("a%d", i)))
	}
	return b + strings.ReplaceAll(last, "@", fmt.Sprintf("a%d", n))
}

// TestAttacks: expressions that would take memory or time without end are stopped with bad_expression.
func TestAttacks(t *testing.T) {
	t.Parallel()
	var numbers strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&numbers, ",%d", i)
	}
	doc := `{"xs":[` + numbers.String()[1:] + `],"s":"` + strings.Repeat("a", 1<<20) + `","few":[1,2,3]}`
	for name, source := range map[string]string{
		"range":                   `1..1000000000`,
		"the longest range":       `1..9223372036854775807`,
		"nested loops":            `count($0.xs, count($0.xs, # != 7) > 1) > 1`,
		"nested ranges":           `count(1..9000, count(1..9000, # > 0) > 0)`,
		"inner count of all":      `count($0.xs, count(map($0.xs, true)) > 0)`,
		"inner sum of all":        `count($0.xs, sum($0.xs) > 0)`,
		"doubling strings":        doublings(40, `"0123456789"`, `@+@`, `len(@)`),
		"doubling by join":        doublings(40, `"0123456789"`, `join([@,@])`, `len(@)`),
		"doubling by toJSON":      doublings(40, `"\"\""`, `toJSON([@,@])`, `len(@)`),
		"doubling by replace":     doublings(10, `"aaaaaaaaaa"`, `replace(@,"a",@)`, `len(@)`),
		"replace of nothing":      `replace($0.s, "", $0.s)`,
		"doubling by upper":       `map(1..100000, upper($0.s))`,
		"doubling by concat":      doublings(40, `[1]`, `concat(@,@)`, `len(@)`),
		"doubling by flatten":     doublings(40, `[1]`, `flatten([@,@])`, `len(@)`),
		"answer of shared arrays": doublings(60, `[1,1]`, `[@,@]`, `@`),
		"answer of shared maps":   doublings(60, `{"a":1}`, `{"a":@,"b":@}`, `@`),
		"equality of shared":      doublings(40, `[1]`, `[@,@]`, `[@] == [concat(@,[])]`),
		"shared in":               doublings(40, `[1]`, `[@,@]`, `[@] in [[concat(@,[])]]`),
		"shared min":              doublings(60, `[1]`, `[@,@]`, `min(@)`),
		"shared median":           doublings(60, `[1]`, `[@,@]`, `median(@)`),
		"membership in loops":     `count($0.xs, # in $0.xs)`,
		"split in loops":          `map($0.xs, split($0.s, ""))`,
		"results in loops":        `map($0.xs, $0.s)`,
		"fromJSON in loops":       `map(1..100000, fromJSON("[" + $0.s[:10] matches "b" ? "1" : "\"" + $0.s + "\""))`,
		"dates in loops":          `map(1..100000, now().Format($0.s))`,
		"join of long glue":       `join(map($0.xs, "a"), $0.s)`,
		"sort in loops":           `count($0.xs, len(sort($0.xs)) > 1)`,
		"sortBy in loops":         `map(1..100, len(sortBy($0.xs, -#)))`,
		"contains in loops":       `count(1..900000, $0.s contains "ab")`,
		"matches in loops":        `count(1..900000, $0.s matches "(a+)+b")`,
		"a large expression":      `$0.s matches "(a?){1000}b"`,
		"made expressions":        `count(1..900000, "a" matches ("(a?){900}" + string(#)))`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, faults := CompileExpression(source, scope())
			if len(faults) > 0 {
				t.Fatalf("%s: %v", source, faults[0])
			}
			start := time.Now()
			got, err := x.Eval(context.Background(), scopeOf(doc))
			if err == nil {
				t.Fatalf("got %.100s, want bad_expression", got)
			}
			e := wantCode(t, err, fault.BadExpression)
			t.Logf("%v: %s", time.Since(start).Round(time.Millisecond), e.Message)
		})
	}
}

// TestLargeExpressions: the bounds do not affect large but reasonable expressions.
func TestLargeExpressions(t *testing.T) {
	t.Parallel()
	doc := string(megabyte(t))
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	for source, want := range map[string]string{
		`len($0.items)`: `8000`,
		`len(filter($0.items, .card.size > 48 && .name != "x"))`:      `160`,
		`sortBy($0.items, -.id)[0].id`:                                `7999`,
		`len(uniq(map($0.items, .card.size)))`:                        `50`,
		`len(groupBy($0.items, .card.size))`:                          `50`,
		`sum(map($0.items, len(.tags)))`:                              `16000`,
		`len(join(map($0.items, .name), "\n"))`:                       `78889`,
		`len(toJSON($0.items)) > 900000`:                              `true`,
		`count($0.items, .id in [1, 2, 3])`:                           `3`,
		`count($0.items, .name matches "^item [0-9]$")`:               `10`,
		`len(map(filter($0.items, .id < 500), {{"a": .id, "b": 1}}))`: `500`,
	} {
		got, err := compileExpression(t, source).Eval(ctx, scopeOf(doc))
		if err != nil || string(got) != want {
			t.Errorf("%s gives %.100s, %v; want %s", source, got, err, want)
		}
	}
}
