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

// assume says of the calls at places whose end the journal does not know what the shop knows; "": of several at one place it cannot be said.
func (w *deliveries) assume(t *testing.T, places []string) string {
	var said []string
	for _, place := range places {
		what := w.known(t, place)
		if len(what) == 0 {
			t.Errorf("a doubt about %s, whose end is known", place)
		}
		if len(what) != 1 {
			return ""
		}
		said = append(said, fmt.Sprintf("%q:%s", place, what[0]))
	}
	return "{" + strings.Join(said, ",") + "}"
}

// known is what the shop knows of such calls at a place: ones that put, or that remove.
func (w *deliveries) known(t *testing.T, place string) (said []string) {
	var puts []*journal.PastCall
	var keys []string
	calls := slices.DeleteFunc(w.past(t).Calls(), func(c *journal.PastCall) bool { return c.StepPath != place || !c.Writes() })
	for _, c := range calls {
		if c.Undoes == 0 {
			puts = append(puts, c)
		}
	}
	w.shop.mu.Lock()
	defer w.shop.mu.Unlock()
	for _, c := range calls {
		if c.Outcome != fault.SentUnknown {
			continue
		}
		key, undo := w.drawn.keys[place], c.Undoes != 0
		if w.drawn.rows[place] {
			key += fmt.Sprint("#", 1+slices.IndexFunc(puts, func(p *journal.PastCall) bool {
				return p == c || undo &&
					(p.Ended == c.Undoes || p.N == c.Undoes)
			}))
		}
		_, there := w.shop.items[key]
		keys = append(keys, key)
		switch {
		case undo && there, !undo && !there:
			said = append(said, `"not_sent"`)
		case undo:
			said = append(said, `"applied"`)
		default:
			said = append(said, `{"result":`+string(w.shop.receipt(key))+`}`)
		}
	}
	if len(said) == 1 {
		delete(w.shop.unknown, keys[0])
		delete(w.shop.unsure, keys[0])
	}
	return said
}

// next is the request by which the run goes on after an answer; "": what is in doubt cannot be said.
func (w *deliveries) next(t *testing.T, answer gjson.Result) string {
	if id := answer.Get("resume").Str; id != "" {
		w.id = id
	}
	resume := answer.Get("resume").Str
	switch code := fault.Code(answer.Get("error.code").Str); {
	case w.changed:
	case code == fault.ResumeConflict && resume != "":
		var places []string
		for _, place := range answer.Get("error.available").Array() {
			places = append(places, place.Str)
		}
		if said := w.assume(t, places); said != "" {
			return fmt.Sprintf(`{"resume":%q,"assume":%s}`, resume, said)
		}
		return ""
	case code == fault.ApprovalRequired && resume != "":
		return w.approve(answer)
	case resume != "" && w.random.IntN(2) == 0:
		return fmt.Sprintf(`{"resume":%q}`, resume)
	}
	return w.drawn.text
}

// approve approves the calls that wait; of some the chain is changed then, and nobody has approved what it is.
func (w *deliveries) approve(answer gjson.Result) string {
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
