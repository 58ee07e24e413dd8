package refs

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
)

// node is a generated JSON value with its text: the model that references are compared with.
type node struct {
	raw      string
	keys     []string // the keys of an object, as encoding/json reads them
	children []node
}

// rawKeys are keys as written in documents; each is difficult for a path language.
var rawKeys = []string{`""`, `"a"`, `"b c"`, `" a "`, `"a.b"`, `"a..b"`, `"."`, `"*"`, `"a*"`, `"?"`, `"#"`, `"#.a"`, `"@this"`, `"@"`,
	`"|"`,
	`"a|b"`, `"!"`, `"!a"`, `"{a}"`, `"["`, `"[0]"`, `"]"`, `"(a)"`, `"=="`, `"<a>"`, `"%"`, `"~"`, `"\\"`, `"a\\.b"`, `"\""`, `"'"`,
	`"\n"`, `"\u0000"`,
	`"\u00e9"`, `"é"`, `"e\u0301"`, `"日本"`, `"\ud83d\ude00"`, `"😀"`, `"\ud800"`, `"\ud800\u0041"`, `"\ufffd"`, `"\/"`, `"/"`, `"~0"`,
	`"0"`, `"1"`, `"-1"`, `"01"`, `"00"`, `"115129368099999999999"`,
	`"length"`, `"toString"`, `"__proto__"`, `"$0"`, `"${0.a}"`, `"\u0061"`, `":"`, `","`, `"\u2028"`, `"<"`, `"&"`}

var scalars = []string{`null`, `true`, `false`, `0`, `-0`, `1.10`, `717897987691852588770249`, `1e999`, `1E+2`, `""`, `"a"`,
	`"\u00e9\/\"]}"`, `"{[\"a\":1,"`, `[]`, `{}`}

func genNode(t *rapid.T, depth int) node {
	kind := rapid.IntRange(0, 9).Draw(t, "kind")
	switch {
	case kind < 3 || depth == 0:
		return node{raw: rapid.SampledFrom(scalars).Draw(t, "scalar")}
	case kind == 3: // longer than the first windows
		return node{raw: `"` + strings.Repeat(`x\"]}`, rapid.SampledFrom([]int{200, 300, 3000}).Draw(t, "length")) + `"`}
	}
	n := rapid.IntRange(0, 6).Draw(t, "n")
	var segments []string
	var v node
	for range n {
		c := genNode(t, depth-1)
		v.children = append(v.children, c)
		if kind < 7 {
			segments = append(segments, c.raw)
			continue
		}
		key := rapid.SampledFrom(rawKeys).Draw(t, "key")
		v.keys = append(v.keys, decodeKey(key))
		segments = append(segments, key+":"+c.raw)
	}
	if kind < 7 {
		v.raw = "[" + strings.Join(segments, ",") + "]"
	} else {
		v.raw = "{" + strings.Join(segments, ",") + "}"
		if n == 0 {
			v.keys = []string{}
		}
	}
	return v
}

func decodeKey(raw string) string {
	var key string
	if err := json.Unmarshal([]byte(raw), &key); err != nil {
		panic(err)
	}
	return key
}

// TestMaps compares [*] and [**] with the model.
func TestMaps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		doc := genNode(t, 4)
		items, flattened := []string{}, []string{}
		for _, c := range doc.children {
			items = append(items, c.raw)
			if strings.HasPrefix(c.raw, "[") {
				for _, g := range c.children {
					flattened = append(flattened, g.raw)
				}
			} else {
				flattened = append(flattened, c.raw)
			}
		}
		for text, want := range map[string][]string{"$0[*]": items, "$0[**]": flattened, "$0[*][**]": flattened, "$0[*][*][**]": nil} {
			value, _ := json.Marshal(text)
			tpl, faults := CompileTemplate(value, scope())
			if len(faults) > 0 {
				t.Fatal(faults[0])
			}
			got, err := tpl.Resolve(context.Background(), nil, scopeOf(doc.raw))
			switch {
			case err != nil:
				if doc.raw[0] == '[' && want != nil {
					t.Fatalf("%s in %s: %v", text, doc.raw, err)
				}
				if fault.CodeOf(err) != fault.ReferenceMissing {
					t.Fatalf("%s in %s: %v, want reference_missing", text, doc.raw, err)
				}
			case doc.raw[0] != '[':
				t.Fatalf("%s in %s gives %s, want reference_missing", text, doc.raw, got)
			case !json.Valid(got) || want != nil && string(got) != "["+strings.Join(want, ",")+"]":
				t.Fatalf("%s in %s gives %s, want %s", text, doc.raw, got, want)
			}
		}
	})
}

func TestDuplicateKeys(t *testing.T) {
	t.Parallel()
	doc := `{"a":{"x":1},"a":{"x":2,"b":3},"c":[{"d":4,"d":5}],"e":6,"e":{"f":7}}`
	for text, want := range map[string]string{`$0.a.x`: `1`, `$0.c[0].d`: `4`, `$0.e`: `6`, `$0.a.b ?? "none"`: `"none"`} {
		if got, err := compileWhole(t, text).Resolve(context.Background(), nil, scopeOf(doc)); err != nil || string(got) != want {
			t.Errorf("%s gives %s, %v; want %s", text, got, err, want)
		}
	}
	_, err := compileWhole(t, `$0.e.f`).Resolve(context.Background(), nil, scopeOf(doc))
	wantCode(t, err, fault.ReferenceMissing)
	for source, want := range map[string]string{`let c = $0.c; c[0].d`: `4`, `keys($0)`: `["a","c","e"]`, `$0.a.b`: `null`} {
		if got, err := compileExpression(t, source).Eval(context.Background(), scopeOf(doc)); err != nil || string(got) != want {
			t.Errorf("%s gives %s, %v; want %s", source, got, err, want)
		}
	}
}

// block has one block, whose handle is H; G is a handle without bytes.
type block struct{}

func (block) Refer(text string) (mark string, gone bool) {
	return map[string]string{"H": "bytes"}[text], text == "G"
}

// TestBytesOfBlock: a reference that ends at the data of a block gives its bytes in a template, and the handle everywhere else.
func TestBytesOfBlock(t *testing.T) {
	t.Parallel()
	s := scopeOf(`[{"data":"H","x":"H"},{"data":{"data":"H"}},{"data":7},{"data":"text"}]`)
	s.Blocks = block{}
	for text, want := range map[string]string{
		`$0[0].data`: `"bytes"`, `$0[0]["data"] ?? 1`: `"bytes"`, `$0[1].data.data`: `"bytes"`, `a ${0[0].data}`: `"a bytes"`,
		`$0[0]`: `{"data":"H","x":"H"}`, `$0[0].x`: `"H"`, `$0[1].data`: `{"data":"H"}`, `$0[2].data`: `7`, `$0[3].data`: `"text"`,
		`$0[*].data`: `["bytes",{"data":"H"},7,"text"]`, `$0[**].data`: `["bytes",{"data":"H"},7,"text"]`,
	} {
		if got, err := compileWhole(t, text).Resolve(context.Background(), nil, s); err != nil || string(got) != want {
			t.Errorf("%s gives %s, %v, want %s", text, got, err, want)
		}
		selected, faults := CompileSelector(text, CompileScope{Step: 1, Steps: 1})
		if len(faults) > 0 {
			continue // a text with an interpolation
		}
		want = strings.ReplaceAll(want, "bytes", "H")
		if got, err := selected.Resolve(context.Background(), s); err != nil || string(got) != want {
			t.Errorf("%s selects %s, %v, want %s", text, got, err, want)
		}
	}
	s = scopeOf(`{"data":"G"}`)
	s.Blocks = block{}
	for _, text := range []string{`$0.data`, `$0.data ?? 1`} {
		_, err := compileWhole(t, text).Resolve(context.Background(), nil, s)
		if e := wantCode(t, err, fault.TokenExpired); !strings.Contains(e.Message, "$0.data") {
			t.Errorf("%s: %s, want the reference", text, e.Message)
		}
	}
}

// TestInputText: a template passes on what stands for the bytes of a block in the input; selectors and expressions see the bytes, or why
// there is no memory for them.
func TestInputText(t *testing.T) {
	t.Parallel()
	s := &Scope{Input: []byte(`{"p":"mark","l":["mark"]}`), Blocks: block{}}
	s.InputText = func() ([]byte, *fault.Error) { return []byte(`{"p":"Ynl0ZXM=","l":["Ynl0ZXM="]}`), nil }
	for text, want := range map[string]string{`$input.p`: `"mark"`, `$input`: `{"p":"mark","l":["mark"]}`, `$input.l[*]`: `["mark"]`} {
		if got, err := compileWhole(t, text).Resolve(context.Background(), nil, s); err != nil || string(got) != want {
			t.Errorf("%s gives %s, %v, want %s", text, got, err, want)
		}
		want = strings.ReplaceAll(want, "mark", "Ynl0ZXM=")
		selected, faults := CompileSelector(text, CompileScope{})
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		if got, err := selected.Resolve(context.Background(), s); err != nil || string(got) != want {
			t.Errorf("%s selects %s, %v, want %s", text, got, err, want)
		}
	}
	s.Blocks = nil
	if got, err := compileWhole(t, `$input.p`).Resolve(context.Background(), nil, s); err != nil || string(got) != `"mark"` {
		t.Errorf("without blocks, a template gives %s, %v", got, err)
	}
	length := compileExpression(t, `len($input.p)`)
	if got, err := length.Eval(context.Background(), s); err != nil || string(got) != "8" {
		t.Errorf("the text has the length %s, %v, want 8", got, err)
	}
	s.InputText = func() ([]byte, *fault.Error) { return nil, fault.New(fault.LimitExceeded, "it is too long") }
	_, err := length.Eval(context.Background(), s)
	wantCode(t, err, fault.LimitExceeded)
}

// TestLossyKey: the walk does not look beyond the object.
func TestLossyKey(t *testing.T) {
	t.Parallel()
	_, err := compileWhole(t, `$0.a["\ufffd"]`).Resolve(context.Background(), nil, scopeOf(`{"a":{"x":1},"\ufffd":2}`))
	wantCode(t, err, fault.ReferenceMissing)
}
