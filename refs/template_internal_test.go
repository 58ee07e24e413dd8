package refs

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// TestTexts: strings that are text, with or without interpolations.
func TestTexts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:                                      ``,
		`$$5`:                                   `$5`,
		`$$`:                                    `$`,
		`$$$`:                                   `$$`,
		`$$0.name`:                              `$0.name`,
		`$$HOME/bin`:                            `$HOME/bin`,
		`$${HOME}`:                              `${HOME}`,
		`price $5`:                              `price $5`,
		`s/(x)/$1/`:                             `s/(x)/$1/`,
		`US$0.50`:                               `US$0.50`,
		`a$$b`:                                  `a$$b`,
		`a $$$ b`:                               `a $$$ b`,
		`a $${b}`:                               `a $${b}`,
		`${HOME}/bin`:                           `${HOME}/bin`,
		`${HOME`:                                `${HOME`,
		`${`:                                    `${`,
		`echo ${1}`:                             `echo ${1}`,
		`${0}`:                                  `${0}`,
		`${1:-x}`:                               `${1:-x}`,
		`hi ${user.name}`:                       `hi ${user.name}`,
		`${$0.name}-${0.total}`:                 `Ann "A"-2`,
		`${$0.total}`:                           `2`,
		`$${0.name}`:                            `${0.name}`,
		`x $${0.name} y`:                        `x ${0.name} y`,
		`$$${0.total}`:                          `$2`,
		`x $$${0.total}`:                        `x $2`,
		`$$$${0.total}`:                         `$${0.total}`,
		`$$$$${0.total}`:                        `$$2`,
		`$${$0.name}`:                           `${$0.name}`,
		`$$5 and ${0.total}`:                    `$5 and 2`,
		`${0.obj}`:                              `{"b":1,"a":2}`,
		`${0.limit} ${0.flag}`:                  `null true`,
		`${0.big}`:                              `717897987691852588770249`,
		`${0.esc}`:                              `é/`,
		`${0["a.b"]["x|y"]}`:                    `1.10`,
		`${$0.items[*].tags[**]}`:               `["x","y","z"]`,
		`${$0.none ?? {"a":"}"}}!`:              `{"a":"}"}!`,
		`${0.none ?? "none" }.`:                 `none.`,
		`${0.limit ?? 10}`:                      `10`,
		`${$search[0]} ${$input.limit}`:         `1 3`,
		`${$item.id}/${$index}`:                 `i1/2`,
		"tab\t\"q\" ${0.total} \\ é \u2028 <&>": "tab\t\"q\" 2 \\ é \u2028 <&>",
		`{${0.total}}`:                          `{2}`,
		`${${0.total}`:                          `fault`,
		`$ {0.name}`:                            `fault`,
		`x $ {0.name}`:                          `x $ {0.name}`,
	} {
		value, _ := json.Marshal(text)
		tpl, faults := CompileTemplate(value, scope())
		if want == "fault" {
			if len(faults) != 1 || faults[0].Code != fault.BadReference {
				t.Errorf("%s: faults %v, want one", text, faults)
			}
			continue
		}
		if len(faults) > 0 {
			t.Errorf("%s: %v", text, faults[0])
			continue
		}
		out, err := tpl.Resolve(context.Background(), nil, scopeOf(compact, `[1]`))
		var got string
		if err != nil || json.Unmarshal(out, &got) != nil || got != want {
			t.Errorf("%s gives %s, %v; want %q", text, out, err, want)
		}
		if len(tpl.placeholders) == 0 && string(tpl.Value()) != string(out) {
			t.Errorf("%s: the constant's value is %s, it resolves to %s", text, tpl.Value(), out)
		}
	}
}

// TestTemplate: a value as a whole: keys, white space, all faults at once, uses, the value without references.
func TestTemplate(t *testing.T) {
	t.Parallel()
	source := ` { "$0.name" : "$0.name" , "n" : [ 1.10 , {"deep" : "x ${0.total}"} , "$$5" ] , "k\u00e9y":"$0.items[0]?.id", ` +
		`"plain":"a\/b$" } `
	tpl, faults := CompileTemplate([]byte(source), scope())
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	got, err := tpl.Resolve(context.Background(), nil, scopeOf(compact))
	want := `{"$0.name":"Ann \"A\"","n":[1.10,{"deep":"x 2"},"$5"],"k\u00e9y":"a","plain":"a\/b$"}`
	if err != nil || string(got) != want {
		t.Errorf("resolves to %s, %v; want %s", got, err, want)
	}
	if want := `{"$0.name":null,"n":[1.10,{"deep":""},"$5"],"k\u00e9y":null,"plain":"a\/b$"}`; string(tpl.Value()) != want {
		t.Errorf("the value is %s, want %s", tpl.Value(), want)
	}
	var seen []string
	for _, u := range tpl.Uses() {
		seen = append(seen, u.At)
		if u.Root != RootStep || u.Step != 0 || u.Whole != (u.At != "/args/n/1/deep") || u.Lenient != (u.At == "/args/kéy") {
			t.Errorf("use %+v", u)
		}
	}
	if !slices.Equal(seen, []string{"/args/$0.name", "/args/n/1/deep", "/args/kéy"}) || len(tpl.placeholders) == 0 {
		t.Errorf("uses at %q", seen)
	}
	_, faults = CompileTemplate([]byte(`{"a":"$9","b":["$x","see $0.name","${search.total}"],"c":"$$"}`), scope())
	var at []string
	for _, f := range faults {
		at = append(at, f.At)
	}
	if !slices.Equal(at, []string{"/args/a", "/args/b/0", "/args/b/1", "/args/b/2"}) {
		t.Errorf("faults %v", faults)
	}
	if _, faults := CompileTemplate([]byte(`{"a":`), scope()); len(faults) != 1 || faults[0].Code != fault.BadJSON {
		t.Errorf("faults %v", faults)
	}
	for depth, ok := range map[int]bool{maxNesting: true, maxNesting + 1: false, 1 << 20: false} {
		deep := strings.Repeat("[", depth) + `"$0.total"` + strings.Repeat("]", depth)
		_, faults := CompileTemplate([]byte(deep), scope())
		if ok != (len(faults) == 0) || !ok && faults[0].Code != fault.BadJSON {
			t.Errorf("depth %d: %v", depth, faults)
		}
	}
}
