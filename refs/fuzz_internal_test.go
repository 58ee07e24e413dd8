package refs

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// FuzzReference: a text that parses has a canonical spelling that parses to the same reference. Any other is
// bad_reference, with the caret inside the text.
func FuzzReference(f *testing.F) {
	for _, text := range []string{`$0`, `$0.a b?.c["x\u00e9"]['it\'s'][-1][*][**] ?? {"a": 1.10}`, `$input.x`, `$prev?.[0]`, `$search`,
		`$01`, `$0..a`, `$0[x]`,
		`$0 ?? `, "$0[\"\n\"]", `$0["\ud800"]`, `$env`, `$`, `$0.a??1`, `$0.`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(text)
		if err != nil {
			e := wantCode(t, err, fault.BadReference)
			if e.Offset < 0 || e.Offset > len(e.Source) {
				t.Fatalf("the caret is at %d, outside of %q", e.Offset, e.Source)
			}
			return
		}
		again, err := Parse(r.String())
		if len(r.String()) > maxReferenceBytes && err != nil {
			return // the canonical spelling may be longer
		}
		if err != nil || !reflect.DeepEqual(again, r) || again.String() != r.String() {
			t.Fatalf("the spelling %q of %q parses as %+v, %v; want %+v", r.String(), text, again, err, r)
		}
	})
}

// FuzzTemplate: a template never panics, its value and what it resolves to are JSON, its errors are coded.
func FuzzTemplate(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"a":"$0.a","b":["x ${0.b} $$${$0.c ?? {}}"]}`, `{"a":1.10,"b":"\"q\"","c":null}`},
		{`"$0[*].a[**]"`, `[{"a":[1,[2]]},{"a":[]}]`},
		{`"${$0}"`, `{"a":["\u0000"]}`},
		{`"$0?.a[-1]?.b"`, `{"a":[]}`},
		{`["$$0","$search.x","see $0.a","$9"]`, `[]`},
		{`["a $$0.a $$$item ${index} $${item} ${$0} $${$0.b}","$0.a and $1"]`, `{"a":1}`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, value, result string) {
		tpl, faults := CompileTemplate([]byte(value), scope())
		for _, e := range faults {
			if e.Code != fault.BadReference && e.Code != fault.NotSupported && e.Code != fault.BadJSON || e.Offset > len(e.Source) {
				t.Fatalf("%s: fault %+v, want bad_reference, not_supported or bad_json, and its offset in the source", value, e)
			}
		}
		if tpl == nil {
			if len(faults) == 0 {
				t.Fatalf("%s: got neither a template nor a fault", value)
			}
			return
		}
		if !json.Valid(tpl.Value()) {
			t.Fatalf("%s: Value is not JSON: %s", value, tpl.Value())
		}
		doc, ok := compacted(result)
		if !ok {
			return
		}
		got, err := tpl.Resolve(context.Background(), nil, scopeOf(doc, doc, doc))
		switch {
		case len(faults) > 0:
			wantCode(t, err, fault.Internal)
			return
		case err != nil:
			wantCode(t, err, fault.ReferenceMissing)
			return
		}
		if !json.Valid(got) {
			t.Fatalf("%s over %s gives %s, which is not JSON", value, doc, got)
		}
		if len(tpl.placeholders) == 0 && string(got) != string(tpl.Value()) {
			t.Fatalf("%s gives %s, want its value %s", value, got, tpl.Value())
		}
	})
}

// compacted returns a result in the form that a scope has.
func compacted(result string) (string, bool) {
	var v json.RawMessage
	if json.Unmarshal([]byte(result), &v) != nil {
		return "", false
	}
	t, faults := CompileTemplate(v, CompileScope{})
	if len(faults) > 0 || len(t.placeholders) > 0 {
		return "", false
	}
	return string(t.Value()), true
}
