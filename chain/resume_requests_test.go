package chain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// assume returns the assume of a request: what the shop knows of the calls at places whose outcome the journal does not know; "" if there
// are several such calls at one place.
func (w *resumeTest) assume(t *testing.T, positions []string) string {
	var assumed []string
	for _, position := range positions {
		results := w.known(t, position)
		if len(results) == 0 {
			t.Errorf("the request asks about %s, whose outcome is known", position)
		}
		if len(results) != 1 {
			return ""
		}
		assumed = append(assumed, fmt.Sprintf("%q:%s", position, results[0]))
	}
	return "{" + strings.Join(assumed, ",") + "}"
}

// known returns what the shop knows of the calls at a place that put or remove items: an entry for each call whose outcome the journal does
// not know.
func (w *resumeTest) known(t *testing.T, position string) (assumed []string) {
	var puts []*journal.PastCall
	var keys []string
	calls := slices.DeleteFunc(w.past(t).Calls(), func(c *journal.PastCall) bool { return c.StepPath != position || !c.Writes() })
	for _, c := range calls {
		if c.Undoes == 0 {
			puts = append(puts, c)
		}
	}
	for _, c := range calls {
		if c.Outcome != fault.SentUnknown {
			continue
		}
		key, undo := w.drawn.keys[position], c.Undoes != 0
		if w.drawn.repeats[position] {
			key += fmt.Sprint("#", 1+slices.IndexFunc(puts, func(p *journal.PastCall) bool {
				return p == c || undo &&
					(p.Ended == c.Undoes || p.N == c.Undoes)
			}))
		}
		present, _ := w.stateAt(t, key)
		exists := present > 0
		keys = append(keys, key)
		switch {
		case undo && exists, !undo && !exists:
			assumed = append(assumed, `"not_sent"`)
		case undo:
			assumed = append(assumed, `"applied"`)
		default:
			assumed = append(assumed, `{"result":`+w.receipt(position, key)+`}`)
		}
	}
	if len(assumed) == 1 {
		w.shop.mu.Lock()
		defer w.shop.mu.Unlock()
		delete(w.shop.unknown, keys[0])
		delete(w.shop.unsure, keys[0])
	}
	return assumed
}

// next returns the request that continues the run after an answer; "" if the doubt cannot be resolved.
func (w *resumeTest) next(t *testing.T, answer gjson.Result) string {
	if id := answer.Get("resume").Str; id != "" {
		w.id = id
	}
	resume := answer.Get("resume").Str
	switch code := fault.Code(answer.Get("error.code").Str); {
	case w.changed:
	case code == fault.ResumeConflict && resume != "":
		var positions []string
		for _, position := range answer.Get("error.available").Array() {
			positions = append(positions, position.Str)
		}
		if assumed := w.assume(t, positions); assumed != "" {
			return fmt.Sprintf(`{"resume":%q,"assume":%s}`, resume, assumed)
		}
		return ""
	case code == fault.ApprovalRequired && resume != "":
		return w.approve(answer)
	case resume != "" && w.random.IntN(2) == 0:
		return fmt.Sprintf(`{"resume":%q}`, resume)
	}
	return w.drawn.text
}

// approve returns a request that approves the waiting calls. Some requests also change the chain, so that its calls are not approved.
func (w *resumeTest) approve(answer gjson.Result) string {
	for _, c := range answer.Get("error.calls").Array() {
		w.shop.approved[c.Get("args").Raw]++
	}
	change, at := "", answer.Get("error.at").Str
	var step int
	if _, err := fmt.Sscanf(at, "/steps/%d", &step); err == nil && at == fmt.Sprint("/steps/", step) && w.random.IntN(3) == 0 {
		changed := strings.Replace(w.drawn.steps[step], `"note":`, `"also":1,"note":`, 1)
		change = fmt.Sprintf(`,"replace":{"%d":%s}`, step, changed)
	}
	return fmt.Sprintf(`{"resume":%q,"approve":%q%s}`, answer.Get("resume").Str, answer.Get("approve").Str, change)
}
