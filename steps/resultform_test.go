package steps

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

func TestResultSettings(t *testing.T) {
	t.Parallel()
	s := mustSettings(t, Setting{Pattern: "shop.*", Result: ptr(ResultResponse)}, Setting{Pattern: "shop.order.get", Result: ptr(ResultBody)},
		Setting{Pattern: "shop.item.*", IgnoreOutput: true}, Setting{Pattern: "fs.*", Result: ptr(ResultResponse)},
		Setting{Pattern: "fs.cat", Result: ptr("text")})
	forms, output := []string{ResultBody, ResultResponse}, json.RawMessage(`{"type":"array"}`)
	for _, c := range []struct {
		spec           Spec
		result, output string
		ignored        bool
	}{
		{Spec{Name: "shop.order.list", Results: forms, Output: output}, ResultResponse, `"body":{"type":"array"}`, false},
		{Spec{Name: "shop.order.make", Results: forms}, ResultResponse, `"body":{}`, false},
		{Spec{Name: "shop.order.get", Results: forms, Output: output}, "", `{"type":"array"}`, false},
		{Spec{Name: "shop.item.list", Results: forms, Output: output}, ResultResponse, ``, true},
		{Spec{Name: "shop.page.head", Results: []string{ResultResponse, ResultBody}, Output: output}, "", `{"type":"array"}`, false},
		{Spec{Name: "fs.cat", Output: output}, "", `{"type":"array"}`, false},
	} {
		fn, _ := s.Apply(Function{Spec: c.spec})
		if fn.Result != c.result || fn.OutputIgnored != c.ignored || !strings.Contains(string(fn.Output), c.output) ||
			(c.output == "") != (len(fn.Output) == 0) {
			t.Errorf("%s: got %q with %s, ignored %t, want %+v", c.spec.Name, fn.Result, fn.Output, fn.OutputIgnored, c)
		}
	}
	unused := s.Unused(nil)
	if len(unused) != 2 || unused[0].At != "/3/result" || unused[1].At != "/4/result" || unused[0].Code != fault.BadRequest {
		t.Errorf("got %v, want the two results that fit no function", unused)
	}
}

// TestResultOf: a call learns the form that was chosen, and only its own.
func TestResultOf(t *testing.T) {
	t.Parallel()
	echo := func(ctx context.Context, _ []byte) ([]byte, error) { return json.Marshal(ResultOf(ctx)) }
	r, err := NewRegistry([]Function{{Spec: Spec{Name: "a.own"}, Call: echo}, {Spec: Spec{Name: "a.chosen", Result: ResultResponse}, Call: echo}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{`"response"`, `""`} {
		if got, err := r.All()[i].Call(t.Context(), nil); string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", r.All()[i].Spec().Name, got, err, want)
		}
	}
}

// TestMisfit: each of the first results is compared, and every result of a function that was found wrong once.
func TestMisfit(t *testing.T) {
	t.Parallel()
	entry := func(output string) *Entry {
		r, err := NewRegistry([]Function{{Spec: Spec{Name: "mail.find", Output: json.RawMessage(output)},
			Call: func(context.Context, []byte) ([]byte, error) { return []byte("null"), nil }}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r.All()[0]
	}
	closed := `{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"],"additionalProperties":false}`
	e := entry(closed)
	for range 3 {
		if f := e.Misfit([]byte(`{"id":1}`)); f != nil {
			t.Fatalf("got %v of a result that fits", f)
		}
	}
	for _, wrong := range []string{`{"id":"x"}`, `{"id":1,"name":"x"}`, `{}`, `[1]`, `null`} {
		f := e.Misfit([]byte(wrong))
		if f == nil || !strings.Contains(f.Message, "functions.mail.find.output: ignore") {
			t.Errorf("%s: got %v, want a warning with its remedy", wrong, f)
		}
	}
	for range 100 {
		_ = e.Misfit([]byte(`{"id":1}`))
	}
	if e.Misfit([]byte(`{}`)) == nil {
		t.Error("a function that was found wrong is not compared any more")
	}
	fits := entry(closed)
	for range 1 << 10 {
		if fits.Misfit([]byte(`{"id":1}`)) != nil {
			t.Fatal("a result that fits is reported")
		}
	}
	if fits.Misfit([]byte(`{}`)) != nil {
		t.Error("result 1,025 of a function that was right is compared, and should not be")
	}
	for _, open := range []string{``, `{"type":"object","properties":{"id":{"type":"string","minLength":3,"pattern":"^a"},"pattern":{"type":"string"}}}`, `{"type":"null"}`, `{"type":"object","properties":{"id":{"$ref":"#/nowhere"}}}`} {
		if f := entry(open).Misfit([]byte(`{"id":"x"}`)); f != nil {
			t.Errorf("%s: got %v, want nothing", open, f)
		}
	}
}
