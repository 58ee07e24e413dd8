package chain_test

import (
	"context"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
)

// TestTextInAnObjectIsPaged follows the advice in the refusal of `paginated`, to the end of the text.
func TestTextInAnObjectIsPaged(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 200 {
		text.WriteString("line " + strconv.Itoa(i) + " of a file\n")
	}
	value, _ := json.Marshal(map[string]any{"path": "a/file", "the text": text.String(), "size": text.Len()})
	e := engine(t, &world{}, chain.Options{MaxTotalTokens: 1000})
	run := func(request string) gjson.Result {
		t.Helper()
		return gjson.ParseBytes(e.Run(context.Background(), []byte(request), nil).JSON)
	}
	token := run(`{"steps":[{"fn":"test.get","args":{"value":` + string(value) + `}}]}`).Get("result.continuation_token").Str
	refused := run(`{"continuation_token":"` + token + `","mode":"paginated"}`)
	if refused.Get("error.code").Str != string(fault.BadMode) {
		t.Fatalf("paginated: %s, want bad_mode", refused)
	}
	query := regexp.MustCompile(`Use query (.+?) for`).FindStringSubmatch(refused.Get("error.message").Str)
	if query == nil {
		t.Fatalf("the refusal advises no query: %s", refused)
	}
	quoted, _ := json.Marshal(query[1])
	token = run(`{"continuation_token":"` + token + `","mode":"query","query":` + string(quoted) + `}`).Get("result.continuation_token").Str
	var got strings.Builder
	for page := 1; ; page++ {
		answer := run(`{"continuation_token":"` + token + `","mode":"paginated","page_size":50,"page":` + strconv.Itoa(page) + `}`)
		for _, line := range answer.Get("result.items").Array() {
			got.WriteString(line.Str)
		}
		if !answer.Get("result.has_more").Bool() {
			break
		}
	}
	if got.String() != text.String() {
		t.Errorf("the joined pages have %d bytes, want %d", got.Len(), text.Len())
	}
}

// TestFullIsOfferedIfItFits: a probe offers the mode full exactly if a fetch with the largest budget returns the whole value.
func TestFullIsOfferedIfItFits(t *testing.T) {
	t.Parallel()
	offered := map[bool]int{}
	for n := 20; n <= 60; n += 5 {
		e := engine(t, &world{}, chain.Options{MaxTotalTokens: 400})
		first := gjson.ParseBytes(e.Run(context.Background(), []byte(`{"budget":{"maxTotalTokens":150},"steps":[{"fn":"test.items","args":{"n":`+strconv.Itoa(n)+`}}]}`), nil).JSON)
		modes := first.Get("result.available_modes")
		if !modes.Exists() {
			t.Fatalf("%d items: got %s, want a probe", n, first)
		}
		full := modes.Get(`#(=="full")`).Exists()
		offered[full]++
		whole := e.Run(context.Background(), []byte(`{"lite":true,"mode":"full","continuation_token":"`+first.Get("result.continuation_token").Str+`"}`), nil)
		if whole.OK != full {
			t.Errorf("%d items: full is offered: %t, want %t, as the fetch succeeds: %.200s", n, full, whole.OK, whole.JSON)
		}
	}
	if offered[true] == 0 || offered[false] == 0 {
		t.Errorf("full offered %v: the test needs both cases", offered)
	}
}
