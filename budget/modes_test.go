package budget_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
)

// within is room for so many bytes; 0: for all.
func within(bytes int) *budget.Envelope {
	if bytes == 0 {
		return nil
	}
	return &budget.Envelope{Meter: budget.NewMeter(byteCounter{}, bytes)}
}

// fetch keeps a value and fetches it.
func fetch(t testing.TB, r *budget.Results, value string, f budget.Fetch, envelope *budget.Envelope) (string, error) {
	t.Helper()
	f.Token = keep(t, r, value)
	answer, err := r.Answer(context.Background(), "me", f, envelope, nil)
	return string(answer), err
}

func TestSummary(t *testing.T) {
	t.Parallel()
	r := results(t, nil)
	long, cut := strings.Repeat("é", 101), strings.Repeat("é", 100)+"…"
	for _, test := range []struct{ value, want string }{
		{`{}`, `{"shape":"object {}","count":0,"first":{}}`},
		{`[]`, `{"shape":"array of 0","count":0,"first":[]}`},
		{`""`, `{"shape":"string of 0 lines","count":0,"first":[]}`},
		{`{"a":1.10,"b":"x","c":[1,2],"d":{"e":null}}`,
			`{"shape":"object {a,b,c[2],d}","count":4,"first":{"a":1.10,"b":"x","c":[1,2],"d":{"e":null}}}`},
		{`{"a":0,"b":1,"c":2,"d":3,"e":4,"f":5,"g":6,"h":7,"i":8,"j":9,"k":10}`,
			`{"shape":"object {a,b,c,d,e,f,g,h,i,j,k}","count":11,"first":{"a":0,"b":1,"c":2,"d":3,"e":4,"f":5,"g":6,"h":7,"i":8,"j":9}}`},
		{`[717897987691852588770249,2,3,4,5,6]`, `{"shape":"array of 6 numbers","count":6,"first":[717897987691852588770249,2,3,4,5]}`},
		{`"a\nb\r\nc\u000ad\ne\nf\ng"`, `{"shape":"string of 7 lines","count":7,"first":["a\n","b\r\n","c\u000a","d\n","e\n"]}`},
		{`["` + long + `"]`, `{"shape":"array of 1 strings","count":1,"first":["` + cut + `"]}`},
		{`["` + strings.Repeat(`\"`, 100) + `"]`, `{"shape":"array of 1 strings","count":1,"first":["` + strings.Repeat(`\"`, 100) + `"]}`},
		{`["` + strings.Repeat(`\ud83d\ude00`, 101) + `"]`, `{"shape":"array of 1 strings","count":1,"first":["` +
			strings.Repeat(`\ud83d\ude00`, 100) + `…"]}`},
		{`{"` + long + `":1}`, `{"shape":"object {…}","count":1,"first":{"` + cut + `":1}}`},
		{`[["` + long + `"]]`, `{"shape":"array of 1 arrays","count":1,"first":["[\"` + strings.Repeat("é", 98) + `…"]}`},
		{`"` + long + `\n"`, `{"shape":"string of 1 line","count":1,"first":["` + cut + `"]}`},
	} {
		if got, err := fetch(t, r, test.value, budget.Fetch{Mode: "summary"}, nil); err != nil || got != test.want {
			t.Errorf("summary of %.80s = %s, %v\nwant %s", test.value, got, err, test.want)
		}
	}
}

func TestFiltered(t *testing.T) {
	t.Parallel()
	r := results(t, nil)
	for _, test := range []struct {
		value, keys, want string
	}{
		{`{"a":1.10,"b":2}`, "a", `{"a":1.10}`},
		{`{"a":1,"b":2,"c":3}`, "c a", `{"a":1,"c":3}`},
		{`{"a":{"b":1,"c":2},"d":3}`, "a.b", `{"a":{"b":1}}`},
		{`{"a":{"b":{"c":1,"x":0}},"d":3}`, "a.b.c d", `{"a":{"b":{"c":1}},"d":3}`},
		{`{"a.b":1,"a":{"b":2,"c":3}}`, "a.b", `{"a.b":1,"a":{"b":2}}`},
		{`{"a.b":{"c":1,"d":2}}`, "a.b.c", `{"a.b":{"c":1}}`},
		{`{"":{"":1,"x":2}}`, ".", `{"":{"":1}}`},
		{`{"":1,"a":2}`, "", `{"":1}`},
		{`{"\u0061":1,"b":2}`, "a", `{"\u0061":1}`},
		{`{"a":1,"a":2}`, "a", `{"a":1,"a":2}`},
		{`[{"id":1,"x":0},{"x":0},{"id":2}]`, "id", `[{"id":1},{},{"id":2}]`},
		{`[{"id":1},5,null,"s"]`, "id", `[{"id":1},null,null,null]`},
		{`[[{"id":1,"x":0}],{"id":2}]`, "id", `[[{"id":1}],{"id":2}]`},
		{`{"count":2,"results":[{"id":1,"n":0},{"id":2}]}`, "id", `{"results":[{"id":1},{"id":2}]}`},
		{`{"count":2,"results":[{"id":1,"n":0},{"id":2}]}`, "count id", `{"count":2,"results":[{"id":1},{"id":2}]}`},
		{`{"count":2,"results":[{"id":1,"n":0},{"id":2}]}`, "results.id", `{"results":[{"id":1},{"id":2}]}`},
		{`{"count":2,"results":[{"count":7}]}`, "count", `{"count":2}`},
		{`{"a":{"b":1},"results":[{"a":{"c":7}}]}`, "a.b", `{"a":{"b":1}}`},
		{`{"a":[{"tags":[{"n":1,"m":2}]}]}`, "a.tags.n", `{"a":[{"tags":[{"n":1}]}]}`},
		{`{"a":{"b":1},"c":1}`, "a a.b", `{"a":{"b":1}}`},
		{`[{"a":{"x":1}},{"a":{"b":1}},{"a":5}]`, "a.b", `[{},{"a":{"b":1}},{}]`},
		{`[{"a.x":{"b":1}}]`, "a.x.b", `[{"a.x":{"b":1}}]`},
	} {
		got, err := fetch(t, r, test.value, budget.Fetch{Mode: "filtered", FilterKeys: strings.Split(test.keys, " ")}, nil)
		if test.keys == "" { // Split gives the empty key, which is one
			got, err = fetch(t, r, test.value, budget.Fetch{Mode: "filtered", FilterKeys: []string{""}}, nil)
		}
		if err != nil || got != test.want {
			t.Errorf("%s of %s = %s, %v\nwant %s", test.keys, test.value, got, err, test.want)
		}
	}
}

func TestFilteredKeyNotFound(t *testing.T) {
	t.Parallel()
	r := results(t, nil)
	for _, test := range []struct {
		value, at, available, nearest string
		keys                          []string
	}{
		{`{"name":1,"id":2}`, "/filter_keys/1", "name,id", "name", []string{"id", "nam"}},
		{`[{"name":1},{"id":2}]`, "/filter_keys/0", "name", "name", []string{"names"}},
		{`{"count":1,"results":[{"name":1}]}`, "/filter_keys/0", "count,results,name", "name", []string{"nama"}},
		{`{"a":{"b":1}}`, "/filter_keys/0", "a", "a", []string{"a.c"}},
		{`{"a":5}`, "/filter_keys/0", "a", "a", []string{"a.b"}},
		{`{}`, "/filter_keys/0", "", "", []string{"a"}},
	} {
		_, err := fetch(t, r, test.value, budget.Fetch{Mode: "filtered", FilterKeys: test.keys}, nil)
		e, _ := fault.As(err)
		if e == nil || e.Code != fault.BadRequest || e.At != test.at || strings.Join(e.Available, ",") != test.available ||
			len(e.Nearest) > 0 && e.Nearest[0] != test.nearest {
			t.Errorf("%v of %s: %+v", test.keys, test.value, e)
		}
	}
}

// Deep nesting ends in an answer, not in an overflow of the stack or a quadratic walk.
func TestDeepNesting(t *testing.T) {
	t.Parallel()
	r := results(t, nil)
	const depth = 100_000
	value := `[{"id":1},` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `]`
	for _, f := range []budget.Fetch{{Mode: "summary"}, {Mode: "paginated"}, {Mode: "filtered", FilterKeys: []string{"id"}}, {Mode: "full"}} {
		if got, err := fetch(t, r, value, f, nil); err != nil || !strings.Contains(got, `"id":1`) {
			t.Errorf("%s = %.100s, %v", f.Mode, got, err)
		}
	}
	objects := strings.Repeat(`{"a":`, depth/5) + "1" + strings.Repeat("}", depth/5)
	for keys, code := range map[int]fault.Code{1: "", 64: "", 65: fault.BadRequest, depth: fault.BadRequest} {
		path := strings.Repeat("a.", keys-1) + "a"
		if _, err := fetch(t, r, objects, budget.Fetch{Mode: "filtered", FilterKeys: []string{path}}, nil); fault.CodeOf(err) != code {
			t.Errorf("a path of %d keys: %v", keys, err)
		}
	}
}

func TestFull(t *testing.T) {
	t.Parallel()
	r := results(t, nil)
	value := string(numbered(500))
	if got, err := fetch(t, r, value, budget.Fetch{Mode: "full"}, nil); err != nil || got != value {
		t.Errorf("full = %.100s, %v", got, err)
	}
	_, err := fetch(t, r, value, budget.Fetch{Mode: "full"}, within(4000))
	e, _ := fault.As(err)
	if e == nil || e.Code != fault.LimitExceeded || e.At != "/mode" || strings.Join(e.Available, " ") != "summary paginated filtered query" {
		t.Fatalf("full that does not fit: %+v", e)
	}
	for _, fragment := range []string{"4,000", "20,", "tokens", "bytes", "paginated"} {
		if !strings.Contains(e.Message, fragment) {
			t.Errorf("the message does not tell %q: %s", fragment, e.Message)
		}
	}
	_, err = fetch(t, r, `"`+strings.Repeat("a b ", 1<<20)+`"`, budget.Fetch{Mode: "full"}, within(4000))
	if e, _ := fault.As(err); e == nil || !strings.Contains(e.Message, "about ") {
		t.Errorf("an estimate is not called one: %+v", e)
	}
}

func TestQuery(t *testing.T) {
	t.Parallel()
	r := results(t, nil)
	value := string(numbered(500))
	token := keep(t, r, value)
	ask := func(query string, envelope *budget.Envelope, q budget.Query) (string, error) {
		b, err := r.Answer(t.Context(), "me", budget.Fetch{Token: token, Mode: "query", Query: query}, envelope, q)
		return string(b), err
	}
	half := func(_ context.Context, query string, v []byte) ([]byte, error) {
		if query != " $result " || string(v) != value {
			t.Errorf("the query function is given %q and %.50s", query, v)
		}
		return v[1:38], nil
	}
	if got, err := ask(" $result ", nil, half); err != nil || got != value[1:38] {
		t.Errorf("query = %s, %v", got, err)
	}
	all := func(_ context.Context, _ string, v []byte) ([]byte, error) { return v, nil }
	got, err := ask("x", within(1000), all)
	if err != nil {
		t.Fatal(err)
	}
	p := decode[probe](t, []byte(got))
	if stored, _, err := r.Value(t.Context(), "me", p.Token); err != nil || string(stored) != value || p.Token == token {
		t.Errorf("a result that does not fit gives %s, which holds %.50s, %v", got, stored, err)
	}
	broken := fault.New(fault.BadExpression, "no")
	if _, err := ask("x", nil, func(context.Context, string, []byte) ([]byte, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("the query's own error: %v", err)
	}
	if _, err := ask("x", nil, nil); fault.CodeOf(err) != fault.NotSupported {
		t.Errorf("without a query function: %v", err)
	}
}

// What does not fit in summary and filtered mode is a result of its own.
func TestProbeOfAnAnswer(t *testing.T) {
	t.Parallel()
	r := results(t, nil)
	value := `{"a":"` + strings.Repeat("a", 90) + `","b":"` + strings.Repeat("b", 90) + `","c":"` + strings.Repeat("c", 90) + `","d":"` +
		strings.Repeat("d", 90) + `","e":"` + strings.Repeat("e", 90) + `","n":[1,2]}`
	for _, f := range []budget.Fetch{{Mode: "summary"}, {Mode: "filtered", FilterKeys: []string{"e", "d", "c", "b", "a"}}} {
		whole, err := fetch(t, r, value, f, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := fetch(t, r, value, f, within(450))
		if err != nil {
			t.Fatalf("%s: %v", f.Mode, err)
		}
		p := decode[probe](t, []byte(got))
		if stored, _, err := r.Value(t.Context(), "me", p.Token); err != nil || string(stored) != whole || len(got) > 450 {
			t.Errorf("%s gives %s, which holds %s, %v", f.Mode, got, stored, err)
		}
		if _, err := fetch(t, r, value, f, within(50)); fault.CodeOf(err) != fault.BudgetTooSmall {
			t.Errorf("%s with no room for a probe: %v", f.Mode, err)
		}
	}
}

func TestImpliedMode(t *testing.T) {
	t.Parallel()
	r := results(t, nil)
	value := string(numbered(50))
	is := func(mode, got string, err error) bool {
		switch mode {
		case "full":
			return err == nil && got == value
		case "paginated":
			return err == nil && strings.Contains(got, `"has_more"`)
		case "summary":
			return err == nil && strings.HasPrefix(got, `{"shape"`)
		case "filtered":
			return err == nil && strings.HasPrefix(got, `[{"id":0},`)
		}
		return fault.CodeOf(err) == fault.Code(mode)
	}
	for _, test := range []struct {
		f     budget.Fetch
		bytes int
		mode  string
	}{
		{budget.Fetch{}, 0, "full"},
		{budget.Fetch{}, 1000, "summary"},
		{budget.Fetch{PageSet: true, Page: 2}, 0, "paginated"},
		{budget.Fetch{PageSizeSet: true, PageSize: 2}, 0, "paginated"},
		{budget.Fetch{FilterKeys: []string{"id"}}, 0, "filtered"},
		{budget.Fetch{Query: "$result"}, 0, "not_supported"},
		{budget.Fetch{Page: 7, PageSize: 7}, 0, "full"}, // not set
	} {
		if got, err := fetch(t, r, value, test.f, within(test.bytes)); !is(test.mode, got, err) {
			t.Errorf("%+v in %d bytes = %.100s, %v, want %s", test.f, test.bytes, got, err, test.mode)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	r := results(t, nil)
	many := make([]string, 101)
	for _, test := range []struct {
		value string
		f     budget.Fetch
		code  fault.Code
		at    string
	}{
		{`[1]`, budget.Fetch{Mode: "everything"}, fault.BadMode, "/mode"},
		{`[1]`, budget.Fetch{Mode: "Full"}, fault.BadMode, "/mode"},
		{`5`, budget.Fetch{Mode: "summary"}, fault.BadMode, "/mode"},
		{`5`, budget.Fetch{Mode: "paginated"}, fault.BadMode, "/mode"},
		{`true`, budget.Fetch{Mode: "paginated"}, fault.BadMode, "/mode"},
		{`null`, budget.Fetch{Mode: "paginated"}, fault.BadMode, "/mode"},
		{`"text"`, budget.Fetch{Mode: "filtered", FilterKeys: []string{"a"}}, fault.BadMode, "/mode"},
		{`[1]`, budget.Fetch{Mode: "filtered", FilterKeys: []string{"a"}}, fault.BadMode, "/mode"},
		{`{"a":1}`, budget.Fetch{Mode: "paginated"}, fault.BadMode, "/mode"},
		{`{"a":[],"b":[]}`, budget.Fetch{Mode: "paginated"}, fault.BadMode, "/mode"},
		{`[1]`, budget.Fetch{Mode: "paginated", PageSet: true, Page: 0}, fault.BadPage, "/page"},
		{`[1]`, budget.Fetch{Mode: "paginated", PageSet: true, Page: -1}, fault.BadPage, "/page"},
		{`[1]`, budget.Fetch{PageSizeSet: true, PageSize: 0}, fault.BadPage, "/page_size"},
		{`[1]`, budget.Fetch{Mode: "full", PageSet: true, Page: 1}, fault.BadRequest, "/page"},
		{`[1]`, budget.Fetch{Mode: "summary", PageSizeSet: true, PageSize: 1}, fault.BadRequest, "/page_size"},
		{`[1]`, budget.Fetch{Mode: "query", Query: "$result", FilterKeys: []string{"a"}}, fault.BadRequest, "/filter_keys"},
		{`[1]`, budget.Fetch{Mode: "paginated", Query: "$result"}, fault.BadRequest, "/query"},
		{`[1]`, budget.Fetch{Mode: "query"}, fault.BadRequest, "/query"},
		{`[1]`, budget.Fetch{Mode: "query", Query: " "}, fault.BadRequest, "/query"},
		{`{"a":1}`, budget.Fetch{Mode: "filtered"}, fault.BadRequest, "/filter_keys"},
		{`{"a":1}`, budget.Fetch{Mode: "filtered", FilterKeys: many}, fault.BadRequest, "/filter_keys"},
	} {
		_, err := fetch(t, r, test.value, test.f, nil)
		e, _ := fault.As(err)
		if e == nil || e.Code != test.code || e.At != test.at {
			t.Errorf("%+v of %s: %v, want %s at %s", test.f, test.value, err, test.code, test.at)
			continue
		}
		if e.Code == fault.BadMode && (!slices.Contains(e.Available, "full") || !strings.Contains(e.Message, strings.Join(e.Available, ", "))) {
			t.Errorf("%+v of %s: the modes are not told: %+v", test.f, test.value, e)
		}
	}
	_, err := fetch(t, r, `{"first":[1],"second":[2]}`, budget.Fetch{Mode: "paginated"}, nil)
	if e, _ := fault.As(err); e == nil || !strings.Contains(e.Message, `query`) || !strings.Contains(e.Message, `$result["first"]`) {
		t.Errorf("several arrays: %v", err)
	}
	if _, err := r.Answer(t.Context(), "me", budget.Fetch{Token: "oc1_0", Mode: "everything"}, nil,
		nil); fault.CodeOf(err) != fault.TokenExpired {
		t.Errorf("a token that is not live with a mode that is not known: %v", err)
	}
}
