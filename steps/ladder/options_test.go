package ladder

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		o    Options
		want []string
	}{
		"off":            {Options{}, nil},
		"off and whole":  {Options{Subject: "x", Rungs: code}, nil},
		"off and broken": {Options{Rungs: []string{"a"}}, []string{"/subject", "/rungs"}},
		"on":             {Options{Mode: Warn, Subject: "x", Rungs: code}, nil},
		"nothing":        {Options{Mode: Warn}, []string{"/subject", "/rungs"}},
		"one rung":       {Options{Mode: Enforce, Subject: "x", Rungs: []string{"a.b"}}, []string{"/rungs"}},
		"twice":          {Options{Mode: Enforce, Subject: "x", Rungs: []string{"a.b", "c", "A_b", ""}}, []string{"/rungs/2", "/rungs/3"}},
		"too many":       {Options{Mode: Enforce, Subject: "x", Rungs: strings.Fields(numbers(101))}, []string{"/rungs"}},
		"no letter":      {Options{Mode: Enforce, Subject: "_", Rungs: code}, []string{"/subject"}},
		"off, no letter": {Options{Subject: "-_-"}, []string{"/subject"}},
		"negative":       {Options{Mode: Enforce, Subject: "x", Rungs: code, MaxSubjects: -1}, []string{"/maxSubjects"}},
	} {
		l, faults := New(&test.o)
		var got []string
		for _, f := range faults {
			if f.Code != fault.BadRequest || f.Message == "" {
				t.Errorf("%s: fault %v, want bad_request with a message", name, f)
			}
			got = append(got, f.At)
		}
		if !slices.Equal(got, test.want) || (l != nil) != (test.want == nil && test.o.Mode != Off) {
			t.Errorf("%s: ladder %v, faults %q, want %q", name, l != nil, got, test.want)
		}
	}
	for _, mode := range []Mode{Off, Warn, Enforce} {
		if got, err := ParseMode(mode.String()); got != mode || err != nil {
			t.Errorf("ParseMode(%s) = %v, %v; want %v", mode, got, err, mode)
		}
	}
	if _, err := ParseMode("enfroce"); fault.CodeOf(err) != fault.BadRequest {
		t.Errorf("ParseMode(enfroce): %v, want bad_request", err)
	}
}

func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "f.n%d ", i)
	}
	return b.String()
}

func TestUnresolved(t *testing.T) {
	t.Parallel()
	r := (&backend{}).registry(t)
	for _, mode := range []Mode{Warn, Enforce} {
		l := newLadder(t, Options{Mode: mode, Subject: "symbol-id",
			Rungs: []string{"SymbolSearch", "symbol.getCrad", "code_skeleton", "free", "other.free"}})
		unresolved := l.Unresolved(r)
		if len(unresolved) != 2 || unresolved[0].At != "/rungs/1" || unresolved[0].Nearest[0] != "symbol.getCard" || unresolved[1].At != "/rungs/4" {
			t.Errorf("mode %v: got unresolved rungs %v, want /rungs/1 with symbol.getCard as nearest, and /rungs/4", mode, unresolved)
		}
	}
	unresolved := newLadder(t, Options{Mode: Warn, Subject: "symbol"}).Unjudged(r)
	if len(unresolved) != 4 || unresolved[0].At != "/rungs/1" || !slices.Equal(unresolved[0].Nearest, []string{"symbolId"}) {
		t.Errorf("got faults %v, want 4", unresolved)
	}
	several, err := r.With(steps.Function{Spec: steps.Spec{Name: "more.search"},
		Call: func(context.Context, []byte) ([]byte, error) { return nil, nil }})
	if err != nil {
		t.Fatal(err)
	}
	unresolved = newLadder(t, Options{Mode: Enforce, Rungs: append([]string{"search"}, code[1:]...)}).Unresolved(several)
	if len(unresolved) != 1 || unresolved[0].At != "/rungs/0" || !slices.Contains(unresolved[0].Nearest, "more.search") ||
		!strings.Contains(unresolved[0].Message, "symbol.search") {
		t.Errorf("got faults %v, want one of symbol.search", unresolved)
	}
}

// TestSpellings: a rung is the function that a chain would call by this name.
func TestSpellings(t *testing.T) {
	t.Parallel()
	l := newLadder(t, Options{Mode: Enforce, Rungs: []string{"SEARCH", "get_card", "CODE-SKELETON", "code/hotPath", "needWindow"}})
	r := l.Wrap((&backend{}).registry(t))
	for i, name := range code {
		if entry, err := r.Resolve(name); err != nil || entry.Rung() != i {
			t.Errorf("%s is not on rung %d", name, i)
		}
	}
	if f := call(session(t), t, r, code[3], `{"symbolId":"a"}`); f == nil || f.Code != fault.Denied ||
		!strings.Contains(f.Message, "call symbol.getCard first") {
		t.Errorf("got %v, want denied with the advice symbol.getCard", f)
	}
}

// TestMissingRung: in Enforce mode, a rung that names no function does not make the functions above it free to call.
func TestMissingRung(t *testing.T) {
	t.Parallel()
	rungs := []string{code[0], "code.late", "code.later", code[3], code[4]}
	for name, test := range map[string]struct {
		o            Options
		first, after fault.Code // the codes of the fourth rung, before and after the first rung found the subject
	}{
		"enforced": {Options{Mode: Enforce}, fault.Denied, fault.Unavailable},
		"warned":   {Options{Mode: Warn}, "", ""},
		"partial":  {Options{Mode: Enforce, Partial: true}, "", ""},
	} {
		test.o.Rungs = rungs
		w := &backend{}
		r := newLadder(t, test.o).Wrap(w.registry(t))
		ctx := session(t)
		expect := func(function string, want fault.Code) {
			t.Helper()
			var got fault.Code
			f := call(ctx, t, r, function, `{"symbolId":"a"}`)
			if f != nil {
				got = f.Code
			}
			if got != want {
				t.Errorf("%s: %s answers %v, want %q", name, function, f, want)
			}
			if f != nil && strings.Contains(f.Message+fmt.Sprint(f.Available), "late") {
				t.Errorf("%s: the fault names a function that the caller may not have: %v", name, f)
			}
		}
		expect(code[3], test.first)
		if f := call(ctx, t, r, code[0], `{"query":{"symbolId":"a"}}`); f != nil {
			t.Fatal(f)
		}
		expect(code[3], test.after)
		expect(code[1], "") // code[1] is on no rung
	}
	// Functions that appear later become the rungs.
	l := newLadder(t, Options{Mode: Enforce, Rungs: rungs})
	before := l.Wrap((&backend{}).registry(t))
	more := (&backend{}).functions()
	for i := range more[1:3] {
		more[1+i].Name = rungs[1+i]
	}
	whole, err := steps.NewRegistry(more, nil)
	if err != nil {
		t.Fatal(err)
	}
	after := l.Wrap(whole)
	ctx := session(t)
	call(ctx, t, before, code[0], `{"query":{"symbolId":"a"}}`)
	if f := call(ctx, t, after, code[3], `{"symbolId":"a"}`); f == nil || f.Code != fault.Denied || !slices.Equal(f.Available, rungs[1:3]) {
		t.Errorf("got %v, want a fault of the missing rung", f)
	}
	if f := call(ctx, t, after, rungs[2], `{"symbolId":"a"}`); f != nil {
		t.Error(f)
	}
}
