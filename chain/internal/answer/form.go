// Package answer is the last stage of a request: it writes an answer, and gives up details until the answer fits its budget.
package answer

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Form says in which form a request is answered, and within which bounds.
type Form struct {
	Counter    budget.Counter
	Meter      *budget.Meter
	Results    *budget.Results // nil: there is no store for what does not fit
	Caller     string          // owns what is stored
	ProbeAbove int             // the tokens above which a result is answered as a probe even if it fits; 0: off
	LeanAbove  int             // the tokens above which the result of a write is answered in its lean form; -1: never
	Lite       bool            // a success is only the result
	IfChanged  *IfChanged      // nil: the result is not compared with an earlier one
	Format     string          // how the result is written; "": as JSON
	Verify     bool            // never the lean form of a write
	Trace      string          // none, summary or full
	Label      string          // the first member `chain`; "": none
	RequestID  string          // the id of the request in logs, which a failure with trace full names; "": none
	Started    time.Time

	Observed bool // Written.Stored is wanted, whatever the answer shows

	MaxBlockBytes int64 // bytes of the blocks that go with an answer; 0: none goes

	Call   bool    // the request is the call of one function, whose answer has no step numbers
	ArgsAt string  // with Call: the JSON Pointer of the arguments in the caller's request
	Steps  StepIDs // nil: the request has none

	Replaced map[int]string // the pointers, in the request, of steps that it gives in replace, by number

	CallerWarnings []*fault.Error // the front end's warnings; they precede those of the request
}

// StepIDs names the steps of the outermost chain.
type StepIDs interface {
	// StepID returns the id of a step, or "".
	StepID(number int) string
}

// Content is what an answer consists of, before anything is given up.
type Content struct {
	Cause      facts.Cause
	Placed     bool                          // with Form.Call: the pointers are already those of the caller's request
	Faults     []*fault.Error                // of a request that does not compile
	MoreFaults int                           // faults that were only counted
	Signatures map[*steps.Entry]*fault.Error // by function: the fault that shows its signature
	Warnings   []*fault.Error

	Plan      bool          // Result is a plan
	Result    []byte        // nil: none
	Blocks    *steps.Blocks // of the run; nil: it has none
	Formatted *Formatter    // has written Result, or parts of it; nil: Result is JSON, for which Form.Format holds
	Run       *facts.Run    // nil: nothing ran
	UndoCalls int64         // the calls that undid others

	Resume    string // names the run for a resume; "": it cannot be resumed
	Approve   string // approves the calls that wait; "": none wait, or only a person can approve them
	UndoneRun string // the id of the run that was undone, which a failure names, since it has no resume; "": none
}

// Written is an answer.
type Written struct {
	JSON        []byte
	Err         *fault.Error       // nil: ok. It may be the loss of the result, which neither fits nor can be stored
	Warned      bool               // JSON has the CallerWarnings
	Tokens      int                // the tokens of the answer; 0: not counted
	Kept        int                // the tokens that it says were kept out of it (usage.kept); 0: none, or it does not say
	Stored      int                // estimated tokens of results that are not in the answer; only if Form.Observed
	Probe       bool               // the answer has a probe of the result
	Lean        bool               // the answer has the lean form of a write
	Blocks      []*steps.KeptBlock // those that go with the answer
	BlockTokens int                // what they cost their reader
	Text        bool               // JSON is not JSON but a text: the lite answer has a format
	Misfit      *fault.Error       // the warning that the format cannot hold the result; nil: it can
}

// builder writes one answer.
type builder struct {
	*Form
	Content
	schemaHelp   schemaLevel // how much of the function's schema the answer shows
	writes       []*facts.Write
	writesSummed bool        // writes is complete
	ms           int64       // the time since the request came; taken once, so that the size of the answer is stable while it is fitted
	isLean       bool        // Result is the lean form of a write
	excerpt      *excerpt    // Result is a part of the result; nil: all of it
	isDifference bool        // Result says what has changed since an earlier answer
	compared     *comparison // nil: the result is not compared
	force        bool        // write the answer even if it does not fit
	exceedsAlone bool        // the result alone exceeds the budget, so nothing with it needs to be rendered
	stepTokens   []int       // by step: the tokens of its result
	storedTokens int         // the estimated tokens of the steps' results that are not the answer's
	tokens       int         // see Written.Tokens
	handed       handed
	shown        []byte // Result in the format that the request asks for; nil: it is shown as it is
}

func (f *Form) builder(c *Content) *builder {
	b := &builder{Form: f, Content: *c}
	switch err := c.Cause.Err; {
	case err == nil:
	case c.Placed:
		b.schemaHelp = schemaHelpFor(err, true)
	default:
		b.schemaHelp, b.Cause.Err = schemaHelpFor(err, isInArgs(err.At, c.Cause.Failed)), f.Relocate(err)
	}
	if f.Call {
		b.Cause.Step = -1
	}
	return b
}

// Write writes the answer. A success is only its result if the form is lite.
func (f *Form) Write(ctx context.Context, c *Content) Written {
	b := f.builder(c)
	if b.Run != nil {
		b.useLeanForm(ctx)
		b.useExcerpt(ctx)
	}
	b.useFormat()
	b.handOut()
	if b.Run != nil && f.IfChanged != nil {
		return b.writeDifference(ctx)
	}
	return b.writeForm(ctx)
}

// writeForm writes the answer in the form that is asked for.
func (b *builder) writeForm(ctx context.Context) Written {
	if b.Cause.Err == nil && b.Lite {
		return b.writeLite(ctx)
	}
	return b.writeStandard(ctx)
}

// WriteStandard is Write for an answer that is never lite.
func (f *Form) WriteStandard(ctx context.Context, c *Content) Written {
	return f.builder(c).writeStandard(ctx)
}

// Relocate changes the pointer of a fault to that in the caller's request. A single call's fault outside the arguments loses it.
func (f *Form) Relocate(e *fault.Error) *fault.Error {
	if !f.Call {
		return f.relocateReplaced(e)
	}
	relocated := e.Under("")                // a copy
	relocated.Line, relocated.Column = 0, 0 // they refer to the arguments alone
	if inArgs, ok := strings.CutPrefix(e.At, facts.ArgsOfCall); ok {
		relocated.At = f.ArgsAt + inArgs
	} else if strings.HasPrefix(e.At, "/steps/0") || strings.HasPrefix(e.At, "/return") {
		relocated.At = ""
	}
	return relocated
}

// relocateReplaced changes the pointer of a fault in a step that replaces one of the run.
func (f *Form) relocateReplaced(e *fault.Error) *fault.Error {
	inSteps, ok := strings.CutPrefix(e.At, "/steps/")
	if !ok || len(f.Replaced) == 0 {
		return e
	}
	number, rest, _ := strings.Cut(inSteps, "/")
	n, err := strconv.Atoi(number)
	at, replaced := f.Replaced[n]
	if err != nil || !replaced {
		return e
	}
	relocated := e.Under("") // a copy
	if relocated.At = at; rest != "" {
		relocated.At += "/" + rest
	}
	return relocated
}

// written describes an answer.
func (b *builder) written(json []byte, probe bool) Written {
	w := Written{JSON: json, Err: b.Cause.Err, Tokens: b.tokens, Kept: b.storedTokens, Probe: probe, Lean: b.isLean && !probe,
		Misfit: b.misfit()}
	if b.Cause.Err == nil && !probe {
		w.Blocks, w.BlockTokens = b.handed.blocks, b.handed.tokens
	}
	if !b.Observed {
		return w
	}
	switch {
	case b.stepTokens != nil:
		w.Stored = b.storedTokens
	case b.Run != nil:
		w.Stored = b.IntermediateTokens(b.Run)
	}
	switch {
	case w.Lean:
		w.Stored += b.EstimateText(b.Run.Steps[len(b.Run.Steps)-1].Raw)
	case b.isDifference:
		w.Stored += b.EstimateText(b.compared.value)
	case probe:
		w.Stored += b.EstimateText(b.wholeResult())
	case b.excerpt != nil:
		w.Stored += max(0, b.EstimateText(b.excerpt.whole)-b.EstimateText(b.Result))
	}
	return w
}

// stepID returns the id of a step, or "".
func (f *Form) stepID(number int) string {
	if f.Steps == nil {
		return ""
	}
	return f.Steps.StepID(number)
}

// schemaHelpFor chooses what an answer shows of the failed function: its schema if the arguments do not match it or refer to something that
// is missing, its signature if the function failed, an expression in its arguments failed, or its arguments exceed a limit, and nothing for
// other failures.
func schemaHelpFor(f *fault.Error, inArgs bool) schemaLevel {
	switch f.Code {
	case fault.BadArguments, fault.ReferenceMissing:
		if inArgs {
			return schemaWhole
		}
	case fault.FunctionFailed:
		return schemaSignature
	case fault.BadExpression, fault.LimitExceeded:
		if inArgs {
			return schemaSignature
		}
	}
	return schemaNone
}

// isInArgs reports whether a pointer leads into the arguments of the failed function: into args, or into the member that is named after the
// function.
func isInArgs(at string, failed *steps.Entry) bool {
	if strings.Contains(at, "/args") {
		return true
	}
	_, inStep, ok := strings.Cut(at[strings.LastIndex(at, "/steps/")+1:], "/")
	if !ok || failed == nil {
		return false
	}
	_, member, _ := strings.Cut(inStep, "/") // inStep begins with the step's number
	name, _, _ := strings.Cut(member, "/")
	return name != "" && strings.HasSuffix(steps.FoldName(failed.Spec().Name), steps.FoldName(strings.ReplaceAll(name, "~1", "/")))
}

// countTokens counts the tokens of the steps' results.
func (b *builder) countTokens() {
	if b.Call || b.Run == nil {
		return
	}
	b.stepTokens = make([]int, len(b.Run.Steps))
	for i := range b.Run.Steps {
		raw := b.Run.Steps[i].Raw
		if raw == nil {
			continue
		}
		b.stepTokens[i] = b.tokensOf(raw)
		if i < len(b.Run.Steps)-1 || b.Run.Returned {
			b.storedTokens += b.stepTokens[i]
		}
	}
}
