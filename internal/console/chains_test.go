package console_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/console"
	"github.com/onecall-mcp/onecall/steps"
)

// saved returns a saved chain as a function.
func saved(t *testing.T, name, text string) steps.Function {
	t.Helper()
	fn, faults := chain.Saved(name, []byte(text), &chain.Options{})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return *fn
}

// echo is a function that answers its arguments, and acts as another that writes does.
func echo(name string, effect steps.Effect) steps.Function {
	return steps.Function{Spec: steps.Spec{Name: name, Effect: effect, EffectDeclared: true},
		Call: func(_ context.Context, args []byte) ([]byte, error) { return append([]byte(nil), args...), nil }}
}

func doer(id string, tier steps.Tier) *console.Viewer {
	return &console.Viewer{Caller: steps.Caller{ID: id, Rights: steps.Rights{Tier: tier}}, Acts: true}
}

// fill sends the form of a page to that page.
func (b *browser) fill(path string, form url.Values) (status int, page string) {
	b.t.Helper()
	_, page = b.get(path)
	return b.send(page, path, form)
}

// hidden returns the key of the forms of a page.
func hidden(t *testing.T, page string) string {
	t.Helper()
	for _, field := range inputs.FindAllStringSubmatch(page, -1) {
		if field[1] == "form" {
			return field[2]
		}
	}
	t.Fatalf("the page has no form: %s", page)
	return ""
}

const weekly = `{"description":"<b>The</b> report.","params":{
	"word":{"type":"string","description":"what to look for"},
	"count":{"type":"integer","minimum":1,"default":3},
	"deep":{"type":"boolean","default":false},
	"kind":{"enum":["a","b<i>"],"default":"a"},
	"list":{"type":"array","items":{"type":"string"},"default":[]}},
	"steps":[{"fn":"store.echo","args":{"word":"$input.word","count":"$input.count","deep":"$input.deep","kind":"$input.kind","list":"$input.list"}}]}`

// TestChains: a saved chain is run from the form of its params by those who may act, and what is wrong with a param is shown at its field.
func TestChains(t *testing.T) {
	t.Parallel()
	boss := doer("boss", steps.TierAdmin)
	boss.All = true
	s := newSite(t, map[string]*console.Viewer{"ann": doer("token:ann", steps.TierRead), "bob": reader("token:bob"), "boss": boss})
	s.add(t, "store", ready, echo("store.echo", steps.Read), echo("store.put", steps.Write))
	s.add(t, "chain", ready, saved(t, "weekly", weekly), saved(t, "change", `{"steps":[{"fn":"store.put"}]}`))
	ann, bob := s.browser(t, "ann"), s.browser(t, "bob")

	_, list := ann.get("chains")
	contains(t, list, "chains/chain.weekly", "&lt;b&gt;The&lt;/b&gt; report", "?chain=chain.weekly", "", "chain.change", "<b>The", "cannot be linked")
	_, list = s.browser(t, "boss").get("chains")
	contains(t, list, "chains/chain.weekly", "chains/chain.change", "is broken: &lt;b&gt;", "To see what has changed since, start <code>onecall console</code> again")
	if status, page := ann.get("chains/chain.change"); status != fault.UnknownFunction.HTTP() {
		t.Errorf("a chain that the viewer may not use: status %d: %s", status, page)
	}

	_, form := ann.get("chains/chain.weekly")
	contains(t, form, `name="param.word" value="" required`, "integer, default 3", `<option value="&#34;a&#34;">a</option>`, "b&lt;i&gt;", `<textarea id="param.list"`, "<button>Run", "", "b<i>")
	for field, wrong := range map[string]string{"count": "0", "deep": "perhaps", "list": `[1`, "kind": `"c"`, "word": ""} {
		given := url.Values{"param.word": {"x"}}
		given.Set("param."+field, wrong)
		_, page := ann.fill("chains/chain.weekly", given)
		at := strings.Index(page, `id="param.`+field+`"`)
		next := strings.Index(page[at:], "<label")
		if next < 0 {
			next = len(page) - at
		}
		if at < 0 || !strings.Contains(page[at:at+next], `role="alert"`) || strings.Count(page, `role="alert"`) != 1 {
			t.Errorf("%s = %q: there is not one fault, at the field: %s", field, wrong, page)
		}
	}
	_, page := ann.fill("chains/chain.weekly", url.Values{"param.word": {"$0 <u>"}, "param.count": {"12345678901234567890"},
		"param.deep": {"true"}, "param.list": {`["y"]`}})
	contains(t, page, "ok</span>", "&#34;word&#34;: &#34;$0 &lt;u&gt;&#34;", "12345678901234567890", "&#34;kind&#34;: &#34;a&#34;", "runs/run_", "", "<u>")
	rows, err := s.journal.List(t.Context(), &journal.Filter{Chains: []string{"chain.weekly"}})
	if err != nil || len(rows) != 1 || rows[0].Caller != "token:ann" || !strings.Contains(page, "runs/"+rows[0].ID) {
		t.Errorf("the journal has the runs %+v (%v), want one of ann that the page names: %s", rows, err, page)
	}

	_, form = ann.get("chains/chain.weekly")
	sent, err := ann.PostForm(s.URL+console.Path+"chains/chain.weekly", url.Values{"param.word": {"secret"}, "form": {hidden(t, form)}})
	if err != nil {
		t.Fatal(err)
	}
	_ = sent.Body.Close()
	answer := strings.TrimPrefix(sent.Request.URL.Path, console.Path)
	if status, page := ann.get(answer); status != http.StatusOK || !strings.Contains(page, "secret") {
		t.Errorf("the answer at %s: status %d: %s", answer, status, page)
	}
	if status, page := bob.get(answer); status != fault.TokenExpired.HTTP() || strings.Contains(page, "secret") {
		t.Errorf("the answer at %s for another caller: status %d: %s", answer, status, page)
	}

	_, form = bob.get("chains/chain.weekly")
	contains(t, form, "may look only", "", "<button>Run")
	if status, page := bob.fill("chains/chain.weekly", url.Values{"param.word": {"x"}}); status != fault.Denied.HTTP() {
		t.Errorf("a run by a viewer who may only look: status %d: %s", status, page)
	}
	if status, _ := ann.post("chains/chain.weekly", url.Values{"param.word": {"x"}}); status != fault.Denied.HTTP() {
		t.Errorf("a form without its key: status %d", status)
	}
	if rows, err := s.journal.List(t.Context(), &journal.Filter{}); err != nil || len(rows) != 2 {
		t.Errorf("after refused forms, the journal has %d runs (%v), want 2", len(rows), err)
	}
}

// TestPlayground: a text is checked with what the viewer may use, and run by those who may act.
func TestPlayground(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]*console.Viewer{"ann": doer("token:ann", steps.TierRead), "bob": reader("token:bob")})
	s.add(t, "store", ready, echo("store.echo", steps.Read), echo("store.put", steps.Write),
		returning("store.all", `["`+strings.Repeat(`<script>x</script>","`, 20_000)+`"]`))
	s.add(t, "chain", ready, saved(t, "weekly", weekly))
	ann, bob := s.browser(t, "ann"), s.browser(t, "bob")

	_, page := ann.get("playground?chain=chain.weekly")
	contains(t, page, "&#34;fn&#34;: &#34;store.echo&#34;", `value="run"`, "", "<b>The")
	for text, want := range map[string][]string{
		`{"steps":[{"fn":"store.ecko"}]}`:                         {"<strong>unknown_function</strong> line 1, column 17:", "                ^", "store.echo"},
		"steps:\n  - fn: store.echo\n    args: {word: $1.x}":      {"<strong>bad_reference</strong> line 3, column", "\n                 ^", "", "line 1"},
		"steps:\n  - {fn: store.echo":                             {"line 2", "", "is wrong</h2>"},
		`{"steps":[`:                                              {"<strong>bad_json</strong>"},
		`{"steps":[{"fn":"store.put"}]}`:                          {"unknown_function", "", "svg", "needs approval"},
		`{"steps":[{"fn":"store.echo","args":{"a":"<script>"}}]}`: {"nothing is wrong", "1 step: 1 read, 0 write", "<svg", "A run takes calls 1; time at most", "", "<script>"},
		weekly: {"nothing is wrong", "", "missing"},
		"   ":  {"verdict", "", "nothing is wrong", "fault"},
	} {
		_, page := bob.fill("playground", url.Values{"text": {text}})
		_, verdict, _ := strings.Cut(page, `<main`)
		contains(t, verdict, want...)
	}
	if rows, err := s.journal.List(t.Context(), &journal.Filter{}); err != nil || len(rows) != 0 {
		t.Errorf("checks were recorded as %d runs (%v)", len(rows), err)
	}

	run := func(b *browser, text string) (int, string) {
		return b.fill("playground", url.Values{"text": {text}, "do": {"run"}})
	}
	_, page = run(ann, `{"steps":[{"fn":"store.echo","args":{"a":1}}]}`)
	contains(t, page, "ok</span>", "&#34;a&#34;: 1", "runs/run_", "onecall save run_", "", "too many for one answer")
	_, page = run(ann, `{"steps":[{"fn":"store.put"}]}`)
	contains(t, page, "unknown_function", "", "runs/run_")
	_, page = run(ann, `{"steps":[{"expr":"fromJSON(\"x\")"}]}`)
	contains(t, page, "runs/run_", `role="alert"`, "", "null</pre>")
	_, page = run(ann, `{"steps":[{"expr":"nil"}]}`)
	contains(t, page, "ok</span>", "null</pre>")
	_, page = run(ann, `{"steps":[{"fn":"store.all"}]}`)
	contains(t, page, "too many for one answer", "All of it: <code>", "&#34;mode&#34;:&#34;full&#34;", "&lt;script&gt;x", "", "<script>x")
	if status, page := run(bob, `{"steps":[{"fn":"store.echo"}]}`); status != fault.Denied.HTTP() {
		t.Errorf("a run by a viewer who may only look: status %d: %s", status, page)
	}
}

// TestCheckDoesNothing: a check of a request that would undo or resume a run neither does it nor takes the run's lease, and one of another
// caller's run finds none.
func TestCheckDoesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]*console.Viewer{"ann": {Caller: steps.Caller{ID: "token:ann", Rights: steps.Rights{Tier: steps.TierAdmin}}},
		"bob": reader("token:bob")})
	undone := 0
	put, remove := echo("store.put", steps.Write), echo("store.remove", steps.Write)
	put.Undo = &steps.Undo{Function: "store.remove", Args: []byte(`{}`)}
	remove.Call = func(context.Context, []byte) ([]byte, error) { undone++; return []byte(`true`), nil }
	s.add(t, "store", ready, put, remove)
	a := s.engine.Run(t.Context(), []byte(`{"steps":[{"fn":"store.put"},{"expr":"fromJSON(\"x\")"}]}`), &chain.Caller{ID: "token:ann"})
	if a.OK || a.Run == "" {
		t.Fatal(string(a.JSON))
	}
	for _, request := range []string{`{"resume":"` + a.Run + `","undo":true}`, `{"resume":"` + a.Run + `"}`} {
		for _, viewer := range []string{"ann", "bob"} {
			status, page := s.browser(t, viewer).fill("playground", url.Values{"text": {request}})
			if status != http.StatusOK || undone > 0 || viewer == "bob" && !strings.Contains(page, "no such run") {
				t.Errorf("%s checks %s: status %d, %d undos: %s", viewer, request, status, undone, page)
			}
		}
	}
	if a := s.engine.Run(t.Context(), []byte(`{"resume":"`+a.Run+`","undo":true}`), &chain.Caller{ID: "token:ann"}); undone != 1 {
		t.Errorf("the undo after the checks: %d calls: %s", undone, a.JSON)
	}
}
