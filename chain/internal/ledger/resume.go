package ledger

import (
	"context"
	"errors"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// Resumption has the fields of a request that concern an earlier run.
type Resumption struct {
	ByID    bool // the request names the run by resume, not by its key
	Assume  []byte
	Approve string
	Undo    bool
	Again   bool // the request repeats one that ended well, and is answered as that one was
}

// Merge returns the chain of a request that continues an earlier run: the run's chain, in which each field that was sent replaces the run's
// own. Any other request is returned as it is. dry: the run is only looked at. setsInput: the front end sets input besides.
func (l *Ledger) Merge(ctx context.Context, root gjson.Result, dry, setsInput bool) (gjson.Result, *fault.Error) {
	if l.Journal == nil || !root.Get("resume").Exists() && !root.Get("key").Exists() {
		return root, nil
	}
	sent := rawjson.NewTable([]byte(root.Raw))
	id, f := l.resumedRunID(ctx, root)
	if id == "" || f != nil {
		return root, f
	}
	if f := l.Resumption.read(sent); f != nil {
		return root, f
	}
	l.Resumption.ByID = sent.Has("resume")
	past, f := l.Take(ctx, id, root.Get("dryRun").Bool() || dry)
	if f != nil {
		if sent.Has("resume") {
			return root, f.Under("/resume")
		}
		if f.Code == fault.Busy {
			f.Message += " (" + id + ")" // a caller that has lost the answer can follow the run
		}
		return root, f.Under("/key")
	}
	if l.Resumption.Approve != "" && past.Waiting != nil {
		if f := l.checkDenied(ctx, past, past.Waiting.Approvals); f != nil {
			l.Release()
			return root, f
		}
	}
	if f := l.checkAgain(past, sent, setsInput); f != nil {
		l.Release()
		return root, f.Under("/key")
	}
	merged, replaced, f := overlay(past.Chain, sent)
	if f != nil {
		l.Release()
		return root, f
	}
	l.Replaced = replaced
	return gjson.ParseBytes(merged), nil
}

func (r *Resumption) read(sent *rawjson.Table) *fault.Error {
	if assume := gjson.Parse(sent.Get("assume")); assume.IsObject() {
		r.Assume = []byte(assume.Raw)
	} else if assume.Type != gjson.Null {
		return fault.New(fault.BadRequest, "must be an object of outcomes by place, as writes names them%s",
			decode.InsteadOf("object", assume)).Under("/assume")
	}
	if approve := gjson.Parse(sent.Get("approve")); approve.Type == gjson.String {
		r.Approve = approve.Str
	} else if approve.Type != gjson.Null {
		return fault.New(fault.BadRequest, "must be the text that an answer had as approve%s",
			decode.InsteadOf("string", approve)).Under("/approve")
	}
	undo := gjson.Parse(sent.Get("undo"))
	if r.Undo = undo.Type == gjson.True; !r.Undo && undo.Type != gjson.Null && undo.Type != gjson.False {
		return fault.New(fault.BadRequest, "must be true or false%s", decode.InsteadOf("boolean", undo)).Under("/undo")
	}
	return nil
}

// resumedRunID returns the id of the run that a request continues, or "".
func (l *Ledger) resumedRunID(ctx context.Context, root gjson.Result) (id string, f *fault.Error) {
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
	id, err := l.Journal.Find(ctx, l.Caller, l.Scope, key.Str)
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		return "", Fault(err, "nothing was run").Under("/key")
	}
	return id, nil
}

// Take takes the lease of a run and sets l.leased. For a dry run it only reads the run, and sets l.previewed.
func (l *Ledger) Take(ctx context.Context, id string, dry bool) (*journal.Past, *fault.Error) {
	caller := &l.Caller
	if l.Operator {
		caller = nil
	}
	acquire := l.Journal.Acquire
	if dry {
		acquire = l.Journal.Read
	}
	past, err := acquire(ctx, id, caller)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return nil, NoSuchRun()
	case errors.Is(err, journal.ErrBusy):
		return nil, fault.New(fault.Busy, "this run is still running: try again when it has ended")
	case err != nil:
		return nil, Fault(err, "nothing was run")
	case past.Row.Scope != l.Scope:
		if !dry {
			l.Journal.Release(past)
		}
		return nil, l.otherScopeFault(past)
	case !steps.HasCredentials(l.Credentials, strings.Join(past.Credentials, " ")):
		if !dry {
			l.Journal.Release(past)
		}
		return nil, otherCredential(past)
	}
	if l.leased = past; dry {
		l.previewed, l.leased = past, nil
	} else if f := l.overrule(ctx, past); f != nil {
		l.Release()
		return nil, f
	}
	switch {
	case l.IfHalted && past.Row.Status != journal.Waiting && !WasDecided(past):
		l.Release()
		return nil, fault.New(fault.Busy, "another request has resumed this run")
	case past.Row.Batch:
		l.Release()
		return nil, NotResumable("this run is a batch, which has no steps: resume its parts")
	case past.Row.Status == journal.Undone && !l.Resumption.Undo:
		l.Release()
		again := "send the chain again without resume"
		if past.Row.CallersKey() != "" {
			again = "send the chain under another key"
		}
		return nil, NotResumable("this run was undone: to make its calls again, including those that the undo left, " + again)
	case past.Row.Status == journal.OK && past.Row.Key == "" && !l.Resumption.Undo:
		l.Release()
		return nil, NotResumable("this run has ended well: nothing is left to do")
	}
	return past, nil
}

// NoSuchRun is the fault for a run that is not there for its caller.
func NoSuchRun() *fault.Error {
	return NotResumable("there is no such run of yours, or it is not kept any more: send the chain again without resume")
}

// otherCredential is the fault for a run that calls sources as the caller of the request that began it.
func otherCredential(past *journal.Past) *fault.Error {
	f := fault.New(fault.Denied, "this run calls %s with the credential of the request that began it, and this request brings another one, or "+
		"none: nothing was sent. Only a request with the same credential can continue the run or undo it", strings.Join(BoundTo(past), ", "))
	f.Outcome = fault.NotSent
	return f
}

// BoundTo returns the names of the credentials with which only its caller can continue a run.
func BoundTo(past *journal.Past) (names []string) {
	for _, id := range past.Credentials {
		name, _, _ := strings.Cut(id, "=")
		names = append(names, name)
	}
	return names
}

// otherScopeFault is the fault for a run of another scope, whose functions may be different ones with the same names.
func (l *Ledger) otherScopeFault(past *journal.Past) *fault.Error {
	switch {
	case !l.Operator:
		return NoSuchRun()
	case past.Row.Scope == "":
		return fault.New(fault.BadRequest,
			"nothing was run: this run was made without a configuration file; continue it in a folder that has none")
	}
	return fault.New(fault.BadRequest, "nothing was run: this run was made with another configuration: add --config %s", past.Row.Scope)
}

// NotResumable is the fault for a run that cannot be resumed.
func NotResumable(why string) *fault.Error {
	return fault.New(fault.TokenExpired, "%s", why)
}

// Release releases the lease of a run that was taken and is not resumed.
func (l *Ledger) Release() {
	if l.leased != nil {
		l.Journal.Release(l.leased)
		l.leased = nil
	}
}
