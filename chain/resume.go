package chain

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/plan"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// resumption has the fields of a request that concern an earlier run.
type resumption struct {
	byID    bool // the request names the run by resume, not by its key
	assume  []byte
	approve string
	undo    bool
	again   bool // the request repeats one that ended well, and is answered as that one was
}

// mergeResumed returns the chain of a request that continues an earlier run: the run's chain, in which each field that was sent replaces
// the run's own. Any other request is returned as it is.
func (s *requestState) mergeResumed(ctx context.Context, root gjson.Result) (gjson.Result, *fault.Error) {
	if s.o.Journal == nil || !root.Get("resume").Exists() && !root.Get("key").Exists() {
		return root, nil
	}
	sent := rawjson.NewTable([]byte(root.Raw))
	id, f := s.resumedRunID(ctx, root)
	if id == "" || f != nil {
		return root, f
	}
	if f := s.resumption.read(sent); f != nil {
		return root, f
	}
	s.resumption.byID = sent.Has("resume")
	past, f := s.takeRun(ctx, id, root.Get("dryRun").Bool() || s.override.DryRun)
	if f != nil {
		if sent.Has("resume") {
			return root, f.Under("/resume")
		}
		if f.Code == fault.Busy {
			f.Message += " (" + id + ")" // a caller that has lost the answer can follow the run
		}
		return root, f.Under("/key")
	}
	if f := s.checkAgain(past, sent); f != nil {
		s.releaseRun()
		return root, f.Under("/key")
	}
	merged, f := overlay(past.Chain, sent)
	if f != nil {
		s.releaseRun()
		return root, f
	}
	return gjson.ParseBytes(merged), nil
}

func (r *resumption) read(sent *rawjson.Table) *fault.Error {
	if assume := gjson.Parse(sent.Get("assume")); assume.IsObject() {
		r.assume = []byte(assume.Raw)
	} else if assume.Type != gjson.Null {
		return fault.New(fault.BadRequest, "must be an object of outcomes by place, as writes names them%s",
			decode.InsteadOf("object", assume)).Under("/assume")
	}
	if approve := gjson.Parse(sent.Get("approve")); approve.Type == gjson.String {
		r.approve = approve.Str
	} else if approve.Type != gjson.Null {
		return fault.New(fault.BadRequest, "must be the text that an answer had as approve%s",
			decode.InsteadOf("string", approve)).Under("/approve")
	}
	undo := gjson.Parse(sent.Get("undo"))
	if r.undo = undo.Type == gjson.True; !r.undo && undo.Type != gjson.Null && undo.Type != gjson.False {
		return fault.New(fault.BadRequest, "must be true or false%s", decode.InsteadOf("boolean", undo)).Under("/undo")
	}
	return nil
}

// resumedRunID returns the id of the run that a request continues, or "".
func (s *requestState) resumedRunID(ctx context.Context, root gjson.Result) (id string, f *fault.Error) {
	if resume := root.Get("resume"); resume.Exists() && resume.Type != gjson.Null {
		if resume.Type != gjson.String {
			return "", fault.New(fault.BadRequest, "must be the text that a failed answer had as resume%s",
				decode.InsteadOf("string", resume)).Under("/resume")
		}
		if resume.Str == "" {
			return "", fault.New(fault.BadRequest,
				"is empty: send the resume text of a failed answer, or leave it out to begin a new run").Under("/resume")
		}
		return resume.Str, nil
	}
	key := root.Get("key")
	if key.Type != gjson.String || key.Str == "" {
		return "", nil // decoding reports what is wrong with it
	}
	id, err := s.o.Journal.Find(ctx, s.caller, s.o.Scope, key.Str)
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		return "", journalFault(err, "nothing was run").Under("/key")
	}
	return id, nil
}

// takeRun takes the lease of a run and sets s.leasedRun. For a dry run it only reads the run, and sets s.previewedRun.
func (s *requestState) takeRun(ctx context.Context, id string, dry bool) (*journal.Past, *fault.Error) {
	caller := &s.caller
	if s.override.Operator {
		caller = nil
	}
	acquire := s.o.Journal.Acquire
	if dry {
		acquire = s.o.Journal.Read
	}
	past, err := acquire(ctx, id, caller)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return nil, noSuchRunFault()
	case errors.Is(err, journal.ErrBusy):
		return nil, fault.New(fault.Busy, "this run is still running: try again when it has ended")
	case err != nil:
		return nil, journalFault(err, "nothing was run")
	case past.Scope != s.o.Scope:
		if !dry {
			s.o.Journal.Release(past)
		}
		return nil, s.otherScopeFault(past)
	}
	if s.leasedRun = past; dry {
		s.previewedRun, s.leasedRun = past, nil
	}
	switch {
	case past.Row.Batch:
		s.releaseRun()
		return nil, notResumableFault("this run is a batch, which has no steps: resume its parts")
	case past.Row.Status == journal.Undone && !s.resumption.undo:
		s.releaseRun()
		return nil, notResumableFault("this run was undone: to make its calls again, including those that the undo left, send the chain " +
			"under another key")
	case past.Row.Status == journal.OK && past.Row.Key == "" && !s.resumption.undo:
		s.releaseRun()
		return nil, notResumableFault("this run has ended well: nothing is left to do")
	}
	return past, nil
}

func noSuchRunFault() *fault.Error {
	return notResumableFault("there is no such run of yours, or it is not kept any more: send the chain again without resume")
}

// otherScopeFault is the fault for a run of another scope, whose functions may be different ones with the same names.
func (s *requestState) otherScopeFault(past *journal.Past) *fault.Error {
	switch {
	case !s.override.Operator:
		return noSuchRunFault()
	case past.Scope == "":
		return fault.New(fault.BadRequest,
			"nothing was run: this run was made without a configuration file; continue it in a folder that has none")
	}
	return fault.New(fault.BadRequest, "nothing was run: this run was made with another configuration: add --config %s", past.Scope)
}

func notResumableFault(why string) *fault.Error {
	return fault.New(fault.TokenExpired, "%s", why)
}

// releaseRun releases the lease of a run that was taken and is not resumed.
func (s *requestState) releaseRun() {
	if s.leasedRun != nil {
		s.o.Journal.Release(s.leasedRun)
		s.leasedRun = nil
	}
}

// overlay returns a chain in which each field that was sent replaces the chain's own. If `steps` was sent, the chain's own `return` is
// dropped. `replace` replaces single steps, by number or id.
func overlay(chain []byte, sent *rawjson.Table) ([]byte, *fault.Error) {
	merged := rawjson.NewTable(chain)
	if sent.Has("steps") {
		merged.Remove("return")
		if sent.Has("replace") {
			return nil, fault.New(fault.BadRequest,
				"replace is sent together with steps: send all steps, or only the ones to replace").Under("/replace")
		}
	}
	for _, m := range sent.List {
		switch {
		case m.Name == "replace" && m.Raw != "null":
			steps, f := replaceSteps(gjson.Parse(merged.Get("steps")), gjson.Parse(m.Raw))
			if f != nil {
				return nil, f
			}
			merged.Set("steps", steps)
		case !slices.Contains(plan.ResumeFields, m.Name):
			merged.Set(m.Name, m.Raw)
		}
	}
	return rawjson.AppendObject(nil, merged.List), nil
}

// replaceSteps returns an array of steps, some of them replaced.
func replaceSteps(steps, replacements gjson.Result) (string, *fault.Error) {
	if !replacements.IsObject() {
		return "", fault.New(fault.BadRequest, "must be an object of whole steps by their number or id, as in {\"2\":{\"fn\":…}}%s",
			decode.InsteadOf("object", replacements)).Under("/replace")
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
	replacements.ForEach(func(key, step gjson.Result) bool {
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

// recordUnfinished records the end of a failed run, which can be resumed from then on. The run ends with status, except that it is
// journal.Waiting if it waits for approval or is suspended, and stays journal.OK if it had ended well and another chain with its key was
// refused. If err is nil, recordUnfinished does nothing.
func (s *requestState) recordUnfinished(err *fault.Error, status journal.Status) {
	if s.record == nil || err == nil {
		return
	}
	var waiting []facts.WaitingCall
	if s.executed != nil {
		waiting = s.executed.awaitingApproval
	}
	if len(waiting) > 0 {
		status = journal.Waiting
	}
	code, message := err.Code, err.Message
	if !s.resumes.IsZero() {
		status, code, message = journal.Waiting, "", ""
	}
	if past := s.record.Past(); past != nil && past.Row.Status == journal.OK && (s.resumption.again || code == fault.ResumeConflict) {
		status, code, message = journal.OK, "", "" // it was done, whatever became of the request that asked for the answer again
	}
	if s.record.EndUnfinished(status, code, message) != nil || s.privateJournal != nil {
		return
	}
	s.resumeToken = s.record.ID()
	if status != journal.Waiting || !s.resumes.IsZero() {
		return
	}
	past := s.record.Past()
	s.question = questionOf(s.o.Journal, past, waiting)
	if !s.o.ApproveByPerson {
		s.approveToken = approveTokenOf(s.o.Journal, past)
	}
}

// journalAnswer completes an answer with the question and the time of a resume, releases a run that was not resumed, and records what the
// answer cost.
func (s *requestState) journalAnswer(a *Answer) {
	s.releaseRun()
	a.Question, a.Resumes = s.question, s.resumes
	if s.record == nil {
		return
	}
	if a.Error != nil && s.resumeToken == "" {
		// The failure is not recorded yet: a panic, or the result was lost.
		_ = s.record.EndUnfinished(journal.Failed, a.Error.Code, a.Error.Message)
	}
	tokens, storedTokens := s.answerTokens, 0
	if tokens == 0 {
		tokens = s.form.EstimateText(a.JSON)
	}
	if s.executed != nil {
		storedTokens = s.form.IntermediateTokens(s.executed.facts())
	}
	if !s.resumes.IsZero() { // no caller reads this answer
		tokens, storedTokens = 0, 0
	}
	s.record.Answered(tokens, storedTokens)
	if s.privateJournal != nil {
		_ = s.privateJournal.Close() // its only run has ended
	}
}
