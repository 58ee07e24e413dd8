package chain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// TestCall holds the answers to single calls, in both forms, and what reached the functions.
func TestCall(t *testing.T) {
	t.Parallel()
	yes := true
	for name, test := range map[string]struct {
		call  chain.Call
		want  string // the answer, or a part of it where it begins with …
		calls int
	}{
		"a result": {chain.Call{Function: "test.get", Args: []byte(`{"value": [1.10, 12345678901234567890]}`)},
			`{"ok":true,"result":[1.10,12345678901234567890],"usage":{"tokens":33,"calls":1,"ms":0}}`, 1},
		"lite": {chain.Call{Function: "test.get", Args: []byte(`{"value":1}`), Lite: &yes}, `1`, 1},
		"nothing is a reference": {chain.Call{Function: "test.echo", Args: []byte(`{"a":"$0.x","b":"${$0.y}","c":["$$","$input","$"]}`), Lite: &yes},
			`{"a":"$0.x","b":"${$0.y}","c":["$$","$input","$"]}`, 1},
		"no arguments":     {chain.Call{Function: "test.echo", Lite: &yes}, `{}`, 1},
		"a folded name":    {chain.Call{Function: "cardGet", Args: []byte(`{"cardId":"$9"}`), Lite: &yes}, `{"card":{"id":"$9","size":7}}`, 1},
		"a smaller budget": {chain.Call{Function: "test.get", Args: []byte(`{"value":1}`), MaxTotalTokens: 150}, `…"limit":150`, 1},
		"a budget too small": {chain.Call{Function: "test.get", Args: []byte(`{"value":1}`), MaxTotalTokens: 10, Lite: &yes},
			`…"code":"budget_too_small","fn":"test.get","at":"/budget/maxTotalTokens"`, 0},
		"one fault": {chain.Call{Function: "test.card.get", Args: []byte(`{"cardId":7}`), At: "/params"},
			`…{"ok":false,"error":{"code":"bad_arguments","fn":"test.card.get","at":"/params/cardId","message":"`, 0},
		"its schema": {chain.Call{Function: "test.card.get", Args: []byte(`{"cardId":7}`)},
			`…"retryable":false,"inputSchema":{"type":"object","properties":{"cardId":{"type":"string"}`, 0},
		"no faults for one": {chain.Call{Function: "test.card.get", Args: []byte(`{"cardId":7}`)}, `!"faults"`, 0},
		"all faults": {chain.Call{Function: "test.card.get", Args: []byte(`{"cardId":7,"limit":0,"crdId":1}`), At: "/steps/0"},
			`…"message":"3 faults","faults":[{"code":"bad_arguments","at":"/steps/0/cardId","message":"`, 0},
		"a place under an argument": {chain.Call{Function: "test.card.get", Args: []byte(`{"cardId":"x","steps":[1]}`)}, `…"at":"/steps","message"`, 0},
		"an unknown function": {chain.Call{Function: "test.gte", Args: []byte(`{}`), At: "/params"},
			`…{"ok":false,"error":{"code":"unknown_function","message":"there is no function \"test.gte\"`, 0},
		"no function":        {chain.Call{}, `…"code":"unknown_function","message":"which function? Its name is missing"`, 0},
		"no name is a path":  {chain.Call{Function: "$0.fn"}, `…"code":"unknown_function"`, 0},
		"no object":          {chain.Call{Function: "test.echo", Args: []byte(`[1]`), At: "/params"}, `…"code":"bad_arguments","fn":"test.echo","at":"/params"`, 0},
		"no JSON":            {chain.Call{Function: "test.echo", Args: []byte(`{"a":1,}`)}, `…"code":"bad_json"`, 0},
		"a key twice":        {chain.Call{Function: "test.echo", Args: []byte(`{"a":1,"a":2}`), At: "/params"}, `…"code":"bad_json","fn":"test.echo","at":"/params/a"`, 0},
		"too deep":           {chain.Call{Function: "test.echo", Args: []byte(`{"a":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`)}, `…"code":"bad_json"`, 0},
		"a failure teaches":  {chain.Call{Function: "test.fail", Args: []byte(`{"message":"no"}`), Lite: &yes}, `…{"ok":false,"error":{"code":"function_failed","fn":"test.fail","message":"it failed: no","retryable":false,"signature":"test.fail(message?: string)"}`, 1},
		"a panic":            {chain.Call{Function: "test.panic"}, `…"code":"internal"`, 1},
		"no JSON comes back": {chain.Call{Function: "test.text"}, `…"code":"internal"`, 1},
		"a part only":        {chain.Call{Function: "test.page"}, `…"warnings":[{"code":"limit_exceeded","message":"test.page returned only part`, 1},
		"a retry may help":   {chain.Call{Function: "test.flaky", Args: []byte(`{"failures":1}`)}, `…"code":"unavailable","fn":"test.flaky","message":"not yet","retryable":true`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{}
			answer := engine(t, w, chain.Options{}).Call(context.Background(), &test.call, nil)
			got := strings.TrimSpace(string(normalise(answer.JSON)))
			piece, partial := strings.CutPrefix(test.want, "…")
			none, isNone := strings.CutPrefix(test.want, "!")
			switch {
			case partial && !strings.Contains(got, piece), isNone && strings.Contains(got, none), !partial && !isNone && got != test.want:
				t.Errorf("answered %s\nwant     %s", got, test.want)
			}
			if len(w.seen()) != test.calls {
				t.Errorf("called %v", w.seen())
			}
			if strings.Contains(got, `/steps/0/args`) || strings.Contains(got, `"step":`) || strings.Contains(got, `"steps":`) {
				t.Errorf("a step shows: %s", got)
			}
			if !answer.OK {
				validate(t, compileSchemas(t)[1], answer.JSON)
			}
		})
	}
}

// TestCallFaults: all faults are given to the front end as well, each with its place.
func TestCallFaults(t *testing.T) {
	t.Parallel()
	answer := engine(t, &world{}, chain.Options{}).Call(context.Background(),
		&chain.Call{Function: "test.card.get", Args: []byte(`{"limit":0,"cardIdd":"x","unheard":1}`), At: "/params"}, nil)
	var positions []string
	for _, f := range answer.Faults {
		positions = append(positions, f.At)
		if f.Code != fault.BadArguments {
			t.Error(f)
		}
	}
	if got := strings.Join(positions, " "); len(positions) != 3 || !strings.Contains(got, "/params/limit") ||
		answer.Error.Code != fault.BadArguments {
		t.Errorf("%v at %s: %s", answer.Error, got, answer.JSON)
	}
	if reported := gjson.GetBytes(answer.JSON, "error.faults.#").Int(); reported != 3 {
		t.Errorf("%d faults are told: %s", reported, answer.JSON)
	}
}

// TestCallGivesUpInOrder: the schema gives way to the signature, and that to nothing, before the code does.
func TestCallGivesUpInOrder(t *testing.T) {
	t.Parallel()
	wide := make([]string, 60)
	for i := range wide {
		wide[i] = fmt.Sprintf(`"argument%d":{"type":"string","description":"One of many."}`, i)
	}
	e := engineOf(t, []steps.Function{{Spec: steps.Spec{Name: "do.wide", Input: schema(strings.Join(wide, ","), "argument0")},
		Call: func(context.Context, []byte) ([]byte, error) { return []byte("1"), nil }}}, chain.Options{}, true)
	for limit, want := range map[int]string{2000: "inputSchema", 400: "signature", 150: ""} {
		answer := e.Call(context.Background(), &chain.Call{Function: "do.wide", Args: []byte(`{"argument0":1}`), MaxTotalTokens: limit}, nil)
		got := gjson.GetBytes(answer.JSON, "error")
		if got.Get("code").Str != "bad_arguments" || got.Get("at").Str != "/argument0" {
			t.Errorf("%d: %s", limit, answer.JSON)
		}
		for _, name := range []string{"inputSchema", "signature"} {
			if got.Get(name).Exists() != (name == want) {
				t.Errorf("%d: %s: %s", limit, name, answer.JSON)
			}
		}
	}
}

// TestCallOfAWrite has the lean form, unless Verify, and the whole may be fetched by a chain or by a call.
func TestCallOfAWrite(t *testing.T) {
	t.Parallel()
	e := engineOf(t, writingFunctions(), chain.Options{}, true)
	args, _ := json.Marshal(map[string]string{"answer": objects(60)})
	answer := e.Call(context.Background(), &chain.Call{Function: "do.write", Args: args}, nil)
	token := gjson.GetBytes(answer.JSON, "result.continuation_token").Str
	if !answer.OK || gjson.GetBytes(answer.JSON, "result.accepted").Int() != 60 || token == "" {
		t.Fatal(string(answer.JSON))
	}
	whole := e.Call(context.Background(), &chain.Call{Function: "do.write", Args: args, Verify: true}, nil)
	if gjson.GetBytes(whole.JSON, "result.#").Int() != 60 {
		t.Errorf("verify: %.200s", whole.JSON)
	}
	fetch := fmt.Sprintf(`{"continuation_token":%q,"query":"$result[59].id","lite":true}`, token)
	if answer := e.Run(context.Background(), []byte(fetch), nil); string(answer.JSON) != "1059" {
		t.Errorf("run: %s", answer.JSON)
	}
}

// TestCallNeverRunsAToken: arguments with a continuation token of onecall fetch, wherever it stands and whatever stands
// beside it; the function is not called. Those of others are arguments like any.
func TestCallNeverRunsAToken(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := engine(t, w, chain.Options{MaxTotalTokens: 300})
	answer := e.Call(context.Background(), &chain.Call{Function: "test.items", Args: []byte(`{"n":500}`)}, nil)
	token := gjson.GetBytes(answer.JSON, "result.continuation_token").Str
	if token == "" || len(w.seen()) != 1 {
		t.Fatal(string(answer.JSON))
	}
	for args, want := range map[string]string{
		`{"continuation_token":"T","query":"total","lite":true}`:            "500",
		`{"params":{"continuation_token":"T","query":"total","lite":true}}`: "500",
		`{"continuation_token":"T","n":500}`:                                `"code":"unknown_field","at":"/params/n"`,
		`{"continuation_token":"oc1_0","n":500}`:                            `"code":"unknown_field"`,
		`{"continuation_token":"oc1_0"}`:                                    `"code":"token_expired"`,
		`{"params":{"continuation_token":"T","page":"abc"}}`:                `"code":"bad_page","at":"/params/params/page"`,
	} {
		args = strings.ReplaceAll(args, `"T"`, `"`+token+`"`)
		for _, fn := range []string{"test.items", "test.write", "test.echo", "no.such"} {
			answer := e.Call(context.Background(), &chain.Call{Function: fn, Args: []byte(args), At: "/params"}, nil)
			if !strings.Contains(string(answer.JSON), want) {
				t.Errorf("%s %s: %s", fn, args, answer.JSON)
			}
		}
	}
	if calls := w.seen(); len(calls) != 1 {
		t.Fatalf("called again: %v", calls[1:])
	}
	yes := true
	answer = e.Call(context.Background(), &chain.Call{Function: "test.echo",
		Args: []byte(`{"continuation_token":"AQ==","params":{"continuation_token":7}}`), Lite: &yes}, nil)
	if string(answer.JSON) != `{"continuation_token":"AQ==","params":{"continuation_token":7}}` {
		t.Errorf("another's token: %s", answer.JSON)
	}
}

// TestRunNeverRunsAToken is the same for chains, with the words of the contract.
func TestRunNeverRunsAToken(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := engine(t, w, chain.Options{MaxTotalTokens: 300})
	answer := e.Run(context.Background(), []byte(`{"steps":[{"fn":"test.items","args":{"n":500}}]}`), &chain.Caller{ID: "a"})
	token := gjson.GetBytes(answer.JSON, "result.continuation_token").Str
	step := `"steps":[{"fn":"test.write","args":{"value":1}}]`
	for request, want := range map[string]string{
		`{"params":{"continuation_token":"T"},"steps":null}`:                                 `"code":"bad_request","at":"/params/continuation_token"`,
		`{"params":{"continuation_token":"T","query":"total","lite":true}}`:                  "500",
		`{"lite":true,"params":{"continuation_token":"T","query":"total","lite":true}}`:      "500",
		`{"continuation_token":"T","query":"total","lite":true}`:                             "500",
		`{"continuation_token":"T",` + step + `}`:                                            `"code":"bad_request","at":"/continuation_token"`,
		`{"continuation_token":"anything",` + step + `}`:                                     `"code":"bad_request","at":"/continuation_token"`,
		`{"params":{"continuation_token":"T"},` + step + `}`:                                 `"code":"bad_request","at":"/params/continuation_token"`,
		`{"continuation_token":7}`:                                                           `"code":"bad_request","at":"/continuation_token"`,
		`{"continuation_token":"anything"}`:                                                  `"message":"Continuation token expired or not found. Re-invoke without continuation_token to start a new negotiation."`,
		`{"params":{"continuation_token":{"type":"string","default":"oc1_1"}},` + step + `}`: `"ok":true`,
	} {
		before := len(w.seen())
		answer := e.Run(context.Background(), []byte(strings.ReplaceAll(request, `"T"`, `"`+token+`"`)), &chain.Caller{ID: "a"})
		if !strings.Contains(string(answer.JSON), want) {
			t.Errorf("%s: %s", request, answer.JSON)
		}
		if ran := len(w.seen()) > before; ran != (want == `"ok":true`) {
			t.Errorf("%s: ran %t", request, ran)
		}
	}
	if answer := e.Run(context.Background(), fmt.Appendf(nil, `{"continuation_token":%q}`, token),
		&chain.Caller{ID: "b"}); codeOf(answer) != fault.TokenExpired {
		t.Errorf("another caller: %s", answer.JSON)
	}
}

// TestCallEnds: a call has its function's time, ends with its caller, and tells how far it is.
func TestCallEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := engine(t, &world{}, chain.Options{StepTimeout: time.Second})
		slow := &chain.Call{Function: "test.sleep", Args: []byte(`{"ms":60000}`), At: "/params"}
		started := time.Now()
		answer := e.Call(context.Background(), slow, nil)
		if codeOf(answer) != fault.Timeout || time.Since(started) > 2*time.Second || answer.Error.At != "" {
			t.Errorf("after %v: %s", time.Since(started), answer.JSON)
		}
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Millisecond, cancel)
		var reports []chain.Progress
		caller := &chain.Caller{Progress: func(p chain.Progress) { reports = append(reports, p) }}
		if answer := e.Call(ctx, slow, caller); codeOf(answer) != fault.Cancelled {
			t.Errorf("cancelled: %s", answer.JSON)
		}
		if len(reports) != 2 || reports[1].Done != 1 || reports[1].Total != 1 || !reports[1].Ended || reports[1].Function != "test.sleep" {
			t.Errorf("progress: %+v", reports)
		}
	})
}

// TestCallOfAHiddenFunction: nothing of it in any byte.
func TestCallOfAHiddenFunction(t *testing.T) {
	t.Parallel()
	w := &world{}
	e := engine(t, w, chain.Options{})
	view := registryOf(t, w).View(func(s *steps.Spec) bool { return s.Name != "test.write" })
	for _, name := range []string{"test.write", "write", "test_write", "test.wrte", "TESTWRITE"} {
		answer := e.Call(context.Background(), &chain.Call{Function: name, Args: []byte(`{"value":1,"x":2}`)}, &chain.Caller{Functions: view})
		rest := strings.ReplaceAll(string(answer.JSON), fmt.Sprintf("%q", name), "")
		rest = strings.ReplaceAll(rest, fmt.Sprintf(`\"%s\"`, name), "")
		if codeOf(answer) != fault.UnknownFunction || strings.Contains(rest, "write") || strings.Contains(rest, "repoId") {
			t.Errorf("%s: %s", name, answer.JSON)
		}
	}
	if len(w.seen()) > 0 {
		t.Errorf("called %v", w.seen())
	}
}

// TestNoCallPassesItsBudget holds for any call and any delivery: no answer costs more than its budget, and a failure keeps its
// code.
func TestNoCallPassesItsBudget(t *testing.T) {
	t.Parallel()
	counter, err := budget.NewCounter("", 0)
	if err != nil {
		t.Fatal(err)
	}
	functions := append((&world{}).functions(), writingFunctions()...)
	e := engineOf(t, functions, chain.Options{}, true)
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.OneOf(rapid.Just(budget.MinTokens), rapid.IntRange(budget.MinTokens, 2000)).Draw(t, "limit")
		lite := rapid.Bool().Draw(t, "lite")
		value, err := json.Marshal(drawValue(2).Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		caller := &chain.Caller{Label: rapid.SampledFrom([]string{"", "a label", strings.Repeat("𓀀", 100)}).Draw(t, "label")}
		var answer *chain.Answer
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			answer = e.Deliver(context.Background(), value, &chain.Delivery{MaxTotalTokens: limit}, caller)
			lite = true
		case 1: // any arguments, most of which do not fit
			name := rapid.SampledFrom([]string{"test.card.get", "test.write", "test.fail", "test.get", "test.nothing",
				strings.Repeat("𓀀", 100)}).Draw(t, "name")
			args := []byte(`{"cardId":` + string(value) + `,"message":` + string(value) + `,"x":1}`)
			answer = e.Call(context.Background(), &chain.Call{Function: name, Args: args, At: "/params", Lite: &lite, MaxTotalTokens: limit}, caller)
		case 2:
			answer = e.Call(context.Background(), &chain.Call{Function: "test.get", Args: []byte(`{"value":` + string(value) + `}`), Lite: &lite,
				MaxTotalTokens: limit}, caller)
		default: // a write, in its lean form where it is long
			name := rapid.SampledFrom([]string{"do.write", "do.destroy", "do.heavyWrite"}).Draw(t, "name")
			id, _ := json.Marshal(drawValue(0).Draw(t, "id"))
			made := `{"id":` + string(id) + `,"name":` + string(id) + `,"url":` + string(id) + `,"more":` + string(value) + `}`
			args, _ := json.Marshal(map[string]string{"answer": made})
			if rapid.Bool().Draw(t, "chain") {
				answer = e.Run(context.Background(), fmt.Appendf(nil, `{"lite":%t,"budget":{"maxTotalTokens":%d},"steps":[{"fn":"test.fail","orElse":1},{"fn":%q,"args":{"answer":"$input.a"}}],"input":{"a":%s}}`,
					lite, limit, name, gjson.GetBytes(args, "answer").Raw), caller)
			} else {
				answer = e.Call(context.Background(), &chain.Call{Function: name, Args: args, Lite: &lite, MaxTotalTokens: limit}, caller)
			}
			isLean := strings.Contains(string(answer.JSON), `"continuation_token":"oc1_`) && !strings.Contains(string(answer.JSON), `"preview":`)
			long := counter.Count([]byte(made), -1) > 100
			may := long && name != "do.heavyWrite" && (name == "do.destroy" || strings.Trim(string(id), `"`) != "" &&
				strings.ContainsAny(string(id[:1]), `"-0123456789`))
			must := may && (name == "do.destroy" || len(id) <= 40) // a dear id is left out
			if answer.OK && (isLean && !may || must && !isLean) {
				t.Fatalf("lean is %t for %d bytes: %s", isLean, len(made), answer.JSON)
			}
		}
		if !json.Valid(answer.JSON) {
			t.Fatalf("not JSON: %s", answer.JSON)
		}
		cost := counter.Count(answer.JSON, -1)
		if cost > limit {
			t.Fatalf("the answer costs %d of %d: %s", cost, limit, answer.JSON)
		}
		if answer.OK && lite {
			return
		}
		if reported := gjson.GetBytes(answer.JSON, "usage.tokens").Int(); int(reported) != cost {
			t.Fatalf("the answer says %d and costs %d: %s", reported, cost, answer.JSON)
		}
		if code := gjson.GetBytes(answer.JSON, "error.code").Str; !answer.OK && fault.Code(code) != answer.Error.Code {
			t.Fatalf("the code %s was lost: %s", answer.Error.Code, answer.JSON)
		}
		if strings.Contains(string(answer.JSON), `"/steps/0/args`) {
			t.Fatalf("a step's place: %s", answer.JSON)
		}
	})
}

// FuzzCall hands any bytes to a call as arguments: no panic, and what is wrong has a code of the closed list.
func FuzzCall(f *testing.F) {
	for _, args := range []string{`{}`, ``, `[`, `{"value":1}`, `{"continuation_token":"oc1_1"}`, `{"params":{"continuation_token":"oc1_1"}}`,
		`{"cardId":"$0.x","limit":0}`} {
		f.Add("test.card.get", args, "/params", 0)
	}
	w := &world{}
	e := engine(f, w, chain.Options{MaxTotalTokens: 1000})
	f.Fuzz(func(t *testing.T, name, args, at string, limit int) {
		if len(args) > 1<<16 || strings.Contains(name, "s") && strings.Contains(strings.ToLower(name), "t") && strings.ContainsAny(name, "bBlL") {
			return // test.stubborn and test.sleep would take their time
		}
		answer := e.Call(context.Background(), &chain.Call{Function: name, Args: []byte(args), At: at, MaxTotalTokens: limit}, nil)
		if !json.Valid(answer.JSON) || gjson.GetBytes(answer.JSON, "usage.tokens").Int() > 1000 {
			t.Fatalf("%s", answer.JSON)
		}
		if !answer.OK && answer.Error.Code == fault.Internal && !strings.Contains(string(answer.JSON), "test.") {
			t.Fatalf("a defect: %s", answer.JSON)
		}
	})
}
