package ladder

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

var code = []string{"symbol.search", "symbol.getCard", "code.skeleton", "code.hotPath", "code.needWindow"}

// backend has five functions; each but the search takes a symbolId, and the search returns its query.
type backend struct {
	calls atomic.Int64
	fail  *fault.Error // what calls answer
}

func (w *backend) functions() []steps.Function {
	var list []steps.Function
	for _, name := range code {
		input := `{"type":"object","properties":{"symbolId":{},"other":{}}}`
		if name == "symbol.search" {
			input = `{"type":"object","properties":{"query":{}}}`
		}
		list = append(list, steps.Function{
			Spec: steps.Spec{Name: name, Effect: steps.Read, Input: json.RawMessage(input)}, Prompt: true,
			Call: func(_ context.Context, args []byte) ([]byte, error) {
				w.calls.Add(1)
				if w.fail != nil {
					return nil, w.fail
				}
				return args, nil
			},
		})
	}
	return append(list, steps.Function{Spec: steps.Spec{Name: "other.free", Effect: steps.Read}, Call: list[0].Call, Prompt: true})
}

func (w *backend) registry(t testing.TB) *steps.Registry {
	r, err := steps.NewRegistry(w.functions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newLadder(t testing.TB, o Options) *Ladder {
	if o.Subject == "" {
		o.Subject = "symbolId"
	}
	if o.Rungs == nil {
		o.Rungs = code
	}
	l, faults := New(&o)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return l
}

func call(ctx context.Context, t testing.TB, r *steps.Registry, name, args string) *fault.Error {
	t.Helper()
	entry, err := r.Resolve(name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = entry.Call(ctx, []byte(args))
	if err == nil {
		return nil
	}
	f, ok := fault.As(err)
	if !ok {
		t.Fatalf("%s answered an error without a code: %v", name, err)
	}
	return f
}

func session(t testing.TB) context.Context {
	return steps.WithSession(t.Context(), &steps.Session{})
}

func TestClimb(t *testing.T) {
	t.Parallel()
	const a, b = `{"symbolId":"a"}`, `{"symbolId":"b"}`
	query := func(result string) string { return `{"query":` + result + `}` }
	type step struct{ fn, args, first string } // first: the rung that the refusal names; "": not refused
	for name, list := range map[string][]step{
		"unknown subject":              {{code[2], a, code[1]}, {code[3], a, code[1]}, {code[4], a, code[1]}, {code[1], a, ""}},
		"one rung may be skipped":      {{code[1], a, ""}, {code[3], a, ""}, {code[4], a, ""}},
		"two rungs may not be skipped": {{code[1], a, ""}, {code[4], a, code[2]}, {code[2], a, ""}, {code[4], a, ""}},
		"a lower rung afterwards":      {{code[1], a, ""}, {code[3], a, ""}, {code[1], a, ""}, {code[4], a, ""}},
		"subjects are separate":        {{code[1], a, ""}, {code[2], b, code[1]}, {code[2], a, ""}},
		"search result": {{code[0], query(`[{"symbolId":"a"},{"at":{"symbol_id":"b"}}]`), ""}, {code[2], a, ""}, {code[2], b, ""},
			{code[3], `{"symbolId":"c"}`, code[1]}},
		"search result with a list": {{code[0], query(`{"SymbolID":["a",null,["x"],{"y":1}]}`), ""}, {code[2], a, ""},
			{code[2], `{"symbolId":[["x"],{"y":1}]}`, ""}, {code[2], b, code[1]}},
		"a mention in a text does not count":         {{code[0], query(`"\"symbolId\":\"a\""`), ""}, {code[2], a, code[1]}},
		"the result of a higher rung does not count": {{code[1], `{"symbolId":"a","other":{"symbolId":"b"}}`, ""}, {code[2], b, code[1]}},
		"several subjects": {{code[1], a, ""}, {code[2], `{"symbolId":["a","b"]}`, code[1]}, {code[1], `{"symbolId":["a","b"]}`, ""},
			{code[2], `{"symbolId":["b","a"]}`, ""}},
		"no subject": {{code[4], `{}`, ""}, {code[4], `{"symbolId":null}`, ""}, {code[4], `{"symbolId":""}`, ""},
			{code[4], `{"symbolId":[]}`, ""}},
		"number and text": {{code[1], `{"symbolId":12345678901234567890}`, ""}, {code[2], `{"symbolId":"12345678901234567890"}`, ""},
			{code[2], `{"symbolId":12345678901234567891}`, code[1]}},
		"spellings of a number": {{code[1], `{"symbolId":1.50e1}`, ""}, {code[2], `{"symbolId":15}`, ""},
			{code[2], `{"symbolId":15.5}`, code[1]}},
		"true is not text": {{code[1], `{"symbolId":true}`, ""}, {code[2], `{"symbolId":true}`, ""},
			{code[2], `{"symbolId":"true"}`, code[1]}},
		"objects": {{code[1], `{"symbolId":{"x":1,"y":2}}`, ""}, {code[2], `{"symbolId":{"y":2,"x":1}}`, ""},
			{code[2], `{"symbolId":{"x":2,"y":1}}`, code[1]}},
		"escapes":                 {{code[1], `{"symbolId":"\u0061"}`, ""}, {code[2], a, ""}},
		"another spelling":        {{code[2], `{"symbol_id":"a"}`, code[1]}},
		"function without a rung": {{"other.free", a, ""}, {code[2], a, code[1]}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &backend{}
			r := newLadder(t, Options{Mode: Enforce}).Wrap(w.registry(t))
			ctx := session(t)
			for i, s := range list {
				before := w.calls.Load()
				f := call(ctx, t, r, s.fn, s.args)
				switch {
				case s.first == "" && f != nil:
					t.Fatalf("call %d was denied: %v", i, f)
				case s.first == "":
				case f == nil || f.Code != fault.Denied || !strings.Contains(f.Message, "call "+s.first+" first") ||
					!strings.HasPrefix(f.At, "/symbolId"):
					t.Fatalf("call %d: got %v, want denied with the advice %s", i, f, s.first)
				case w.calls.Load() != before:
					t.Fatalf("denied call %d reached the function", i)
				}
			}
		})
	}
}

func TestPositionAndAvailable(t *testing.T) {
	t.Parallel()
	r := newLadder(t, Options{Mode: Enforce}).Wrap((&backend{}).registry(t))
	ctx := session(t)
	call(ctx, t, r, code[1], `{"symbolId":["a","b"]}`)
	f := call(ctx, t, r, code[4], `{"other":1,"symbolId":["a","b","secret value"]}`)
	if f == nil || f.At != "/symbolId/2" || !slices.Equal(f.Available, code[:2]) {
		t.Fatalf("got %+v, want a fault at /symbolId/2", f)
	}
	if strings.Contains(f.Message, "secret") {
		t.Errorf("the message shows the subject: %s", f.Message)
	}
}

// TestFailuresThatCount: a call counts once its function has answered.
func TestFailuresThatCount(t *testing.T) {
	t.Parallel()
	for failure, counts := range map[fault.Code]bool{fault.FunctionFailed: true, fault.Unavailable: false, fault.Timeout: false,
		fault.Denied: false, fault.Internal: false} {
		w := &backend{fail: fault.New(failure, "no")}
		r := newLadder(t, Options{Mode: Enforce}).Wrap(w.registry(t))
		ctx := session(t)
		if f := call(ctx, t, r, code[1], `{"symbolId":"a"}`); f == nil || f.Code != failure {
			t.Fatalf("got %v, want %s", f, failure)
		}
		w.fail = nil
		if f := call(ctx, t, r, code[2], `{"symbolId":"a"}`); (f == nil) != counts {
			t.Errorf("a call after %s: got %v, want allowed %t", failure, f, counts)
		}
	}
}

func TestWarn(t *testing.T) {
	t.Parallel()
	w := &backend{}
	r := newLadder(t, Options{Mode: Warn}).Wrap(w.registry(t))
	var warned []*fault.Error
	ctx := steps.WithCallbacks(session(t), &steps.Callbacks{Warn: func(f *fault.Error) { warned = append(warned, f) }})
	for range 2 { // the second time, the rung has been reached
		if f := call(ctx, t, r, code[3], `{"symbolId":"a"}`); f != nil {
			t.Fatal(f)
		}
	}
	if f := call(session(t), t, r, code[4], `{"symbolId":"a"}`); f != nil { // there is no Warn callback
		t.Fatal(f)
	}
	if len(warned) != 1 || warned[0].Code != fault.BadRequest || warned[0].At != "/symbolId" ||
		!strings.Contains(warned[0].Message, code[1]) || w.calls.Load() != 3 {
		t.Errorf("%d calls with warnings %v, want 3 with one", w.calls.Load(), warned)
	}
}

// TestView: a function that a caller does not have is not required of it and not named.
func TestView(t *testing.T) {
	t.Parallel()
	r := newLadder(t, Options{Mode: Enforce}).Wrap((&backend{}).registry(t))
	without := func(hidden ...string) (context.Context, *steps.Registry) {
		view := r.View(func(s *steps.Spec) bool { return !slices.Contains(hidden, s.Name) })
		return steps.WithCallbacks(session(t), &steps.Callbacks{Functions: view}), view
	}
	ctx, view := without(code[1])
	if f := call(ctx, t, view, code[2], `{"symbolId":"a"}`); f != nil {
		t.Errorf("a call that skips only a hidden rung was denied: %v", f)
	}
	ctx, view = without(code[1])
	f := call(ctx, t, view, code[4], `{"symbolId":"a"}`)
	if f == nil || !strings.Contains(f.Message, "call "+code[2]+" first") ||
		strings.Contains(f.Message+strings.Join(f.Available, " "), "getCard") {
		t.Errorf("got %+v, want advice without the hidden function", f)
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	r := newLadder(t, Options{Mode: Enforce}).Wrap((&backend{}).registry(t))
	first, second := session(t), session(t)
	call(first, t, r, code[1], `{"symbolId":"a"}`)
	if f := call(first, t, r, code[2], `{"symbolId":"a"}`); f != nil {
		t.Error(f)
	}
	for name, ctx := range map[string]context.Context{"another session": second, "none": t.Context()} {
		if f := call(ctx, t, r, code[2], `{"symbolId":"a"}`); f == nil {
			t.Errorf("%s shares what the first session reached", name)
		}
	}
	// Another ladder does not share what was reached, but the same ladder made again does.
	if f := call(first, t, newLadder(t, Options{Mode: Enforce}).Wrap((&backend{}).registry(t)), code[2], `{"symbolId":"a"}`); f != nil {
		t.Errorf("an equal ladder: %v, want none, as the session has reached the rung", f)
	}
	swapped := []string{code[0], code[1], code[3], code[2], code[4]}
	for name, o := range map[string]Options{"rungs": {Mode: Enforce, Rungs: swapped}, "subject": {Mode: Enforce, Subject: "other"}} {
		ctx := session(t)
		call(ctx, t, r, code[1], `{"symbolId":"a","other":"a"}`)
		if f := call(ctx, t, newLadder(t, o).Wrap((&backend{}).registry(t)), code[4], `{"symbolId":"a","other":"a"}`); f == nil ||
			!strings.Contains(f.Message, "call "+code[1]) {
			t.Errorf("a ladder with other %s: %v, want the advice to call %s", name, f, code[1])
		}
	}
}

// TestVariantRungs: a registry keeps its own rungs when the ladder later wraps another registry.
func TestVariantRungs(t *testing.T) {
	t.Parallel()
	l := newLadder(t, Options{Mode: Enforce})
	all := (&backend{}).registry(t)
	shared := l.Wrap(all)
	variant := l.Wrap(all.View(func(s *steps.Spec) bool { return s.Name == code[1] || s.Name == "other.free" }))
	for i, name := range append(slices.Clone(code), "other.free") {
		want := i
		if name == "other.free" {
			want = -1
		}
		if entry, err := shared.Resolve(name); err != nil || entry.Rung() != want {
			t.Errorf("%s is not on rung %d of the shared registry", name, want)
		}
		if entry, err := variant.Resolve(name); err == nil && entry.Rung() != want {
			t.Errorf("%s is on rung %d of the variant, want %d", name, entry.Rung(), want)
		}
	}
	if view := shared.View(func(*steps.Spec) bool { return true }); view.All()[0].Rung() != shared.All()[0].Rung() {
		t.Error("a view does not keep the rungs of its registry")
	}
	other := newLadder(t, Options{Mode: Enforce, Rungs: code[2:]}).Wrap(shared)
	if entry, err := other.Resolve(code[0]); err != nil || entry.Rung() != -1 {
		t.Error("the wrapped ladder's rungs are used")
	}
}

// TestRefusedWriteIsNotSent: a refused write has the outcome not_sent, a refused read has no outcome.
func TestRefusedWriteIsNotSent(t *testing.T) {
	t.Parallel()
	for effect, want := range map[steps.Effect]fault.Outcome{steps.Read: "", steps.Write: fault.NotSent, steps.Destroy: fault.NotSent} {
		functions := (&backend{}).functions()
		functions[4].Effect = effect
		r, err := steps.NewRegistry(functions, nil)
		if err != nil {
			t.Fatal(err)
		}
		r = newLadder(t, Options{Mode: Enforce}).Wrap(r)
		if f := call(session(t), t, r, code[4], `{"symbolId":"a"}`); f == nil || f.Code != fault.Denied || f.Outcome != want {
			t.Errorf("%s: %+v, want %q", effect, f, want)
		}
	}
}

// TestOff: a ladder that is off leaves the registry unchanged.
func TestOff(t *testing.T) {
	t.Parallel()
	r := (&backend{}).registry(t)
	l, _ := New(&Options{Subject: "x", Rungs: code})
	if l != nil || l.Wrap(r) != r || l.Unresolved(r) != nil || l.Unjudged(r) != nil || r.All()[0].Rung() != -1 {
		t.Error("a ladder that is off still changes something")
	}
}

func BenchmarkCall(b *testing.B) {
	w := &backend{}
	r := w.registry(b)
	args := `{"symbolId":"github.com/onecall-mcp/onecall/steps.Registry.Resolve"}`
	for name, r := range map[string]*steps.Registry{"off": r, "enforce": newLadder(b, Options{Mode: Enforce}).Wrap(r)} {
		b.Run(name, func(b *testing.B) {
			ctx := session(b)
			b.ReportAllocs()
			for b.Loop() {
				if f := call(ctx, b, r, code[1], args); f != nil {
					b.Fatal(f)
				}
			}
		})
	}
}
