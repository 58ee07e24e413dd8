package chain

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// resuming are the fields that say how an earlier run goes on, and are no part of its chain.
var resuming = []string{"resume", "replace", "assume", "approve", "undo"}

// resumption is what a request says of an earlier run, beside its chain.
type resumption struct {
	assume  []byte
	approve string
	undo    bool
}

// takeUp gives the chain of a request that goes on with an earlier run: the run's, in which each field that was sent takes the place of
// its own. Any other request stays as it is.
func (s *exchange) takeUp(ctx context.Context, root gjson.Result) (gjson.Result, *fault.Error) {
	sent := newTable([]byte(root.Raw))
	if s.o.Journal == nil || !sent.has("resume") && !sent.has("key") {
		return root, nil
	}
	id, f := s.runOf(ctx, root)
	if id == "" || f != nil {
		return root, f
	}
	if f := s.said.read(sent); f != nil {
		return root, f
	}
	past, f := s.take(ctx, id, root.Get("dryRun").Bool() || s.override.DryRun)
	if f != nil {
		if sent.has("resume") {
			return root, f.Under("/resume")
		}
		return root, f.Under("/key")
	}
	merged, f := overlay(past.Chain, sent)
	if f != nil {
		s.giveUp()
		return root, f
	}
	return gjson.ParseBytes(merged), nil
}

func (r *resumption) read(sent *table) *fault.Error {
	if assume := gjson.Parse(sent.get("assume")); assume.IsObject() {
		r.assume = []byte(assume.Raw)
	} else if assume.Type != gjson.Null {
		return fault.New(fault.BadRequest, "must be an object of outcomes by place, as writes names them%s", insteadOf("object", assume)).Under("/assume")
	}
	if approve := gjson.Parse(sent.get("approve")); approve.Type == gjson.String {
		r.approve = approve.Str
	} else if approve.Type != gjson.Null {
		return fault.New(fault.BadRequest, "must be the text that an answer had as approve%s", insteadOf("string", approve)).Under("/approve")
	}
	undo := gjson.Parse(sent.get("undo"))
	if r.undo = undo.Type == gjson.True; !r.undo && undo.Type != gjson.Null && undo.Type != gjson.False {
		return fault.New(fault.BadRequest, "must be true or false%s", insteadOf("boolean", undo)).Under("/undo")
	}
	return nil
}

// runOf finds the run that a request goes on with; "": there is none.
func (s *exchange) runOf(ctx context.Context, root gjson.Result) (id string, f *fault.Error) {
	if resume := root.Get("resume"); resume.Exists() && resume.Type != gjson.Null {
		if resume.Type != gjson.String {
			return "", fault.New(fault.BadRequest, "must be the text that a failed answer had as resume%s", insteadOf("string", resume)).Under("/resume")
		}
		if resume.Str == "" {
			return "", fault.New(fault.BadRequest, "is empty: send the text that a failed answer had as resume, or leave it out to begin anew").Under("/resume")
		}
		return resume.Str, nil
	}
	key := root.Get("key")
	if key.Type != gjson.String || key.Str == "" {
		return "", nil // what is wrong with it is found where fields are decoded
	}
	id, err := s.o.Journal.Find(ctx, s.owner, s.o.Scope, key.Str)
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		return "", unwritten(err, "nothing was run").Under("/key")
	}
	return id, nil
}

// take takes the run's lease; of a dry run it only looks.
func (s *exchange) take(ctx context.Context, id string, dry bool) (*journal.Past, *fault.Error) {
	owner := &s.owner
	if s.override.Operator {
		owner = nil
	}
	take := s.o.Journal.Take
	if dry {
		take = s.o.Journal.Read
	}
	past, err := take(ctx, id, owner)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return nil, noSuchRun()
	case errors.Is(err, journal.ErrBusy):
		return nil, fault.New(fault.Busy, "this run goes on: ask again when it has ended")
	case errors.Is(err, journal.ErrUnreadable):
		return nil, fault.New(fault.Internal, "nothing was run: %v", err)
	case err != nil:
		return nil, unwritten(err, "nothing was run")
	case past.Scope != s.o.Scope:
		if !dry {
			s.o.Journal.GiveBack(past)
		}
		return nil, s.elsewhere(past)
	}
	if s.taken = past; dry {
		s.looked, s.taken = past, nil
	}
	switch {
	case past.Row.Status == journal.Undone && !s.said.undo:
		s.giveUp()
		return nil, notResumable("this run was undone: send the chain again, under another key")
	case past.Row.Status == journal.OK && past.Row.Key == "" && !s.said.undo:
		s.giveUp()
		return nil, notResumable("this run has ended well: nothing is left to do")
	}
	return past, nil
}

func noSuchRun() *fault.Error {
	return notResumable("there is no such run of yours, or it is not kept any more: send the chain again without resume")
}

// elsewhere is the fault for a run of another scope: its calls went to functions that may have the names of these, and are others.
func (s *exchange) elsewhere(past *journal.Past) *fault.Error {
	switch {
	case !s.override.Operator:
		return noSuchRun()
	case past.Scope == "":
		return fault.New(fault.BadRequest, "nothing was run: this run was made without a configuration file; go on with it in a folder that has none")
	}
	return fault.New(fault.BadRequest, "nothing was run: this run was made with another configuration: add --config %s", past.Scope)
}

func notResumable(why string) *fault.Error {
	return fault.New(fault.TokenExpired, "%s", why)
}

// giveUp gives back a run that was taken and is not resumed.
func (s *exchange) giveUp() {
	if s.taken != nil {
		s.o.Journal.GiveBack(s.taken)
		s.taken = nil
	}
}

// overlay is a chain in which each field that was sent takes the place of its own. Steps that are sent bring their `return` with
// them; `replace` brings single steps, by number or id.
func overlay(chain []byte, sent *table) ([]byte, *fault.Error) {
	merged := newTable(chain)
	if sent.has("steps") {
		merged.remove("return")
		if sent.has("replace") {
			return nil, fault.New(fault.BadRequest, "replace stands beside steps: send all steps, or the ones to replace").Under("/replace")
		}
	}
	for _, m := range sent.list {
		switch {
		case m.name == "replace" && m.raw != "null":
			steps, f := replaced(gjson.Parse(merged.get("steps")), gjson.Parse(m.raw))
			if f != nil {
				return nil, f
			}
			merged.set("steps", steps)
		case !slices.Contains(resuming, m.name):
			merged.set(m.name, m.raw)
		}
	}
	return appendObject(nil, merged.list), nil
}

// replaced is an array of steps, some of them replaced.
func replaced(steps, by gjson.Result) (string, *fault.Error) {
	if !by.IsObject() {
		return "", fault.New(fault.BadRequest, "must be an object of whole steps by their number or id, as in {\"2\":{\"fn\":…}}%s", insteadOf("object", by)).Under("/replace")
	}
	list := steps.Array()
	var known []string
	for i, step := range list {
		known = append(known, strconv.Itoa(i))
		if id := step.Get("id").Str; id != "" {
			known = append(known, id)
		}
	}
	var f *fault.Error
	by.ForEach(func(key, step gjson.Result) bool {
		n, err := strconv.Atoi(key.Str)
		if err != nil {
			n = slices.IndexFunc(list, func(s gjson.Result) bool { return s.Get("id").Str == key.Str })
		}
		if n < 0 || n >= len(list) {
			f = fault.New(fault.BadRequest, "the run has no step %s", fault.ClipRunes(key.Str, 60)).Under(fault.Key("/replace", key.Str))
			f.Available, f.Nearest = known, fault.Nearest(key.Str, known, 1)
			return false
		}
		list[n] = step
		return true
	})
	text := []byte{'['}
	for i, step := range list {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, step.Raw...)
	}
	return string(append(text, ']')), f
}

// settle ends the run that an answer is of. One that failed can be resumed from then on.
func (d *draft) settle(status journal.Status) {
	s := d.exchange
	if s.record == nil || d.err == nil {
		return
	}
	if d.run != nil && len(d.run.awaited) > 0 {
		status = journal.Waiting
	}
	code := d.err.Code
	if code == fault.ResumeConflict && s.record.Past().Row.Status == journal.OK { // another chain with its key changes nothing of it
		status, code = journal.OK, ""
	}
	if s.record.Settle(status, code) != nil || s.own != nil {
		return
	}
	s.resume = s.record.ID()
	if status != journal.Waiting {
		return
	}
	past := s.record.Past()
	s.question = questionOf(s.o.Journal, past, d.run.awaited)
	if !s.o.ApproveByPerson {
		s.approves = approveOf(s.o.Journal, past)
	}
}

// answered tells the journal what the answer of a run cost.
func (s *exchange) answered(a *Answer) {
	s.giveUp()
	a.Question = s.question
	if s.record == nil {
		return
	}
	if a.Error != nil && s.resume == "" {
		_ = s.record.Settle(journal.Failed, a.Error.Code) // no answer has told of it, as something broke
	}
	tokens, kept := s.cost, 0
	if tokens == 0 {
		tokens = s.roughly(a.JSON)
	}
	if s.ran != nil {
		kept = s.ran.intermediate()
	}
	s.record.Answered(tokens, kept)
	if s.own != nil {
		_ = s.own.Close() // nothing is lost with it
	}
}
