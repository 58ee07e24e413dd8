package chain_test

import (
	"context"
	"encoding/json"
	"fmt"
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

func (m *chainMaker) pick(list ...string) string { return rapid.SampledFrom(list).Draw(m.t, "pick") }
func (m *chainMaker) flip(label string) bool     { return rapid.Bool().Draw(m.t, label) }

// paths are those of the results and values of these chains.
var flowPaths = []string{"", ".id", ".body", ".items", ".items[0]", ".items[1].v", ".items[*].k", ".items[*].v", ".p", ".q.r", ".p.body", ".q.r.body",
	".a", "[0]", "[*].v", "[*].k", "[0].body", ".items.1.v", `["body"]`}

// reference returns a reference to something in scope. roots are the names in scope.
func (m *chainMaker) reference(roots []string) string {
	return m.pick(roots...) + m.pick(flowPaths...)
}

// value returns a JSON value that may refer to something.
func (m *chainMaker) value(roots []string) string {
	if len(roots) == 0 {
		return `"literal"`
	}
	ref := m.reference(roots)
	quoted := func(text string) string {
		b, _ := json.Marshal(text)
		return string(b)
	}
	switch form := rapid.IntRange(0, 6).Draw(m.t, "form"); {
	case form == 0:
		return `"literal"`
	case form == 1:
		return `{"p":` + quoted(ref) + `,"q":{"r":` + quoted(m.reference(roots)) + `}}`
	case form == 2:
		return `[` + quoted(ref) + `,"x"]`
	case form == 3 && !m.plain:
		return quoted("text ${" + ref + "}")
	case form == 4 && !m.plain:
		return quoted(ref + ` ?? "none"`)
	}
	return quoted(ref)
}

// expression returns an expression over something in scope.
func (m *chainMaker) expression(roots []string) string {
	root := m.pick(roots...)
	return m.pick("["+root+"]", "{p: "+root+", q: 1}", "let v = "+root+"; v", root+" == null ? 1 : "+root, "map(["+root+"], #)",
		"toJSON("+root+")", root+"?.body ?? 2", "len(toJSON("+root+")) > 3", root+`["bo" + "dy"]`)
}

// steps returns n steps, each of which may refer to those before it and to roots.
func (m *chainMaker) steps(n, depth int, roots []string) string {
	list := make([]string, n)
	for i := range list {
		scope := append([]string(nil), roots...)
		for earlier := range i {
			scope = append(scope, fmt.Sprintf("$%d", earlier))
		}
		list[i] = m.step(depth, scope)
	}
	return "[" + strings.Join(list, ",") + "]"
}

func (m *chainMaker) step(depth int, scope []string) string {
	extra, inner := "", scope
	if len(scope) > 0 && m.flip("forEach") {
		text, _ := json.Marshal(m.reference(scope))
		extra += `,"forEach":` + string(text)
		inner = append(append([]string(nil), scope...), "$item")
	}
	if m.flip("select") {
		text, _ := json.Marshal("$result" + m.pick(flowPaths...))
		if !m.plain && m.flip("selects by an expression") {
			text, _ = json.Marshal(m.expression([]string{"$result"}))
		}
		extra += `,"select":` + string(text)
	}
	if !m.plain && m.flip("orElse") {
		extra += `,"orElse":{"body":"none"}`
	}
	switch rapid.IntRange(0, 7).Draw(m.t, "kind") {
	case 0, 1:
		return `{"source.get":{}` + extra + `}`
	case 2:
		return `{"same.same":{"p":` + m.value(inner) + `}` + extra + `}`
	case 3:
		if len(inner) > 0 && !m.plain {
			text, _ := json.Marshal(m.expression(inner))
			return `{"expr":` + string(text) + extra + `}`
		}
	case 4:
		if depth < 2 {
			return `{"chain":{"steps":` + m.steps(rapid.IntRange(1, 3).Draw(m.t, "inner"), depth+1, []string{"$input"}) + `,"return":` +
				m.value([]string{"$0", "$input"}) + `},"args":{"p":` + m.value(inner) + `,"body":` + m.value(inner) + `}` + extra + `}`
		}
	case 5:
		return `{"sink.undone":{}` + extra + `,"undo":{"sink.put":{"a":` + m.value(append(inner, "$result")) + `}}}`
	}
	argument := m.pick("a", "A", "alpha", "free", "b")
	value := m.value(inner)
	if argument == "b" {
		value = `{"` + m.pick("c", "d") + `":` + value + `}`
	}
	return `{"sink.put":{"` + argument + `":` + value + `}` + extra + `}`
}

// TestNoLabeledValueReachesAGuardedArgument: whatever a chain says, a run that the rules let pass brings no labeled text to an argument that
// they guard. In chains of references by fixed paths they also refuse nothing else: by another function, the same chain brings one there.
func TestNoLabeledValueReachesAGuardedArgument(t *testing.T) {
	t.Parallel()
	w := &flowWorld{}
	rules := []chain.FlowRule{{From: "outside", To: "guarded", Do: "deny"}}
	guarded := engineOf(t, w.functions(), chain.Options{Flows: rules, Journal: newJournal(t, nil)}, false)
	open := engineOf(t, w.functions(), chain.Options{Journal: newJournal(t, nil)}, false)
	denied, passed, reached := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		m := &chainMaker{t: rt, plain: rapid.Bool().Draw(rt, "plain")}
		n := rapid.IntRange(1, 6).Draw(rt, "steps")
		text := `{"onError":"continue","steps":` + m.steps(n, 0, nil) + `}`
		undoing := strings.Replace(text, `"onError":"continue"`, `"onError":"undo"`, 1)
		undoing = undoing[:len(undoing)-2] + `,{"expr":"$0.no.such.member.at.all"}]}`
		for _, request := range []string{text, undoing} {
			w.reached = false
			a := open.Run(t.Context(), []byte(request), nil)
			if codeOf(a) == fault.Compile {
				return // it has other faults
			}
			would := w.reached
			w.reached = false
			a = guarded.Run(t.Context(), []byte(request), nil)
			isDenied := len(a.Faults) > 0 && a.Faults[0].Code == fault.FlowDenied
			switch {
			case w.reached:
				rt.Fatalf("%s\nbrings a labeled text to a guarded argument: %s", request, a.JSON)
			case would && !isDenied:
				rt.Fatalf("%s\nwould bring a labeled text to a guarded argument, and is not denied: %s", request, a.JSON)
			case isDenied:
				denied++
			default:
				passed++
			}
			if would {
				reached++
			}
		}
	})
	if denied == 0 || passed == 0 || reached == 0 {
		t.Errorf("%d chains were denied, %d passed, %d would have brought a labeled text: want some of each", denied, passed, reached)
	}
}
