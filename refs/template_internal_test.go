package refs

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// TestTemplate: keys, white space, all faults at once, uses, and the value without references.
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
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	if want := `{"$0.name":null,"n":[1.10,{"deep":""},"$5"],"k\u00e9y":null,"plain":"a\/b$"}`; string(tpl.Value()) != want {
		t.Errorf("Value is %s, want %s", tpl.Value(), want)
	}
	var seen []string
	for _, u := range tpl.Uses() {
		seen = append(seen, u.At)
		if u.Root != RootStep || u.Step != 0 || u.Whole != (u.At != "/args/n/1/deep") || u.Lenient != (u.At == "/args/kéy") {
			t.Errorf("use %+v, want one of step 0, whole but for /args/n/1/deep, lenient only at /args/kéy", u)
		}
	}
	if !slices.Equal(seen, []string{"/args/$0.name", "/args/n/1/deep", "/args/kéy"}) || len(tpl.placeholders) == 0 {
		t.Errorf("uses at %q, %d placeholders; want /args/$0.name, /args/n/1/deep, /args/kéy, and at least 1", seen, len(tpl.placeholders))
	}
	_, faults = CompileTemplate([]byte(`{"a":"$9","b":["$x","see $0.name","${search.total}"],"c":"$$"}`), scope())
	var at []string
	for _, f := range faults {
		at = append(at, f.At)
	}
	if !slices.Equal(at, []string{"/args/a", "/args/b/0", "/args/b/1", "/args/b/2"}) {
		t.Errorf("faults %v, want one at each of /args/a, /args/b/0, /args/b/1 and /args/b/2", faults)
	}
	if _, faults := CompileTemplate([]byte(`{"a":`), scope()); len(faults) != 1 || faults[0].Code != fault.BadJSON {
		t.Errorf("faults %v, want one bad_json", faults)
	}
	for depth, ok := range map[int]bool{maxNesting: true, maxNesting + 1: false, 1 << 20: false} {
		deep := strings.Repeat("[", depth) + `"$0.total"` + strings.Repeat("]", depth)
		_, faults := CompileTemplate([]byte(deep), scope())
		if ok != (len(faults) == 0) || !ok && faults[0].Code != fault.BadJSON {
			t.Errorf("depth %d: %v, want success %t, else bad_json", depth, faults, ok)
		}
	}
}
