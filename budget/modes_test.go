package budget_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
)

// within returns an envelope with room for a number of bytes; 0: unlimited.
func within(bytes int) *budget.Envelope {
	if bytes == 0 {
		return nil
	}
	return &budget.Envelope{Meter: budget.NewMeter(byteCounter{}, bytes)}
}

// fetch stores a value and fetches it.
func fetch(t testing.TB, r *budget.Results, value string, f budget.Fetch, envelope *budget.Envelope) (string, error) {
	t.Helper()
	f.Token = keep(t, r, value)
	answer, err := r.Answer(context.Background(), "me", f, envelope, nil)
	return string(answer), err
}

// Deep nesting gets an answer, without a stack overflow or quadratic time.
func TestDeepNesting(t *testing.T) {
	t.Parallel()
	r := results(t, nil)
	const depth = 100_000
	value := `[{"id":1},` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `]`
	for _, f := range []budget.Fetch{{Mode: "summary"}, {Mode: "paginated"}, {Mode: "filtered", FilterKeys: []string{"id"}}, {Mode: "full"}} {
		if got, err := fetch(t, r, value, f, nil); err != nil || !strings.Contains(got, `"id":1`) {
			t.Errorf(`%s = %.100s, %v; want "id":1 in it`, f.Mode, got, err)
		}
	}
	objects := strings.Repeat(`{"a":`, depth/5) + "1" + strings.Repeat("}", depth/5)
	for keys, code := range map[int]fault.Code{1: "", 64: "", 65: fault.BadRequest, depth: fault.BadRequest} {
		path := strings.Repeat("a.", keys-1) + "a"
		if _, err := fetch(t, r, objects, budget.Fetch{Mode: "filtered", FilterKeys: []string{path}}, nil); fault.CodeOf(err) != code {
			t.Errorf("filter path of %d keys: %v, want %q", keys, err, code)
		}
	}
}

func TestFull(t *testing.T) {
	t.Parallel()
	r := results(t, nil)
	value := string(numbered(500))
	if got, err := fetch(t, r, value, budget.Fetch{Mode: "full"}, nil); err != nil || got != value {
		t.Errorf("full = %.100s, %v; want the value", got, err)
	}
	_, err := fetch(t, r, value, budget.Fetch{Mode: "full"}, within(4000))
	e, _ := fault.As(err)
	if e == nil || e.Code != fault.LimitExceeded || e.At != "/mode" || strings.Join(e.Available, " ") != "summary paginated filtered query" {
		t.Fatalf("full that does not fit: %+v, want limit_exceeded", e)
	}
	for _, fragment := range []string{"4,000", "20,", "tokens", "bytes", "paginated"} {
		if !strings.Contains(e.Message, fragment) {
			t.Errorf("the message lacks %q: %s", fragment, e.Message)
		}
	}
	_, err = fetch(t, r, `"`+strings.Repeat("a b ", 1<<20)+`"`, budget.Fetch{Mode: "full"}, within(4000))
	if e, _ := fault.As(err); e == nil || !strings.Contains(e.Message, "about ") {
		t.Errorf("the message does not mark its number as an estimate: %+v", e)
	}
}

func TestQuery(t *testing.T) {
	t.Parallel()
	r := results(t, nil)
	value := string(numbered(500))
	token := keep(t, r, value)
	runQuery := func(query string, envelope *budget.Envelope, q budget.Query) (string, error) {
		b, err := r.Answer(t.Context(), "me", budget.Fetch{Token: token, Mode: "query", Query: query}, envelope, q)
		return string(b), err
	}
	half := func(_ context.Context, query string, v []byte) ([]byte, error) {
		if query != " $result " || string(v) != value {
			t.Errorf("the query function got %q and %.50s, want the query as given, and the value", query, v)
		}
		return v[1:38], nil
	}
	if got, err := runQuery(" $result ", nil, half); err != nil || got != value[1:38] {
		t.Errorf("query = %s, %v; want %s", got, err, value[1:38])
	}
	all := func(_ context.Context, _ string, v []byte) ([]byte, error) { return v, nil }
	got, err := runQuery("x", within(1000), all)
	must(t, err)
	p := decode[probe](t, []byte(got))
	if stored, _, err := r.Value(t.Context(), "me", p.Token); err != nil || string(stored) != value || p.Token == token {
		t.Errorf("query result that does not fit: got %s, stored %.50s, %v; want a probe with a new token, and the value stored", got, stored, err)
	}
	broken := fault.New(fault.BadExpression, "no")
	if _, err := runQuery("x", nil, func(context.Context, string, []byte) ([]byte, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("failing query: %v, want %v", err, broken)
	}
	if _, err := runQuery("x", nil, nil); fault.CodeOf(err) != fault.NotSupported {
		t.Errorf("without a query function: %v, want not_supported", err)
	}
}

// An answer in summary or filtered mode that does not fit is stored as a result of its own.
func TestProbeOfAnAnswer(t *testing.T) {
	t.Parallel()
	r := results(t, nil)
	value := `{"a":"` + strings.Repeat("a", 90) + `","b":"` + strings.Repeat("b", 90) + `","c":"` + strings.Repeat("c", 90) + `","d":"` +
		strings.Repeat("d", 90) + `","e":"` + strings.Repeat("e", 90) + `","n":[1,2]}`
	for _, f := range []budget.Fetch{{Mode: "summary"}, {Mode: "filtered", FilterKeys: []string{"e", "d", "c", "b", "a"}}} {
		whole, err := fetch(t, r, value, f, nil)
		must(t, err)
		got, err := fetch(t, r, value, f, within(450))
		if err != nil {
			t.Fatalf("%s: %v", f.Mode, err)
		}
		p := decode[probe](t, []byte(got))
		if stored, _, err := r.Value(t.Context(), "me", p.Token); err != nil || string(stored) != whole || len(got) > 450 {
			t.Errorf("%s: got %s, stored %s, %v; want at most 450 bytes, and %s stored", f.Mode, got, stored, err, whole)
		}
		if _, err := fetch(t, r, value, f, within(50)); fault.CodeOf(err) != fault.BudgetTooSmall {
			t.Errorf("%s without room for a probe: %v, want budget_too_small", f.Mode, err)
		}
	}
}

// TestUnsetPage: a page that is not set implies no mode, and an expired token is reported before other faults.
func TestUnsetPage(t *testing.T) {
	t.Parallel()
	r := results(t, nil)
	if got, err := fetch(t, r, `[1]`, budget.Fetch{Page: 7, PageSize: 7}, nil); err != nil || got != `[1]` {
		t.Errorf("fetch with a page that is not set: %s, %v; want [1]", got, err)
	}
	expired := budget.Fetch{Token: "oc1_0", Mode: "everything"}
	if _, err := r.Answer(t.Context(), "me", expired, nil, nil); fault.CodeOf(err) != fault.TokenExpired {
		t.Errorf("expired token with an unknown mode: %v, want token_expired", err)
	}
}
