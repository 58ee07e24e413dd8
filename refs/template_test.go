package refs

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// document is the result of step 0 in the tests of templates.
const document = `{"name":"Ann \"A\"","total":2,"limit":null,"items":[{"id":"a","tags":["x","y"]},{"id":"b","tags":["z"]},{"tags":[]}],` +
	`"MA(5)":[1,2],"Digital Camera":"dc","a.b":{"x|y":1.10},"":{"":"empty"},"#":1,"@this":2,"*":3,"big":717897987691852588770249,` +
	`"variants":{"1151293680":{"item_id":"v"}},"0":"zero","esc":"\u00e9\/","obj":{"b":1, "a":2},"flag":true,"deep":[[1,2],3,[[4]]]}`

// compact is document in the form that a scope has.
var compact = strings.ReplaceAll(document, ", ", ",")

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
	lenient := scopeOf(orders)
	lenient.Lenient = true
	if got, err := compileExpression(t, `$1?.x`).Eval(context.Background(), lenient); err != nil || string(got) != "null" {
		t.Errorf("an expression in return gives %s, %v; want null", got, err)
	}
}

// TestUnprintableBytes: texts that a line of a transcript cannot hold.
func TestUnprintableBytes(t *testing.T) {
	t.Parallel()
	for text, offset := range map[string]int{"$0.a\xff": 1, "$0.a\x00": 4} {
		_, err := Parse(text)
		if e := wantCode(t, err, fault.BadReference); e.Source != text || e.Offset != offset {
			t.Errorf("%q: caret at %d of %q, want at %d of the text", text, e.Offset, e.Source, offset)
		}
	}
	_, faults := CompileExpression("1 + \xff", scope())
	if len(faults) == 0 || faults[0].Code != fault.BadExpression || faults[0].Offset != 0 {
		t.Errorf("expression that is not UTF-8: %v, want bad_expression at offset 0", faults)
	}
	got, err := compileWhole(t, "tab\t\"q\" ${0.total} \\ é \u2028 <&>").Resolve(context.Background(), nil, scopeOf(compact))
	var text string
	if err != nil || json.Unmarshal(got, &text) != nil || text != "tab\t\"q\" 2 \\ é \u2028 <&>" {
		t.Errorf("the template gives %s, %v; want its text with 2 for ${0.total}", got, err)
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
			t.Errorf("%.20s: dst is %s, want kept", text, dst)
		}
	}
	if got, err := compileWhole(t, `$0[-1]`).Resolve(context.Background(), nil, s); err != nil || string(got) != "0" {
		t.Errorf("$0[-1] gives %s, %v; want 0", got, err)
	}
}
