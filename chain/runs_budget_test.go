package chain_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
)

// TestApprovalWithinBudget: however many calls wait, the answer fits the minimum budget, and its caller can continue with it.
func TestApprovalWithinBudget(t *testing.T) {
	t.Parallel()
	b := &bin{items: map[string]string{}}
	engine := engineOf(t, b.functions(), chain.Options{Journal: newJournal(t, nil)}, true)
	for _, limit := range []int{150, 300, 1000} {
		a := engine.Run(t.Context(), fmt.Appendf(nil, `{"budget":{"maxTotalTokens":%d},"steps":[{"fn":"bin.put","args":{"key":"free"}},
			{"fn":"bin.guarded","forEach":"1..300","args":{"key":"$item"}}]}`, limit), nil)
		report := gjson.ParseBytes(a.JSON)
		if n := report.Get("usage.tokens").Int(); n > int64(limit) || report.Get("error.code").Str != "approval_required" ||
			report.Get("resume").Str == "" || report.Get("approve").Str == "" {
			t.Errorf("limit %d: %s, want approval_required within it, with resume and approve", limit, a.JSON)
		}
		token := report.Get("error.continuation_token").Str
		page := engine.Run(t.Context(), fmt.Appendf(nil, `{"continuation_token":%q,"mode":"full","lite":true}`, token), nil)
		if n := len(gjson.ParseBytes(page.JSON).Array()); n != 300 {
			t.Errorf("limit %d: the list has %d calls, want 300: %.300s", limit, n, page.JSON)
		}
	}
}

// TestUndoneBeyondBudget: if an answer has no room for each write, it reports their number by outcome, including undone ones.
func TestUndoneBeyondBudget(t *testing.T) {
	t.Parallel()
	s := newScriptedEngine(t, nil, func(_ string, args gjson.Result) ([]byte, error) {
		if k := args.Get("k").Int(); k == 60 || args.Get("id").Int()%10 == 9 {
			return nil, refuses()
		}
		return []byte(`{"id":` + args.Get("k").Raw + `}`), nil
	})
	var list []string
	for k := range 61 {
		list = append(list, fmt.Sprintf(`{"fn":"store.put","args":{"k":%d},"undo":{"fn":"store.remove","args":{"id":"$result.id"}}}`, k))
	}
	a := s.run(fault.FunctionFailed, `{"lite":true,"budget":{"maxTotalTokens":200},"onError":"undo","steps":[%s]}`, strings.Join(list, ","))
	sums := map[string]int{}
	entries := a.Get("writes").Array()
	for _, e := range entries {
		sums[e.Get("outcome").Str] += callsOf(e)
	}
	if !maps.Equal(sums, map[string]int{"undone": 54, "applied": 6, "failed": 1}) || entries[len(entries)-1].Get("step").Exists() {
		t.Errorf("reported writes %v, want 54 undone, 6 applied and 1 failed, the last without a step: %s", sums, a.Raw)
	}
}
