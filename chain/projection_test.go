package chain_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/steps"
)

// TestProjectionChangesNoAnswer checks that random chains have the same result whether or not calls ask only for what is read.
func TestProjectionChangesNoAnswer(t *testing.T) {
	t.Parallel()
	whole := engineOf(t, listingFields(), chain.Options{Lite: true, WholeResults: true}, false)
	var w world
	parts := engineOf(t, w.recorded(listingFields()), chain.Options{Lite: true}, false)
	member := rapid.SampledFrom([]string{"id", "name", "left", "tags", "tags[0]"})
	control := rapid.SampledFrom([]string{"", "", "", `,"select":"$result.name"`, `,"when":"$0?.id != 8"`, `,"forEach":"1..2"`,
		`,"repeat":{"until":"$result?.id != 8","max":2}`, `,"repeat":{"until":"true","max":1,"collect":"$result?.tags"}`,
		`,"forEach":"1..2","select":"$result?.left"`, `,"forEach":"$0?.tags ?? [1]"`})
	rapid.Check(t, func(t *rapid.T) {
		reference := func(steps int) string {
			return fmt.Sprintf("$%d%s", rapid.IntRange(0, steps-1).Draw(t, "step"),
				rapid.SampledFrom([]string{"", "?.", "?[0]?.", "?[*]?.", "?[0]?[0]?."}).Draw(t, "form"))
		}
		value := func(steps int) string {
			text := reference(steps)
			if strings.HasSuffix(text, ".") {
				text += member.Draw(t, "member")
			}
			return text
		}
		var list []string
		for i := range rapid.IntRange(1, 4).Draw(t, "steps") {
			sku := "0"
			if i > 0 {
				sku = `"` + value(i) + ` ?? 1"`
			}
			extra := control.Draw(t, "control")
			if i == 0 && strings.Contains(extra, "$0") {
				extra = ""
			}
			fn := rapid.SampledFrom([]string{"api.get", "api.list", "api.open"}).Draw(t, "fn")
			list = append(list, fmt.Sprintf(`{"fn":%q,"args":{"sku":%s}%s}`, fn, sku, extra))
		}
		text := fmt.Sprintf(`{"steps":[%s],"return":["%s ?? 0","%s ?? 0"]}`, strings.Join(list, ","), value(len(list)), value(len(list)))
		want, got := whole.Run(t.Context(), []byte(text), nil), parts.Run(t.Context(), []byte(text), nil)
		if want.OK != got.OK || want.OK && string(want.JSON) != string(got.JSON) || codeOf(want) != codeOf(got) {
			t.Fatalf("%s\ngot  %s\nwant %s", text, got.JSON, want.JSON)
		}
	})
	if !slices.ContainsFunc(w.seen(), func(call string) bool { return strings.Contains(call, `"fields"`) }) {
		t.Error("no call asked for fields")
	}
}

// TestProjectionIsStable: what was seen of results since, and how the answer is shown, do not change what a run asks for. A resume, and a
// request with its key, take what was read.
func TestProjectionIsStable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		seen  string // the schema of results
		trace string
	}{
		"results were seen": {`{"type":"object","properties":{"id":{},"name":{}}}`, "none"},
		"results are shown": {"", "full"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w world
			var seen atomic.Pointer[steps.ResultShape]
			registry := newRegistry(t, w.recorded(listingFields())).Learn(
				func(_ *steps.Spec, next steps.Call) (steps.Call, func() *steps.ResultShape) { return next, seen.Load })
			e := engineOn(t, registry, chain.Options{Lite: true, Journal: newJournal(t, nil)}, false)
			failed := e.Run(t.Context(), []byte(`{"key":"k","steps":[{"api.open":{}},{"api.open":{"sku":"$0.id","fields":"none"}}],`+
				`"return":"$0.name"}`), nil)
			if failed.OK || len(w.seen()) != 2 {
				t.Fatalf("%s after %v", failed.JSON, w.seen())
			}
			if test.seen != "" {
				seen.Store(&steps.ResultShape{Schema: []byte(test.seen)})
			}
			resume := `"resume":` + gjson.GetBytes(failed.JSON, "resume").Raw + `,"replace":{"1":{"expr":"$0.id"}}`
			for _, what := range []string{resume, `"key":"k"`} {
				a := e.Run(t.Context(), []byte(`{`+what+`,"trace":"`+test.trace+`"}`), nil)
				if !a.OK || len(w.seen()) != 2 {
					t.Errorf("%s: %s after %v", what, a.JSON, w.seen())
				}
			}
		})
	}
}

// TestProjectionOfResume checks that a resume that refers to the same members takes what was read, and one that refers to more reads again.
func TestProjectionOfResume(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		resume string
		calls  string
		result string
	}{
		"the same": {`"replace":{"1":{"fn":"api.open","args":{"sku":"$0.id"}}}`, `api.open {"sku":7,"fields":"name"}`, `["lamp","lamp"]`},
		"more": {`"replace":{"1":{"fn":"api.open","args":{"sku":"$0.id"}}},"return":["$0.left","$1.name"]`,
			`api.get {"fields":"id,left"}|api.open {"sku":7,"fields":"name"}`, `[3.50,"lamp"]`},
		"all of it": {`"replace":{"1":{"fn":"api.open","args":{"sku":"$0.id"}}},"return":["$0","$1.name"]`,
			`api.get {}|api.open {"sku":7,"fields":"name"}`, `[{"id":7,"name":"lamp","left":3.50,"tags":["a"]},"lamp"]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w world
			e := engineOf(t, w.recorded(listingFields()), chain.Options{Lite: true, Journal: newJournal(t, nil)}, false)
			failed := e.Run(t.Context(), []byte(`{"steps":[{"api.get":{}},{"api.open":{"sku":"$0.id","fields":"none"}}],`+
				`"return":["$0.name","$1.name"]}`), nil)
			before := w.seen()
			if failed.OK || len(before) != 2 || before[0] != `api.get {"fields":"id,name"}` {
				t.Fatalf("%s after %v", failed.JSON, before)
			}
			resume := gjson.GetBytes(failed.JSON, "resume").Raw
			answer := e.Run(t.Context(), []byte(`{"resume":`+resume+`,`+test.resume+`}`), nil)
			if calls := strings.Join(w.seen()[2:], "|"); calls != test.calls || string(answer.JSON) != test.result {
				t.Errorf("got %s by %s, want %s by %s", answer.JSON, calls, test.result, test.calls)
			}
		})
	}
}
