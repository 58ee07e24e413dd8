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
)

// TestCallEnds: a call has its function's timeout, ends when its caller leaves, and reports its progress.
func TestCallEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := engine(t, &world{}, chain.Options{StepTimeout: time.Second})
		slow := &chain.Call{Function: "test.sleep", Args: []byte(`{"ms":60000}`), At: "/params"}
		started := time.Now()
		answer := e.Call(context.Background(), slow, nil)
		if codeOf(answer) != fault.Timeout || time.Since(started) > 2*time.Second || answer.Error.At != "" {
			t.Errorf("timeout after %v: %s, want timeout after 1s, without a place", time.Since(started), answer.JSON)
		}
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Millisecond, cancel)
		var reports []chain.Progress
		caller := &chain.Caller{Progress: func(p chain.Progress) { reports = append(reports, p) }}
		if answer := e.Call(ctx, slow, caller); codeOf(answer) != fault.Cancelled {
			t.Errorf("answer of a cancelled call: %s, want cancelled", answer.JSON)
		}
		if len(reports) != 2 || reports[1].Done != 1 || reports[1].Total != 1 || !reports[1].Ended || reports[1].Function != "test.sleep" {
			t.Errorf("progress: %+v, want two, the second 1 of 1, ended, of test.sleep", reports)
		}
	})
}

// TestNoCallPassesItsBudget checks for random calls and deliveries that no answer costs more than its budget, and that a failure keeps its
// code.
func TestNoCallPassesItsBudget(t *testing.T) {
	t.Parallel()
	counter := newCounter(t, 0)
	functions := append((&world{}).functions(), writingFunctions()...)
	e := engineOf(t, functions, chain.Options{}, true)
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.OneOf(rapid.Just(budget.MinTokens), rapid.IntRange(budget.MinTokens, 2000)).Draw(t, "limit")
		lite := rapid.Bool().Draw(t, "lite")
		value, err := json.Marshal(drawValue(2).Draw(t, "value"))
		must(t, err)
		caller := &chain.Caller{Label: rapid.SampledFrom([]string{"", "a label", strings.Repeat("𓀀", 100)}).Draw(t, "label")}
		var answer *chain.Answer
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			answer = e.Deliver(context.Background(), value, &chain.Delivery{MaxTotalTokens: limit}, caller)
			lite = true
		case 1: // any arguments, most of which do not match the schema
			name := rapid.SampledFrom([]string{"test.card.get", "test.write", "test.fail", "test.get", "test.nothing",
				strings.Repeat("𓀀", 100)}).Draw(t, "name")
			args := []byte(`{"cardId":` + string(value) + `,"message":` + string(value) + `,"x":1}`)
			answer = e.Call(context.Background(), &chain.Call{Function: name, Args: args, At: "/params", Lite: &lite, MaxTotalTokens: limit}, caller)
		case 2:
			answer = e.Call(context.Background(), &chain.Call{Function: "test.get", Args: []byte(`{"value":` + string(value) + `}`), Lite: &lite,
				MaxTotalTokens: limit}, caller)
		default: // a write, in its lean form if it is long
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
			isLong := counter.Count([]byte(made), -1) > 100
			mayBeLean := isLong && name != "do.heavyWrite" && (name == "do.destroy" || strings.Trim(string(id), `"`) != "" &&
				strings.ContainsAny(string(id[:1]), `"-0123456789`))
			mustBeLean := mayBeLean && (name == "do.destroy" || len(id) <= 40) // an expensive id is left out
			if answer.OK && (isLean && !mayBeLean || mustBeLean && !isLean) {
				t.Fatalf("lean form used: %t, want %t, for %d bytes: %s", isLean, !isLean, len(made), answer.JSON)
			}
		}
		if !json.Valid(answer.JSON) {
			t.Fatalf("the answer is not JSON: %s", answer.JSON)
		}
		cost := counter.Count(answer.JSON, -1)
		if cost > limit {
			t.Fatalf("the answer costs %d tokens, want at most %d: %s", cost, limit, answer.JSON)
		}
		if answer.OK && lite {
			return
		}
		if reported := gjson.GetBytes(answer.JSON, "usage.tokens").Int(); int(reported) != cost {
			t.Fatalf("the answer reports %d tokens, want %d, which it costs: %s", reported, cost, answer.JSON)
		}
		if code := gjson.GetBytes(answer.JSON, "error.code").Str; !answer.OK && fault.Code(code) != answer.Error.Code {
			t.Fatalf("the answer lacks the code %s: %s", answer.Error.Code, answer.JSON)
		}
		if strings.Contains(string(answer.JSON), `"/steps/0/args`) {
			t.Fatalf("the answer to a call names a step: %s", answer.JSON)
		}
	})
}

// FuzzCall passes arbitrary bytes to a call as arguments: nothing panics, and faults have a code of the closed list.
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
			t.Fatalf("got %s, want JSON of at most 1000 tokens", answer.JSON)
		}
		if !answer.OK && answer.Error.Code == fault.Internal && !strings.Contains(string(answer.JSON), "test.") {
			t.Fatalf("got %s, want no internal fault", answer.JSON)
		}
	})
}
