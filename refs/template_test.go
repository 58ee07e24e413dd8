package refs

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// document is the result of step 0 in the tests of templates.
const document = `{"name":"Ann \"A\"","total":2,"limit":null,"items":[{"id":"a","tags":["x","y"]},{"id":"b","tags":["z"]},{"tags":[]}],` +
	`"MA(5)":[1,2],"Digital Camera":"dc","a.b":{"x|y":1.10},"":{"":"empty"},"#":1,"@this":2,"*":3,"big":717897987691852588770249,` +
	`"variants":{"1151293680":{"item_id":"v"}},"0":"zero","esc":"\u00e9\/","obj":{"b":1, "a":2},"flag":true,"deep":[[1,2],3,[[4]]]}`

// compact is document as it is in a scope.
var compact = strings.ReplaceAll(document, ", ", ",")

// TestWhole: a string that is exactly one reference becomes the value, with its bytes.
func TestWhole(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`$0.variants.1151293680.item_id`: `"v"`,
		`$0.items.0.id`:                  `"a"`,
		`$0.0`:                           `"zero"`,
		`$0["0"]`:                        `"zero"`,
		`$0.Digital Camera`:              `"dc"`,
		`$0.MA(5)[1]`:                    `2`,
		`$0["a.b"]["x|y"]`:               `1.10`,
		`$0[""][""]`:                     `"empty"`,
		`$0["#"]`:                        `1`,
		`$0["@this"]`:                    `2`,
		`$0.@this`:                       `2`,
		`$0["*"]`:                        `3`,
		`$0.big`:                         `717897987691852588770249`,
		`$0.esc`:                         `"\u00e9\/"`,
		`$0.obj`:                         `{"b":1,"a":2}`,
		`$0.items[-1].tags`:              `[]`,
		`$0.items[-3].id`:                `"a"`,
		`$0.items[*].tags[**]`:           `["x","y","z"]`,
		`$0.items[*].tags`:               `[["x","y"],["z"],[]]`,
		`$0.items[*].tags[*]`:            `[["x","y"],["z"],[]]`,
		`$0.items[*]?.id`:                `["a","b",null]`,
		`$0.items[*].id ?? "none"`:       `"none"`,
		`$0.deep[**]`:                    `[1,2,3,[4]]`,
		`$0.deep[**][**]`:                `[1,2,3,4]`,
		`$0.none?.b`:                     `null`,
		`$0?.none.b`:                     `null`,
		`$0?.none[*].b`:                  `null`,
		`$0.none?[*].b`:                  `null`,
		`$0.limit?[*].b`:                 `null`,
		`$0.none?[**]`:                   `null`,
		`$0.limit?[**].x`:                `null`,
		`$0.none?.b[**]`:                 `null`,
		`$0.limit?.b`:                    `null`,
		`$0.items?[7].b`:                 `null`,
		`$0.items[7]?.b`:                 `null`,
		`$0.items?.length`:               `null`,
		`$0.obj?[0]`:                     `null`,
		`$0.limit ?? 10`:                 `10`,
		`$0.none ?? 10`:                  `10`,
		`$0.none.b[0] ?? {"a": 1}`:       `{"a":1}`,
		`$0.limit.b ?? []`:               `[]`,
		`$0.items[9].id ?? null`:         `null`,
		`$0.none?.b ?? 1.10`:             `1.10`,
		`$0.total ?? 10`:                 `2`,
		`$0.flag ?? false`:               `true`,
		`$0.items[*]?.id ?? 1`:           `["a","b",null]`,
		`$search`:                        `[1,[2]]`,
		`$1[1][0]`:                       `2`,
		`$prev`:                          `"text"`,
		`$input.limit`:                   `3`,
		`$item`:                          `{"id":"i1"}`,
		`$item.id`:                       `"i1"`,
		`$index`:                         `2`,
		`$result.done`:                   `true`,
	} {
		got, err := compileWhole(t, text).Resolve(context.Background(), []byte("kept"), scopeOf(compact, `[1,[2]]`, `"text"`))
		if err != nil || string(got) != "kept"+want {
			t.Errorf("%s gives %s, %v; want %s", text, got, err, want)
		}
	}
}

// TestMissing: well-formed references that find nothing, with what is there.
func TestMissing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, caret, available, nearest string }{
		{`$0.toString`, ".toString", "name", ""},
		{`$0.@pretty`, ".@pretty", "name", ""},
		{`$0.namee`, ".namee", "name", "name"},
		{`$0["variant"].x`, `["variant"]`, "name", "variants"},
		{`$0.items.length`, ".length", "", ""},
		{`$0.items["0"]`, `["0"]`, "", ""},
		{`$0.items[3]`, "[3]", "", ""},
		{`$0.items[-4]`, "[-4]", "", ""},
		{`$0.items.00`, ".00", "", ""},
		{`$0.items.99999999999999999999`, ".99999999999999999999", "", ""},
		{`$0.items[2].id`, ".id", "tags", ""},
		{`$0.items[*].id`, ".id", "tags", ""},
		{`$0.obj[0]`, "[0]", "b", ""},
		{`$0.limit.x`, ".x", "", ""},
		{`$0.limit[*]`, "[*]", "", ""},
		{`$0.name.x`, ".x", "", ""},
		{`$0.name?.x`, "?.x", "", ""},
		{`$0.total.x ?? 1`, ".x", "", ""},
		{`$0.flag[0]`, "[0]", "", ""},
		{`$0.obj[*]`, "[*]", "", ""},
		{`$0.obj?[*]`, "?[*]", "", ""},
		{`$0.name[**]`, "[**]", "", ""},
		{`$0.obj[**] ?? 1`, "[**]", "", ""},
		{`$0.items[*].tags[*].x`, ".x", "", ""},
		{`$0.none.x?.y`, ".none", "name", ""},
		{`$0.limit.x?.y`, ".x", "", ""},
		{`$0.name.x?.y`, ".x", "", ""},
		{`$0.obj["\ufffd"]`, `["`, "b", ""},
	} {
		tpl := compileWhole(t, test.text)
		dst, err := tpl.Resolve(context.Background(), []byte("kept"), scopeOf(compact))
		if err == nil {
			t.Errorf("%s gives %s, want an error", test.text, dst)
			continue
		}
		e := wantCode(t, err, fault.ReferenceMissing)
		if string(dst) != "kept" || e.At != "/args" || !strings.HasPrefix(e.Source[e.Offset:], test.caret) {
			t.Errorf("%s: at %s, caret at %q of %q, dst %s", test.text, e.At, e.Source[e.Offset:], e.Source, dst)
		}
		if test.available == "" != (len(e.Available) == 0) || test.available != "" && e.Available[0] != test.available {
			t.Errorf("%s: available %q", test.text, e.Available)
		}
		if test.nearest != "" && (len(e.Nearest) == 0 || e.Nearest[0] != test.nearest) {
			t.Errorf("%s: nearest %q, want %s", test.text, e.Nearest, test.nearest)
		}
	}
}

func TestStepWithoutResult(t *testing.T) {
	t.Parallel()
	s := &Scope{Steps: []StepResult{{Status: "failed"}}}
	for text, want := range map[string]string{`$0`: `null`, `$0.a.b`: `null`, `$0[*].x`: `null`, `$0.a ?? 5`: `5`, `$1.x`: `null`} {
		tpl := compileWhole(t, text)
		lenient := *s
		lenient.Lenient = true
		if got, err := tpl.Resolve(context.Background(), nil, &lenient); err != nil || string(got) != want {
			t.Errorf("%s gives %s, %v in return; want %s", text, got, err, want)
		}
		got, err := tpl.Resolve(context.Background(), nil, s)
		if strings.Contains(text, "??") {
			if err != nil || string(got) != want {
				t.Errorf("%s gives %s, %v; want %s", text, got, err, want)
			}
			continue
		}
		wantCode(t, err, fault.ReferenceMissing)
	}
}

// TestTemplateFaults: strings that are refused; the message tells how to write the text.
func TestTemplateFaults(t *testing.T) {
	t.Parallel()
	for text, code := range map[string]fault.Code{
		`$`: fault.BadReference, `$5`: fault.BadReference, `$foo`: fault.BadReference, `$HOME/bin`: fault.BadReference,
		`$100-$200`: fault.BadReference, `$3`: fault.BadReference, `$4.a`: fault.BadReference, `$self`: fault.BadReference,
		`$later.x`: fault.BadReference, `$0.items|0`: fault.BadReference, `$0.items.#`: fault.BadReference, `$0..a`: fault.BadReference,
		`$0[abc]`: fault.BadReference, `$0[01]`: fault.BadReference, `$0.`: fault.BadReference, `$0.a?`: fault.BadReference,
		`$01`: fault.BadReference, `$env.HOME`: fault.BadReference, `$0.name and more $`: fault.BadReference,
		`a ${0.name`: fault.BadReference, `a ${$0.name`: fault.BadReference, `${$}`: fault.BadReference, `${$HOME}`: fault.BadReference,
		`${00.x}`: fault.BadReference, `${9.x}`: fault.BadReference, `${0.a }`: fault.BadReference, `${0[x]}`: fault.BadReference,
		`${$0.a ?? }`: fault.BadReference, `${$0.a ?? 1`: fault.BadReference,
		`$state.x`: fault.NotSupported, `$secret.x`: fault.NotSupported, `a ${$secret.x}`: fault.NotSupported,
	} {
		value, _ := json.Marshal(map[string]any{"a/b": []string{text}})
		tpl, faults := CompileTemplate(value, scope())
		if len(faults) != 1 || faults[0].Code != code || string(tpl.Value()) != `{"a/b":[null]}` || tpl.Broken()[0] != faults[0].At {
			t.Errorf("%s: faults %v, want one of %s", text, faults, code)
			continue
		}
		if faults[0].At != "/args/a~1b/0" || faults[0].Source != text {
			t.Errorf("%s: at %s, source %q", text, faults[0].At, faults[0].Source)
		}
	}
}

func TestScopeOfNames(t *testing.T) {
	t.Parallel()
	first := CompileScope{Step: 0, Steps: 2}
	for _, text := range []string{`$prev`, `$item.x`, `$index`, `$result`, `$0`, `$1`, `$2`} {
		value, _ := json.Marshal(text)
		if _, faults := CompileTemplate(value, first); len(faults) != 1 || faults[0].Code != fault.BadReference {
			t.Errorf("%s at step 0: %v, want one fault", text, faults)
		}
	}
	returned := CompileScope{At: "/return", Step: 2, Steps: 2}
	value := []byte(`["$prev","$1","$0"]`)
	tpl, faults := CompileTemplate(value, returned)
	if len(faults) > 0 {
		t.Fatal(faults[0])
	}
	if got, err := tpl.Resolve(context.Background(), nil, scopeOf(`1`, `2`)); err != nil || string(got) != `[2,2,1]` {
		t.Errorf("return gives %s, %v", got, err)
	}
	p := scope()
	p.IDs = map[string]int{"symbols": 0}
	_, faults = CompileTemplate([]byte(`"$symbls.x"`), p)
	if len(faults) != 1 || !slices.Contains(faults[0].Nearest, "$symbols") {
		t.Errorf("faults are %v, want the nearest id", faults)
	}
}

func TestMaxBytes(t *testing.T) {
	t.Parallel()
	s := scopeOf(`[` + strings.Repeat(`"aaaaaaaaaa",`, 100) + `0]`)
	s.MaxBytes = 500
	for _, text := range []string{`$0`, `$0[*]`, `$0[**]`, `${$0}`, `${0[0]}` + strings.Repeat(`${0[0]}`, 60), `$0 ?? 1`} {
		dst, err := compileWhole(t, text).Resolve(context.Background(), []byte("kept"), s)
		wantCode(t, err, fault.LimitExceeded)
		if string(dst) != "kept" {
			t.Errorf("%.20s: dst is %s", text, dst)
		}
	}
	if got, err := compileWhole(t, `$0[-1]`).Resolve(context.Background(), nil, s); err != nil || string(got) != "0" {
		t.Errorf("gives %s, %v", got, err)
	}
}
