package chain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// marked is a text that only labeled places of results have.
const marked = "MARKED"

// flowWorld has a source with labeled places, and a sink that notes whether a labeled text has reached it.
type flowWorld struct {
	mu      sync.Mutex
	reached bool
}

func (w *flowWorld) functions() []steps.Function {
	gives, _ := steps.ParseGives([]byte(`{"$result.body":["outside"],"$result.items[*].v":["outside"]}`))
	takes, _ := steps.ParseTakes([]byte(`{"a":"guarded","b.c":"guarded"}`))
	note := func(_ context.Context, args []byte) ([]byte, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		got := gjson.ParseBytes(args)
		w.reached = w.reached || strings.Contains(got.Get("a").Raw+got.Get("b.c").Raw, marked)
		return []byte(`{"done":true}`), nil
	}
	return []steps.Function{
		{Spec: steps.Spec{Name: "source.get", Effect: steps.Read, Gives: gives}, Call: func(context.Context, []byte) ([]byte, error) {
			return []byte(`{"id":"i","body":"` + marked + `","items":[{"k":"x","v":"` + marked + `"},{"k":"y","v":"` + marked + `"}]}`), nil
		}},
		{Spec: steps.Spec{Name: "same.same", Effect: steps.Read, PassesArgs: true}, Call: func(_ context.Context, args []byte) ([]byte, error) {
			return append([]byte(nil), args...), nil
		}},
		{Spec: steps.Spec{Name: "sink.put", Takes: takes, Aliases: map[string]string{"alpha": "a"},
			Input: json.RawMessage(`{"type":"object","properties":{"a":{},"b":{},"free":{}}}`)}, Call: note},
		{Spec: steps.Spec{Name: "sink.undone", EffectDeclared: true}, Call: func(context.Context, []byte) ([]byte, error) { return []byte(`{"id":"u"}`), nil }},
	}
}

// chainMaker makes random chains. plain chains hold only references by fixed paths, of which the labels are known exactly.
type chainMaker struct {
	t     *rapid.T
	plain bool
}

// root is a name in scope, with paths of its value.
type root struct {
	name  string
	paths []string
}

func (m *chainMaker) pick(list ...string) string { return rapid.SampledFrom(list).Draw(m.t, "pick") }
func (m *chainMaker) chance(n int) bool          { return rapid.IntRange(0, n).Draw(m.t, "chance") == 0 }

var sourcePaths = []string{"", ".id", ".body", ".items", ".items[0]", ".items[1].v", ".items[*].k", ".items[*].v", ".items.1.v", `["body"]`}

// reference returns a reference to something in scope.
func (m *chainMaker) reference(scope []root) string {
	r := rapid.SampledFrom(scope).Draw(m.t, "root")
	if m.chance(20) {
		return r.name + m.pick(".items[**].v", ".no", "[0]", ".p.body")
	}
	return r.name + m.pick(r.paths...)
}

// value returns a JSON value that may refer to something, and paths of it.
func (m *chainMaker) value(scope []root) (value string, paths []string) {
	if len(scope) == 0 || m.chance(6) {
		return `"literal"`, []string{""}
	}
	ref := m.reference(scope)
	switch form := rapid.IntRange(0, 6).Draw(m.t, "form"); {
	case form == 0:
		return `{"p":` + quoted(ref) + `,"q":{"r":` + quoted(m.reference(scope)) + `}}`, []string{"", ".p", ".q", ".q.r"}
	case form == 1:
		return `[` + quoted(ref) + `,"x"]`, []string{"", "[0]", "[1]", "[-1]"}
	case form == 2 && !m.plain:
		return quoted("text ${" + ref + "}"), []string{""}
	case form == 3 && !m.plain:
		return quoted(ref + ` ?? "none"`), []string{""}
	}
	return quoted(ref), []string{""}
}

// expression returns an expression over something in scope.
func (m *chainMaker) expression(scope []root) string {
	name := rapid.SampledFrom(scope).Draw(m.t, "root").name
	return m.pick("["+name+"]", "{p: "+name+", q: 1}", "let v = "+name+"; v", name+" == null ? 1 : "+name, "map(["+name+"], #)",
		"toJSON("+name+")", "len(toJSON("+name+")) > 3", "["+name+`][len("")]`)
}

// elementPaths returns paths of the elements of an array of values.
func elementPaths(paths []string) (all []string) {
	for _, path := range paths {
		all = append(all, "[0]"+path, "[*]"+path)
	}
	return append(all, "")
}

// steps returns steps, of which each may refer to those before it and to outer names.
func (m *chainMaker) steps(n, depth int, scope []root) (text string, all []root) {
	list := make([]string, n)
	for i := range list {
		step, paths := m.step(depth, scope, i == 0 && depth == 0)
		list[i] = step
		scope = append(scope[:len(scope):len(scope)], root{fmt.Sprintf("$%d", i), paths})
	}
	return "[" + strings.Join(list, ",") + "]", scope
}

// step returns a step, and paths of its value. source: it calls the source.
func (m *chainMaker) step(depth int, scope []root, source bool) (step string, paths []string) {
	extra, inner := "", scope
	each := !source && m.chance(3)
	if each {
		extra += `,"forEach":` + quoted(rapid.SampledFrom([]string{"$0.items", "$0"}).Draw(m.t, "forEach"))
		inner = slices.Concat(scope, []root{{"$item", []string{"", ".v", ".k"}}})
	}
	selected := ""
	if !m.plain && !source && m.chance(4) {
		selected = `,"select":` + quoted(m.expression([]root{{"$result", nil}}))
	}
	if !m.plain && !source && m.chance(4) {
		extra += `,"orElse":{"body":"none"}`
	}
	kind := rapid.IntRange(0, 8).Draw(m.t, "kind")
	switch {
	case source || kind == 0:
		paths = sourcePaths
		if !source && m.chance(2) {
			selected, paths = `,"select":"$result.items"`, []string{"", "[0]", "[0].v", "[*].v", "[1].k"}
		}
		step = `{"source.get":{}`
	case kind == 1 && !m.plain:
		value, _ := m.value(inner)
		step, paths = `{"same.same":{"p":`+value+`}`, []string{"", ".p"}
	case kind <= 3 && !m.plain:
		step, paths = `{"expr":`+quoted(m.expression(inner)), []string{""}
	case kind <= 5 && depth < 2:
		p, _ := m.value(inner)
		body, _ := m.value(inner)
		list, names := m.steps(rapid.IntRange(1, 3).Draw(m.t, "inner"), depth+1, []root{{"$input", []string{"", ".p", ".body"}}})
		returned, returnedPaths := m.value(names)
		step, paths = `{"chain":{"steps":`+list+`,"return":`+returned+`},"args":{"p":`+p+`,"body":`+body+`}`, returnedPaths
	case kind == 6:
		value, _ := m.value(append(inner[:len(inner):len(inner)], root{"$result", []string{"", ".id"}}))
		step, paths = `{"sink.undone":{},"undo":{"sink.put":{"`+m.pick("a", "A", "alpha")+`":`+value+`}}`, []string{"", ".id"}
	default:
		argument := m.pick("a", "A", "alpha", "free", "b")
		value, _ := m.value(inner)
		if argument == "b" {
			value = `{"` + m.pick("c", "d") + `":` + value + `}`
		}
		step, paths = `{"sink.put":{"`+argument+`":`+value+`}`, []string{""}
	}
	if selected != "" && !strings.Contains(selected, "$result.items") {
		paths = []string{""}
	}
	if each {
		paths = elementPaths(paths)
	}
	return step + selected + extra + "}", paths
}

// TestNoLabeledValueReachesAGuardedArgument: whatever a chain says, a run that the rules let pass brings no labeled text to an argument that
// they guard. A chain of references by fixed paths that the rules refuse would have brought one there.
func TestNoLabeledValueReachesAGuardedArgument(t *testing.T) {
	t.Parallel()
	w := &flowWorld{}
	rules := []chain.FlowRule{{From: "outside", To: "guarded", Do: "deny"}}
	guarded := engineOf(t, w.functions(), chain.Options{Flows: rules}, false)
	open := engineOf(t, w.functions(), chain.Options{}, false)
	counts := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		m := &chainMaker{t: rt, plain: rapid.Bool().Draw(rt, "plain")}
		list, _ := m.steps(rapid.IntRange(2, 7).Draw(rt, "steps"), 0, nil)
		text := `{"onError":"continue","steps":` + list + `}`
		undoing := `{"onError":"undo","steps":` + strings.TrimSuffix(list, "]") + `,{"expr":"$0.no.such.member"}]}`
		for _, request := range []string{text, undoing} {
			w.reached = false
			unguarded := open.Run(t.Context(), []byte(request), nil)
			if codeOf(unguarded) == fault.Compile {
				counts["faulty"]++
				return
			}
			would := w.reached
			w.reached = false
			a := guarded.Run(t.Context(), []byte(request), nil)
			denied := len(a.Faults) > 0 && a.Faults[0].Code == fault.FlowDenied
			switch {
			case w.reached:
				rt.Fatalf("%s\nbrings a labeled text to a guarded argument: %s", request, a.JSON)
			case would && !denied:
				rt.Fatalf("%s\nwould bring a labeled text to a guarded argument, and is not denied: %s", request, a.JSON)
			case denied && !would && m.plain && unguarded.OK && !strings.Contains(request, `"undo"`):
				rt.Fatalf("%s\nis denied, and would bring no labeled text to a guarded argument: %s", request, a.JSON)
			}
			counts[fmt.Sprintf("denied %t, reaches %t, plain %t", denied, would, m.plain)]++
		}
	})
	for _, plain := range []bool{false, true} {
		for _, denied := range []bool{false, true} {
			if what := fmt.Sprintf("denied %t, reaches %t, plain %t", denied, denied, plain); counts[what] == 0 {
				t.Errorf("no chain is: %s, of %v", what, counts)
			}
		}
	}
}
