package refs

import (
	"slices"
	"testing"
)

func TestUsesOfExpressions(t *testing.T) {
	t.Parallel()
	for source, want := range map[string][]string{
		`$0.cuont > 0`:                   {"$0.cuont"},
		`$0["a b"][-1].c[$1.i]`:          {`$0["a b"][-1].c`, "$1.i"},
		`$0?.a.b`:                        {"$0?.a.b lenient"},
		`($0.a.b ?? 1) + ($0.c ?? $0.d)`: {"$0.a.b lenient", "$0.c lenient", "$0.d"},
		`$0?.a ?? 1`:                     {"$0?.a lenient"},
		`$result.file`:                   {"$result.file"},
		`status(0) == "ok" and len($input.x) > $index`:   {"$0 status", "$input.x", "$index"},
		`$0.a == "x" ? $0.b : $0.c`:                      {"$0.a", "$0.b", "$0.c"},
		`filter($0.items, .size > 10)`:                   {"$0.items", "$0.items[*].size"},
		`map(filter($0.items, .size > 10), .name.first)`: {"$0.items", "$0.items[*].size", "$0.items[*].name.first"},
		`map(take(sortBy($0.items, .size), 3), #.name)`:  {"$0.items", "$0.items[*].size", "$0.items[*].name"},
		`any($0.items, any(.tags, # == "x" and .n > 1))`: {"$0.items", "$0.items[*].tags", "$0.items[*].tags[*].n"},
		`map($0.items, filter($1.others, .id == 1))`:     {"$0.items", "$1.others", "$1.others[*].id"},
		`map($0.items, ({"a": .x ?? 1, "b": .y?.z}))`:    {"$0.items", "$0.items[*].x lenient", "$0.items[*].y?.z lenient"},
		`sum($0?.items, .price)`:                         {"$0?.items lenient", "$0?.items[*].price lenient"},
		`sortBy($0.items, .price, $1.order)`:             {"$0.items", "$1.order", "$0.items[*].price"},
		`groupBy($0.items, .kind)["a"][0].x`:             {"$0.items", "$0.items[*].kind"},
		`let list = $0.items; map(list, .name)`:          {"$0.items"},
		`map($0.items[1:], .name)`:                       {"$0.items"},
		`map($0.items, #index)`:                          {"$0.items"},
		`map($0.items, #[$1.key])`:                       {"$0.items", "$1.key"},
		`find($0.items, .id == 1).name`:                  {"$0.items", "$0.items[*].id"},
		`filter($0.items, .a)[0].b`:                      {"$0.items", "$0.items[*].a"},
		`map(map($0.items, .inner), .x)`:                 {"$0.items", "$0.items[*].inner"},
	} {
		x := compileExpression(t, source)
		var got []string
		for _, u := range x.Uses() {
			text := Reference{root: u.Root, step: u.Step}.String()
			for _, s := range u.Path {
				text = string(s.appendMember([]byte(text)))
			}
			if u.Lenient {
				text += " lenient"
			}
			if u.Status {
				text += " status"
			}
			if whole := source == `$result.file`; !u.Expression || u.Whole != whole || u.At != "/args" {
				t.Errorf("%s: a use is %+v", source, u)
			}
			got = append(got, text)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: uses %q, want %q", source, got, want)
		}
	}
}
