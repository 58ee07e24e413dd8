package refs

import (
	"context"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// TestIntegers: an integer is exact, or the expression fails.
func TestIntegers(t *testing.T) {
	t.Parallel()
	doc := `{"max":9223372036854775807,"min":-9223372036854775808,"odd":9007199254740993,"big":717897987691852588770249,` +
		`"other":717897987691852588770250,` +
		`"even":1000000000000000000000,"xs":[9223372036854775807,1],"ids":[717897987691852588770249,1],"half":0.5,"past":9223372036854775808,` +
		`"near":10000000000000000001,"float":9007199254740992.0,"small":-717897987691852588770249,"huge":1` + strings.Repeat("0", 400) + `,` +
		`"rows":[{"id":717897987691852588770249},{"id":717897987691852588770250}]}`
	const fails = ""
	for source, want := range map[string]string{
		`9223372036854775807 + 1`: fails, `$0.max + 1`: fails, `$0.min - 1`: fails, `$0.min + -1`: fails, `-$0.min`: fails, `abs($0.min)`: fails,
		`$0.max * 2`: fails, `$0.min * -1`: fails, `$0.min / -1`: fails, `2 ** 63`: fails, `3 ** 40`: fails, `10 ** 1000000`: fails,
		`2 ^ 64`:     fails,
		`sum($0.xs)`: fails, `sum($0.xs, # + 0)`: fails, `sum([$0.max, 1])`: fails, `mean($0.xs)`: fails, `median([$0.odd, $0.odd])`: fails,
		`$0.odd * 0.5`: fails, `$0.odd / 2`: fails, `$0.odd ** -1`: fails, `float($0.odd)`: fails, `floor($0.odd)`: fails,
		`round($0.odd)`: fails, `ceil($0.odd)`: fails,
		`int(1e30)`: fails, `int(-1e19)`: fails, `int($0.big)`: fails, `int(0.0 / 0.0)`: fails, `$0.big + 1`: fails, `$0.big * 1.0`: fails,
		`$0.big / 2`:  fails,
		`sum($0.ids)`: fails, `reduce($0.xs, #)`: fails, `$0.even * 2`: fails, `bitshl(4611686018427387904, 2)`: fails, `bitshl(1, 64)`: fails,
		`sort($0.rows, .id)`: fails, `sortBy($0.rows, .id)`: fails, `max([$0.big, $0.other])`: fails, `$0.big % 2`: fails, `-$0.big`: fails,
		`abs($0.big)`:  fails,
		`$0.big < "a"`: fails, `bitand($0.big, 1)`: fails, `1..$0.big`: fails, `median([[$0.big]])`: fails, `let b = $0.big; b.text`: fails,
		`len($0.big) + 0`:    fails,
		`$0.big == $0.other`: `false`, `$0.big != $0.other`: `true`, `$0.big == $0.ids[0]`: `true`, `$0.big in [$0.other]`: `false`,
		`$0.big in [1, $0.big]`:            `true`,
		`filter($0.rows, .id == $0.other)`: `[{"id":717897987691852588770250}]`, `[$0.big] == [$0.other]`: `false`,
		`{"a": $0.big} == {"a": $0.ids[0]}`: `true`,
		`groupBy($0.rows, .id)`: `{"717897987691852588770249":[{"id":717897987691852588770249}],` +
			`"717897987691852588770250":[{"id":717897987691852588770250}]}`,
		`$0.max == $0.past`: `false`, `$0.max < $0.past`: `true`, `$0.past == 9223372036854775808.0`: `true`,
		`$0.max == 9223372036854775808.0`: `false`, `$0.odd == 9007199254740992.0`: `false`,
		`$0.odd == $0.float`: `false`, `$0.float < $0.odd`: `true`, `9007199254740993 == $0.float`: `false`,
		`$0.float in [9007199254740993]`:                     `false`,
		`uniq([$0.past, $0.max, $0.past])`:                   `[9223372036854775808,9223372036854775807]`,
		`uniq([4611686018427388000, 4611686018427387904.0])`: `[4611686018427388000,4611686018427388000]`,
		`[$0.near, 1e19, 10000000000000000000.0 == $0.near]`: `[10000000000000000001,10000000000000000000,false]`,
		`{"a": $0.big, "b": $0.other}`:                       `{"a":717897987691852588770249,"b":717897987691852588770250}`,
		`[$0.even == 1e21, $0.big < $0.other, $0.big >= $0.other, -1 > $0.small, $0.small < $0.big, 1e300 > $0.big, $0.small <= 0.5]`: `[true,true,false,true,true,true,true]`,
		`[1.0 / 0 > $0.big, -1.0 / 0 < $0.small, $0.huge > 1e308, ` +
			`$0.huge]`: `[true,true,true,1` + strings.Repeat("0", 400) + `]`,
		`type($0.big) + string($0.big)`: `"int717897987691852588770249"`, `toJSON([$0.big])`: `"[717897987691852588770249]"`,
		`fromJSON("[18446744073709551616]")[0]`: `18446744073709551616`,
		`bitshl(1, 62)`:                         `4611686018427387904`, `bitshl(-1, 63)`: `-9223372036854775808`, `bitshl(0, 64)`: `0`,
		`$0.small`:   `-717897987691852588770249`,
		`$0.max + 0`: `9223372036854775807`, `$0.max - 1`: `9223372036854775806`, `$0.min + $0.max`: `-1`, `-$0.max`: `-9223372036854775807`,
		`abs(-$0.max)`: `9223372036854775807`,
		`$0.min - -1`:  `-9223372036854775807`, `4611686018427387904 * -2`: `-9223372036854775808`, `0 - $0.max - 1`: `-9223372036854775808`,
		`$0.odd * 3`: `27021597764222979`, `$0.odd / 1`: `9007199254740993`, `$0.odd / -3`: `-3002399751580331`,
		`2 ** 62`: `4611686018427387904`, `(-2) ** 63`: `-9223372036854775808`,
		`2 ** -1`: `0.5`, `2 ** 0.5`: `1.4142135623730951`, `(-1) ** 1000001`: `-1`, `1 ** $0.max`: `1`, `0 ** 0`: `1`, `7 / 2`: `3.5`,
		`6 / 3`:   `2`,
		`sum([])`: `0`, `sum([1, 2.5])`: `3.5`, `sum($0.xs, # > 1 ? 2 : 3)`: `5`, `sum(1..4)`: `10`, `int("12")`: `12`, `int(3.9)`: `3`,
		`floor(2.5)`: `2`, `mean([1, 2])`: `1.5`,
		`$0.big`: `717897987691852588770249`, `[$0.big]`: `[717897987691852588770249]`, `map($0.ids, #)`: `[717897987691852588770249,1]`,
		`$0.big > 5`: `true`,
		`1e21 * 1`:   `1e+21`, `-$0.half`: `-0.5`, `1 - 0.5`: `0.5`, `"a" + "b"`: `"ab"`, `max($0.xs)`: `9223372036854775807`,
		`duration("1h") * 2 == duration("2h")`: `true`, `date("2024-01-02") - date("2024-01-01") == duration("24h")`: `true`,
	} {
		x, faults := CompileExpression(source, scope())
		var got []byte
		var err error
		if len(faults) > 0 {
			err = faults[0]
		} else {
			got, err = x.Eval(context.Background(), scopeOf(doc))
		}
		if want == fails {
			wantCode(t, err, fault.BadExpression)
		} else if err != nil || string(got) != want {
			t.Errorf("%s gives %s, %v; want %s", source, got, err, want)
		}
	}
}
