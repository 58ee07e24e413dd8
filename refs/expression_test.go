package refs

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

const orders = `{"items":[{"id":717897987691852588770249,"size":3,"price":1.10,"z":1,"a":2},{"size":20,"a":[1,2],` +
	`"esc":"\u00e9\/"},{"size":20,"nul":null}],` +
	`"total":5,"name":"bo\"b","nul":null,"flag":true,"empty":[],"keys":{"z":1,"a":{"q":1.50},"m":3}}`

func TestEval(t *testing.T) {
	t.Parallel()
	items := []string{`{"id":717897987691852588770249,"size":3,"price":1.10,"z":1,"a":2}`, `{"size":20,"a":[1,2],"esc":"\u00e9\/"}`,
		`{"size":20,"nul":null}`}
	for source, want := range map[string]string{
		// names
		`$0.items[0].size`:             `3`,
		`$search.total > 3`:            `true`,
		`$prev`:                        `"text"`,
		`$input.limit + 1`:             `4`,
		`$item.id`:                     `"i1"`,
		`$index * 2`:                   `4`,
		`$result.done`:                 `true`,
		`status(0)`:                    `"ok"`,
		`status("search") == "ok"`:     `true`,
		`$0.items[-1].size`:            `20`,
		`$0.items?.[9]`:                `null`,
		`$0.items?.[9]?.size`:          `null`,
		`$0["items"][1]["a"][0]`:       `1`,
		`$0.items[0]["si" + "ze"]`:     `3`,
		`$0.items[$0.items[0].a].size`: `20`,
		// missing and null
		`$0.nope`:                  `null`,
		`$0.items[0].nope`:         `null`,
		`$0.nope ?? 7`:             `7`,
		`$0.nul?.x.y`:              `null`,
		`$0.nope?.x`:               `null`,
		`$0.nul == nil`:            `true`,
		`$0.nul == null`:           `true`,
		`$0.total != null`:         `true`,
		`$0.nope ?? null`:          `null`,
		`{"null": null}.null`:      `null`,
		`[null, nil]`:              `[null,null]`,
		`all([null], # in [null])`: `true`,
		`(1 == 2 ? 1 : $0.nope)`:   `null`,
		// what comes out as it was keeps its bytes
		`$0.items[0].id`:                                     `717897987691852588770249`,
		`($0.items[0].price)`:                                `1.10`,
		`filter($0.items, .size < 10)`:                       `[` + items[0] + `]`,
		`filter($0.items, true)`:                             `[` + strings.Join(items, ",") + `]`,
		`sortBy($0.items, -.size)[2]`:                        items[0],
		`find($0.items, .esc != nil)`:                        items[1],
		`first($0.items)`:                                    items[0],
		`last($0.items)`:                                     items[2],
		`reverse($0.items)`:                                  `[` + items[2] + `,` + items[1] + `,` + items[0] + `]`,
		`take($0.items, 2)`:                                  `[` + items[0] + `,` + items[1] + `]`,
		`$0.items[1:2]`:                                      `[` + items[1] + `]`,
		`[$0.items[1], 1.5, "x<&>"]`:                         `[` + items[1] + `,1.5,"x<&>"]`,
		`{"b": $0.keys, "a": nil}`:                           `{"a":null,"b":{"z":1,"a":{"q":1.50},"m":3}}`,
		`let list = $0.items; list[0]`:                       items[0],
		`$0.flag ? $0.keys : 1`:                              `{"z":1,"a":{"q":1.50},"m":3}`,
		`groupBy($0.items, .size)`:                           `{"20":[` + items[1] + `,` + items[2] + `],"3":[` + items[0] + `]}`,
		`concat($0.items[:1], [$0.keys.a])`:                  `[` + items[0] + `,{"q":1.50}]`,
		`values($0.keys)`:                                    `[1,{"q":1.50},3]`,
		`keys($0.keys)`:                                      `["z","a","m"]`,
		`keys(groupBy(1..20, #))[:3]`:                        `[1,10,11]`,
		`values(groupBy(map(1..20, string(20 - #)), #))[:3]`: `[["0"],["1"],["10"]]`,
		`map(toPairs(groupBy(1..30, # % 7)), #[0])`:          `[0,1,2,3,4,5,6]`,
		`toPairs($0.keys)[1]`:                                `["a",{"q":1.50}]`,
		`keys({"b":1,"a":2})`:                                `["a","b"]`,
		`fromPairs([["k",$0.keys.a]])`:                       `{"k":{"q":1.50}}`,
		`fromJSON("{\"b\": 1.10, \"a\" : [2] }")`:            `{"b":1.10,"a":[2]}`,
		`fromJSON("[1, {\"b\":1.10}]")[1]`:                   `{"b":1.10}`,
		`toJSON($0.items[0])`:                                `"{\"id\":717897987691852588770249,\"size\":3,\"price\":1.10,\"z\":1,\"a\":2}"`,
		`string($0.keys.a) + string(1.5) + string(nil)`:      `"{\"q\":1.50}1.5null"`,
		`get($0.items, 1)`:                                   items[1],
		// numbers, once taken out alone or computed with
		`map($0.items, .size * 2)`:   `[6,40,40]`,
		`map([$0.items[0]], .price)`: `[1.1]`,
		`7 / 2`:                      `3.5`,
		`6 / 2`:                      `3`,
		`7 % 4`:                      `3`,
		`2 ** 10`:                    `1024`,
		`9223372036854775807`:        `9223372036854775807`,
		`0.1 + 0.2`:                  `0.30000000000000004`,
		`1e21 * 1`:                   `1e+21`,
		// nodes that expr-lang shares between parents
		`1 < $0.total < 9`:                   `true`,
		`1 < $0.items[0].size <= $0.total`:   `true`,
		`$0.flag ?: $0.total`:                `true`,
		`(any($0.items, .size > 3) ?: 1)`:    `true`,
		`1 < len($0.name + "x") < 9 ? 1 : 2`: `1`,
		// functions
		`sum($0.items, .size)`:                                      `43`,
		`count($0.items, .size > 3)`:                                `2`,
		`len($0.items)`:                                             `3`,
		`$0.items | filter(.size > 3) | map(.size) | sum()`:         `40`,
		`uniq(fromJSON("[{\"a\":1.10},{\"a\":1.1},{\"a\":1}]"))`:    `[{"a":1.10},{"a":1}]`,
		`uniq(map($0.items, .size))`:                                `[3,20]`,
		`uniq([1, 1.0, "1", {"a": 1}, {"a": 1.0}])`:                 `[1,"1",{"a":1}]`,
		`join(map($0.items, string(.size)), ",")`:                   `"3,20,20"`,
		`join(["a","b"])`:                                           `"ab"`,
		`split("a,b,c", ",", 2)`:                                    `["a","b,c"]`,
		`replace("aXbX", "X", "-")`:                                 `"a-b-"`,
		`trim("  a ") + trimPrefix("ab", "a") + upper("x")`:         `"abX"`,
		`sort([3, 1, 2], "desc")`:                                   `[3,2,1]`,
		`flatten([[1], [2, [3]]])`:                                  `[1,2,3]`,
		`[min(3, 1), max([1, 2]), mean([1, 2]), median([1, 3, 2])]`: `[1,2,1.5,2]`,
		`$0.name matches "^b" && not ($0.name matches upper("^b"))`: `true`,
		`$0.items[1] in $0.items`:                                   `true`,
		`3 in map($0.items, .size)`:                                 `true`,
		`"total" in $0`:                                             `true`,
		`$0.items[1] == $0.items[1] && $0.items[0] != $0.items[1]`:  `true`,
		`any($0.items, {.size > 3 and .nul == nil})`:                `true`,
		`map(1..3, # * #)`:                                          `[1,4,9]`,
		`map($0.items, #index)`:                                     `[0,1,2]`,
		`date("2024-01-02") - date("2024-01-01")`:                   `"24h0m0s"`,
		`date("2024-01-02").Format("2006")`:                         `"2024"`,
		`date("2024-01-02")`:                                        `"2024-01-02T00:00:00Z"`,
		`toBase64("a") + fromBase64("Yg==")`:                        `"YQ==b"`,
		`type($0.items)`:                                            `"array"`,
		`if $0.total > 3 { "many" } else { "few" }`:                 `"many"`,
		`let x = 2; let y = x + 1; x * y`:                           `6`,
		`"a" + "\u00e9\n"`:                                          `"aé\n"`,
	} {
		x := compileExpression(t, source)
		s := scopeOf(orders, orders, `"text"`)
		for range 2 {
			if got, err := x.Eval(context.Background(), s); err != nil || string(got) != want {
				t.Errorf("%s gives %s, %v; want %s", source, got, err, want)
			}
		}
	}
}

func TestExpressionFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		source  string
		code    fault.Code
		offset  int
		nearest string
	}{
		{`1 + $9.x`, fault.BadReference, 4, ""},
		{`$0.a > $4`, fault.BadReference, 7, ""},
		{`$3`, fault.BadReference, 0, ""},
		{`é == $serch.total`, fault.BadReference, 6, "$search"},
		{`$01`, fault.BadReference, 0, ""},
		{`status(4)`, fault.BadReference, 7, ""},
		{`status("nope")`, fault.BadReference, 7, ""},
		{`status("input")`, fault.BadExpression, 7, ""},
		{`status("search.total")`, fault.BadExpression, 7, ""},
		{`status($0)`, fault.BadExpression, 0, ""},
		{`1 + item.x`, fault.BadExpression, 4, "$item"},
		{`nofunc(1)`, fault.BadExpression, 0, ""},
		{`filtr($0, true)`, fault.BadExpression, 0, "filter"},
		{`$0(1)`, fault.BadExpression, 0, ""},
		{`$0.items()`, fault.BadExpression, 3, ""},
		{`let f = 1; $0.items[0].f(1)`, fault.BadExpression, 23, ""},
		{`filter($0.items, #.name.includes("a"))`, fault.BadExpression, 24, ""},
		{`1 + $env.HOME`, fault.BadExpression, 4, ""},
		{`$env["HOME"]`, fault.BadExpression, 0, ""},
		{`get($env, "x")`, fault.BadExpression, 4, ""},
		{`reduce([1], #acc + #)`, fault.BadExpression, 0, ""},
		{`repeat("a", 3)`, fault.BadExpression, 0, ""},
		{`[1] | reduce(#acc + #)`, fault.BadExpression, 6, ""},
		{`::reduce([1], #acc + #)`, fault.BadExpression, 2, ""},
		{`let $0 = 1; $0`, fault.BadExpression, 12, ""},
		{`upper("a", "b")`, fault.BadExpression, 0, ""},
		{`upper(5)`, fault.BadExpression, 0, ""},
		{`join()`, fault.BadExpression, 0, ""},
		{`len()`, fault.BadExpression, 0, ""},
		{`1 +`, fault.BadExpression, 2, ""},
		{`(1`, fault.BadExpression, 1, ""},
		{`"abc`, fault.BadExpression, 4, ""},
		{`"a" matches "("`, fault.BadExpression, 12, ""},
		{`1 + "a"`, fault.BadExpression, 2, ""},
		{`#foo`, fault.BadExpression, 0, ""},
		{`map([1], #foo)`, fault.BadExpression, 9, ""},
		{` `, fault.BadExpression, 0, ""},
		{``, fault.BadExpression, 0, ""},
		{"1 + \xff", fault.BadExpression, 0, ""},
		{`$state.x`, fault.NotSupported, 0, ""},
	} {
		_, faults := CompileExpression(test.source, scope())
		if len(faults) == 0 {
			t.Errorf("%s compiles", test.source)
			continue
		}
		e := faults[0]
		if test.source == `é == $serch.total` {
			e = faults[1]
		}
		if e.Code != test.code || e.Offset != test.offset || e.At != "/args" || strings.ContainsAny(e.Message, "\n") {
			t.Errorf("%s: %v with the caret at %d of %q, want %s at %d", test.source, e, e.Offset, e.Source, test.code, test.offset)
		}
		if test.nearest != "" && !slices.Contains(e.Nearest, test.nearest) {
			t.Errorf("%s: nearest %q, want %s", test.source, e.Nearest, test.nearest)
		}
	}
}

func TestEvalErrors(t *testing.T) {
	t.Parallel()
	for source, words := range map[string]string{
		`$0.nul.x`:                       "null",
		`$0.nope.x`:                      "null",
		`$0.items[0].size.x`:             "a number",
		`$0.name.x`:                      "a string",
		`$0.items[9]`:                    "without that element",
		`$0.items["x"]`:                  "an array",
		`$0.keys[0]`:                     "an object",
		`let x = $0.nul; x.y`:            "",
		`map($0.items, .nope.x)`:         "",
		`!$0.name`:                       "a string where a boolean is needed",
		`$0.name > 3`:                    "",
		`$0.name + 1`:                    "",
		`1 / 0`:                          "finite",
		`[0 / 0]`:                        "finite",
		`1 % 0`:                          "division by zero",
		`int("x")`:                       "",
		`fromJSON("{")`:                  "not JSON",
		`fromJSON($0.total)`:             "",
		`upper($0.total)`:                "",
		`uniq($0.total)`:                 "a number",
		`keys($0.total)`:                 "",
		`"a" matches $0.name + "("`:      "regular expression",
		`$0.total matches "a"`:           "",
		`groupBy([[1]], #)`:              "",
		`fromPairs([[1.5,1],["1.5",2]])`: "both written",
		`[now().Year]`:                   "a function",
		`$0.Items()`:                     "",
		`filter($0.total, true)`:         "",
		`take($0.items, -1)`:             "",
		`timezone("../../etc/passwd")`:   "",
	} {
		x := compileExpression(t, source)
		got, err := x.Eval(context.Background(), scopeOf(orders))
		if err == nil {
			t.Errorf("%s gives %s, want an error", source, got)
			continue
		}
		e := wantCode(t, err, fault.BadExpression)
		if !strings.Contains(e.Message, words) || e.At != "/args" || e.Source != source || strings.Contains(e.Message, "interface {}") ||
			strings.Contains(e.Message, "\n") {
			t.Errorf("%s: %v (source %q), want the words %q", source, e, e.Source, words)
		}
	}
	_, err := compileExpression(t, `$1.x`).Eval(context.Background(), scopeOf(orders))
	wantCode(t, err, fault.ReferenceMissing)
	lenient := scopeOf(orders)
	lenient.Lenient = true
	if got, err := compileExpression(t, `$1?.x`).Eval(context.Background(), lenient); err != nil || string(got) != "null" {
		t.Errorf("a step without result gives %s, %v in return", got, err)
	}
}

func TestTrue(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]bool{`$0.total > 3`: true, `$0.flag`: true, `$0.nope != nil`: false, `not $0.flag`: false} {
		if got, err := compileExpression(t, source).True(context.Background(), scopeOf(orders)); err != nil || got != want {
			t.Errorf("%s is %v, %v", source, got, err)
		}
	}
	for source, kind := range map[string]string{`$0.name`: "a string", `$0.total`: "a number", `$0.nope`: "null", `$0.items`: "an array",
		`$0`: "an object", `now()`: "a date"} {
		_, err := compileExpression(t, source).True(context.Background(), scopeOf(orders))
		if e := wantCode(t, err, fault.BadExpression); !strings.Contains(e.Message, kind) || e.At != "/args" {
			t.Errorf("%s: %v, want the word %s", source, e, kind)
		}
	}
}

// TestNullOperands: an error of null names what was null, and the keys that were there.
func TestNullOperands(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]struct{ message, nearest string }{
		`$0.itms[0].id`:    {"$0.itms is null", "items"},
		`$0.keys.mm.x > 1`: {"$0.keys.mm is null", ""},
		`$0.nul.x`:         {"$0.nul is null", ""},
		`1 + $0.totl`:      {"The right side of the operator is null", ""},
		`$0.totl * 2`:      {"The left side of the operator is null", ""},
	} {
		_, err := compileExpression(t, source).Eval(context.Background(), scopeOf(orders))
		e := wantCode(t, err, fault.BadExpression)
		if !strings.Contains(e.Message, want.message) ||
			want.nearest != "" && (len(e.Nearest) == 0 || e.Nearest[0] != want.nearest || len(e.Available) == 0) {
			t.Errorf("%s: %s, nearest %q of %q", source, e.Message, e.Nearest, e.Available)
		}
	}
	if f := CheckFree("join(xs, '\n')", []string{"xs"}); f == nil || !strings.Contains(f.Message, `write \\n`) {
		t.Errorf("a line break in a text: %v", f)
	}
	if f := CheckFree("len(files)", []string{"xs"}); f == nil || !strings.Contains(f.Message, "the keys of vars") ||
		!slices.Equal(f.Available, []string{"xs"}) {
		t.Errorf("an unknown name: %v", f)
	}
}
