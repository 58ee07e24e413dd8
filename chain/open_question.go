package chain

import (
	"context"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/internal/ledger"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// OpenQuestion asks about the calls of one function for whose approval a run waits. Unlike a Question it is no part of an answer, and those
// of a run can be answered one by one, in any process (Engine.Reply).
type OpenQuestion struct {
	Key   string // identifies the run, exactly these calls and this time of waiting for them; it cannot be forged
	Calls []ApprovalCall
}

// OpenQuestions returns what a run of a caller (nil: the zero Caller) asks: nothing if it does not wait for approval. decided reports
// whether calls that it waited for were decided about since it stopped: it goes on when it is resumed. It fails with token_expired as
// DetachedRun does.
func (e *Engine) OpenQuestions(ctx context.Context, run string, c *Caller) (list []OpenQuestion, decided bool, f *fault.Error) {
	s := e.newRequest(c)
	if e.o.Journal == nil {
		return nil, false, ledger.NoSuchRun()
	}
	past, f := s.ledger.Take(ctx, run, true)
	if f != nil {
		return nil, false, f
	}
	for _, g := range ledger.Groups(e.o.Journal, past) {
		list = append(list, OpenQuestion{Key: g.Key, Calls: storedCalls(g.Calls)})
	}
	if len(list) > 0 {
		s.showUnknown()
	}
	return list, ledger.WasDecided(past), nil
}

// storedCalls returns the calls that a run waits for, as the journal has them.
func storedCalls(list []gjson.Result) []ApprovalCall {
	calls := make([]ApprovalCall, len(list))
	for i := range list {
		effect, _ := steps.ParseEffect(list[i].Get("effect").Str) // it was written by String
		calls[i] = ApprovalCall{StepPath: list[i].Get("at").Str, ID: list[i].Get("id").Str, Function: list[i].Get("fn").Str, Effect: effect,
			Args: []byte(list[i].Get("args").Raw)}
		if undo := list[i].Get("undo"); undo.Exists() {
			calls[i].Undo = []byte(undo.Raw)
		}
		for _, flow := range list[i].Get("flows").Array() {
			calls[i].Flows = append(calls[i].Flows, flow.Str)
		}
	}
	return calls
}

// Reply is what a person says about the calls of an OpenQuestion.
type Reply struct {
	Yes    bool     // the calls may be made, each once, but for those at the places in Deny; else all of them are denied
	Deny   []string // places of calls; see Ruling
	Reason string   // why; "": it is not known
}

// Reply records replies to open questions of a run of a caller (nil: the zero Caller), by their keys; other keys are ignored, since a
// question is open until it is answered. The calls of other questions keep waiting, and the run goes on when it is resumed. Pass on
// only what a person said: replies count where only a person approves, as those to a Question do. Errors: token_expired, busy,
// and bad_request if there is no call at a place.
func (e *Engine) Reply(ctx context.Context, run string, replies map[string]Reply, c *Caller) *fault.Error {
	s := e.newRequest(c)
	said := make(map[string]ledger.Reply, len(replies))
	for key, reply := range replies {
		said[key] = ledger.Reply(reply)
	}
	return s.ledger.Reply(ctx, run, said, s.caller)
}

// StopWaiting ends a run of a caller (nil: the zero Caller) that waits for approval, or was decided about and not resumed, as cancelled. It
// does nothing to another run. Errors: token_expired, busy.
func (e *Engine) StopWaiting(ctx context.Context, run string, c *Caller) *fault.Error {
	return e.newRequest(c).ledger.StopWaiting(ctx, run)
}
