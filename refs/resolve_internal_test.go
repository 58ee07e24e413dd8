package refs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
)

// visit calls check with every node that a reference can reach, a reference to it in a random spelling, and an
// expression.
func visit(t *rapid.T, v node, reference, expression string, check func(v node, reference, expression string)) {
	check(v, reference, expression)
	for i, c := range v.children {
		if v.keys == nil {
			forms := []string{fmt.Sprintf("[%d]", i), fmt.Sprintf(".%d", i), fmt.Sprintf("[%d]", i-len(v.children)), fmt.Sprintf("?.[%d]", i)}
			visit(t, c, reference+rapid.SampledFrom(forms).Draw(t, "spelling"), fmt.Sprintf("%s[%d]", expression, i), check)
			continue
		}
		key := v.keys[i]
		if slices.Index(v.keys, key) < i {
			continue // the first of duplicate keys wins
		}
		forms := []string{string(Segment{Key: key, Kind: Quoted}.append(nil)),
			"?['" + strings.ReplaceAll(string(AppendEscaped(nil, key)), "'", `\'`) + "']"}
		if r, err := Parse("$0." + key); err == nil && len(r.segments) == 1 && r.segments[0].Kind == Name && r.fallback == "" {
			forms = append(forms, "."+key)
		}
		visit(t, c, reference+rapid.SampledFrom(forms).Draw(t, "spelling"), expression+"["+strconv.QuoteToASCII(key)+"]", check)
	}
}

// TestEveryNode: a reference to any node of a random document returns exactly the node's bytes, and so does an
// expression that is only the path.
func TestEveryNode(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		doc := genNode(t, 4)
		if !json.Valid([]byte(doc.raw)) {
			t.Fatalf("the model generated invalid JSON: %s", doc.raw)
		}
		s := scopeOf(doc.raw)
		visit(t, doc, "$0", "$0", func(v node, reference, expression string) {
			text, _ := json.Marshal(reference)
			tpl, faults := CompileTemplate(text, scope())
			if len(faults) > 0 {
				t.Fatalf("%s: %v", reference, faults[0])
			}
			got, err := tpl.Resolve(context.Background(), nil, s)
			if err != nil || string(got) != v.raw {
				t.Fatalf("%s in %s gives %s, %v; want %s", reference, doc.raw, got, err, v.raw)
			}
			x, faults := CompileExpression(expression, scope())
			if len(faults) > 0 {
				t.Fatalf("%s: %v", expression, faults[0])
			}
			if got, err := x.Eval(context.Background(), s); err != nil || string(got) != v.raw {
				t.Fatalf("%s in %s gives %s, %v; want %s", expression, doc.raw, got, err, v.raw)
			}
		})
	})
}

// TestMissingIsNeverFound: a key or index that does not exist is never found, whatever the document.
func TestMissingIsNeverFound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		doc := genNode(t, 3)
		key := decodeKey(rapid.SampledFrom(rawKeys).Draw(t, "missing"))
		s := scopeOf(doc.raw)
		visit(t, doc, "$0", "$0", func(v node, reference, _ string) {
			segment := Segment{Key: key, Kind: Quoted}
			if v.keys != nil && slices.Contains(v.keys, key) {
				segment = Segment{Kind: At}
			} else if v.keys == nil && rapid.Bool().Draw(t, "index") {
				segment = Segment{Kind: At, Index: rapid.SampledFrom([]int{len(v.children), -len(v.children) - 1, 1 << 40}).Draw(t, "far")}
			}
			text, _ := json.Marshal(reference + string(segment.append(nil)))
			tpl, faults := CompileTemplate(text, scope())
			if len(faults) > 0 {
				t.Fatalf("%s: %v", text, faults[0])
			}
			got, err := tpl.Resolve(context.Background(), nil, s)
			if err == nil && strings.Contains(reference, "?") && string(got) == "null" {
				return
			}
			if fault.CodeOf(err) != fault.ReferenceMissing {
				t.Fatalf("%s in %s gives %s, %v; want reference_missing", text, doc.raw, got, err)
			}
		})
	})
}

// TestManyKeys: the error for a huge object is small.
func TestManyKeys(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&b, `"key%d":%d,`, i, i)
	}
	_, err := compileWhole(t, `$0.kex77`).Resolve(context.Background(), nil, scopeOf(`{`+b.String()+`"last":1}`))
	e := wantCode(t, err, fault.ReferenceMissing)
	if len(e.Available) != maxAvailable || !slices.Contains(e.Nearest, "key77") {
		t.Errorf("%d available, nearest %q; want %d, and key77 in the nearest", len(e.Available), e.Nearest, maxAvailable)
	}
}
