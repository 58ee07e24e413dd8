package chain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
)

// TestRefuse: faults of a front end are reported like those of a call, with their places unchanged.
func TestRefuse(t *testing.T) {
	t.Parallel()
	e := engine(t, &world{}, chain.Options{MaxTotalTokens: 200})
	first := fault.New(fault.UnknownField, "unknown field %q", "acton").Under("/steps/0/args")
	first.Nearest = []string{"action"}
	answer := e.Refuse(context.Background(), []*fault.Error{first}, nil)
	got := regexp.MustCompile(`"ms":\d+`).ReplaceAllString(strings.TrimSpace(string(normalise(answer.JSON))), `"ms":0`)
	if want := `{"ok":false,"error":{"code":"unknown_field","at":"/steps/0/args","message":"unknown field \"acton\"","nearest":"action","retryable":false},"usage":{"tokens":57,"limit":200,"calls":0,"ms":0}}`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	many := make([]*fault.Error, 50)
	for i := range many {
		many[i] = fault.New(fault.BadRequest, "number %d is wrong", i).Under(fmt.Sprintf("/steps/%d", i))
	}
	answer = e.Refuse(context.Background(), many, nil)
	reported, more := gjson.GetBytes(answer.JSON, "error.faults.#").Int(), gjson.GetBytes(answer.JSON, "error.more").Int()
	if reported+more != 50 || reported < 2 || len(answer.Faults) != 50 || codeOf(answer) != fault.BadRequest ||
		gjson.GetBytes(answer.JSON, "error.faults.0.step").Exists() {
		t.Errorf("refusal with 50 faults: %s, want bad_request, at least 2 of them and the number of the others", answer.JSON)
	}
	if answer := e.Refuse(context.Background(), nil, nil); codeOf(answer) != fault.Internal {
		t.Errorf("refusal without faults: %s, want internal", answer.JSON)
	}
}

// TestDeliver: a value that fits is answered unchanged, and any other as a probe.
func TestDeliver(t *testing.T) {
	t.Parallel()
	e := engineOf(t, writingFunctions(), chain.Options{MaxTotalTokens: 1000, ProbeAbove: 5}, true)
	small := `{ "help": "text",  "n": 1.10 }`
	if answer := e.Deliver(context.Background(), []byte(small), nil, nil); !answer.OK || string(answer.JSON) != `{"help":"text","n":1.10}` {
		t.Errorf(`small value: %s, want {"help":"text","n":1.10}`, answer.JSON)
	}
	large := objects(60)
	answer := e.Deliver(context.Background(), []byte(large), nil, &chain.Caller{ID: "a"})
	token := gjson.GetBytes(answer.JSON, "continuation_token").Str
	if !answer.OK || token == "" {
		t.Fatalf("large value: %s, want a token", answer.JSON)
	}
	fetch := fmt.Appendf(nil, `{"lite":true,"continuation_token":%q,"query":"$result[59].id"}`, token)
	if answer := e.Run(context.Background(), fetch, &chain.Caller{ID: "a"}); string(answer.JSON) != "1059" {
		t.Errorf("fetched %s, want 1059", answer.JSON)
	}
	if answer := e.Run(context.Background(), fetch, &chain.Caller{ID: "b"}); codeOf(answer) != fault.TokenExpired {
		t.Errorf("fetch by another caller: %s, want token_expired", answer.JSON)
	}
	for want, answer := range map[fault.Code]*chain.Answer{
		fault.BudgetTooSmall: e.Deliver(context.Background(), []byte(small), &chain.Delivery{MaxTotalTokens: 20}, nil),
		fault.Internal:       e.Deliver(context.Background(), []byte(`{"a":`), nil, nil),
		fault.LimitExceeded: engineOf(t, writingFunctions(), chain.Options{MaxTotalTokens: 200}, false).Deliver(context.Background(),
			[]byte(large), nil, nil),
	} {
		if codeOf(answer) != want || !json.Valid(answer.JSON) {
			t.Errorf("want %s: %s", want, answer.JSON)
		}
	}
}
