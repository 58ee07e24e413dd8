package plan

import (
	"slices"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// The types in this file are the only definition of a request's fields. The decoder reads their tags (see decode.Table). internal/gen
// generates from them the published schema, the reference in docs, and the manual and input schema of the chain tool. The schema, the
// reference and the manual describe a field by its comment; the tag manual replaces the comment in the manual ("-" leaves the field out).
// Only fields with the tag tool are in the input schema, described by the text of the tag.

// The kind expression is a text or a boolean.
var (
	requestTable = decode.TableOf[Request]("steps", "ifChanged")
	fetchTable   = decode.TableOf[FetchRequest]()
	stepTable    = decode.TableOf[StepRequest]("when", "forEach", "chain", "undo")
	undoTable    = decode.TableOf[undoRequest]()
	inlineTable  = decode.TableOf[InlineRequest]("steps")
)

// TopFields returns the names of the fields of a chain, and those of members that it may have at its top level.
func TopFields(hoisted []string) []string { return slices.Concat(requestTable.Names, hoisted) }

// FetchFields returns the names of the fields of a fetch.
func FetchFields() []string { return slices.Clone(fetchTable.Names) }

// Request is a decoded request: a chain or a fetch. Values that are passed on are raw compact JSON, nil if absent.
// The tags say what a value may be; compile checks what depends on the server's limits or on other fields.
type Request struct {
	// The pipeline, numbered from 0: a step refers to an earlier one by $N.path.
	Steps []StepRequest `json:"steps" validate:"-" tool:""` // each step is validated when it is decoded
	// An object, read as $input.path.
	Input []byte `json:"input" kind:"object" validate:"-"`
	// JSON Schemas of input's members. A missing member takes the default of its schema; without a default it is required.
	Params []byte `json:"params" kind:"schemas" validate:"-"`
	// Arguments for every step whose function declares them; a step's own args win. References in them are not resolved.
	Common []byte `json:"common" kind:"object" validate:"-"`
	// The answer's result: any JSON, with references. Default: the last step's result.
	Return []byte `json:"return" kind:"any" validate:"-" tool:""` // null is a value, and does not count as absent
	// True: the whole result, not its short form.
	Verify bool `json:"verify"`
	// Limits of this chain, which can only lower the server's.
	Budget *BudgetRequest `json:"budget" tool:""`
	// After a failure: stop (default) starts no further step, continue runs the steps that do not depend on the failed one, undo undoes
	// what was written.
	OnError string `json:"onError" validate:"omitempty,oneof=stop continue undo"`
	// True: a successful answer is only the result.
	Lite *bool `json:"lite" tool:"result only"`
	// How the result is written: json (default), table (a line of names, then a JSON array for each object), csv, lines (a text is written
	// as it is), markdown, or auto, which is the cheapest of json, table and lines in which nothing is lost. A result that the format cannot
	// hold is JSON.
	Format string `json:"format" validate:"omitempty,oneof=json table csv lines markdown auto" manual:"json (default), table, csv, lines (a text as it is), markdown; auto: the cheapest that loses nothing"`
	// True: nothing runs; the answer is the plan.
	DryRun bool `json:"dryRun"`
	// What the answer says about each step: none, summary or full.
	Trace string `json:"trace" validate:"omitempty,oneof=none summary full"`
	// True: of a read's whole result, only what has changed since an earlier answer with ifChanged. Without a session, in place of true: the
	// continuation_token of that answer.
	IfChanged *string `json:"ifChanged" kind:"ifChanged" validate:"-"` // "": true; nil: false, or absent

	// The chain's name, as lists of runs show it.
	Name string `json:"name" validate:"max=200" manual:"-"`
	// The purpose of the chain. In a saved chain it is the description of the function; elsewhere it is ignored.
	Description string `json:"description" manual:"-"`
	// True in a saved chain: MCP clients see the chain as a tool of its own, on every surface.
	Tool bool `json:"tool" manual:"-"`
	// True in a saved chain: MCP clients see the chain as a prompt.
	Prompt bool `json:"prompt" manual:"-"`
	// The version of the chain's file; ignored.
	Version string `json:"version" manual:"-"`
	// The address of this schema, for editors; ignored.
	Schema string `json:"$schema" manual:"-"`

	// Continues an earlier run: the value of resume in its failed answer. Calls that succeeded are not made again; each field sent replaces
	// the run's.
	Resume string `json:"resume" validate:"-" tool:"" manual:"the value of resume in a failed answer: continues that run; calls that succeeded are not made again; each field sent replaces the run's"`
	// With resume: whole steps that replace the run's, keyed by number or id.
	Replace []byte `json:"replace" kind:"object" validate:"-"`
	// With resume: what became of calls whose outcome is unknown or that the chain no longer makes, keyed by step, such as "3[1]":
	// "applied", "not_sent" or {"result": …}.
	Assume []byte `json:"assume" kind:"object" validate:"-"`
	// With resume: the value of approve in an answer whose calls wait for approval. It approves them.
	Approve string `json:"approve" validate:"-"`
	// With resume: undoes what the run has written.
	Undo bool `json:"undo" validate:"-"`
	// True: the answer comes at once, with the run's id; the run continues. The tool info reports its progress.
	Async bool `json:"async"`
	// As async, if the chain has not ended after this time.
	AsyncAfterMs *int `json:"asyncAfterMs" validate:"omitnil,min=0,max=86400000"`
	// True: workers carry out the run, and finish it even if this process ends. A server then answers as with async, or as with
	// asyncAfterMs if that is given; onecall run waits for the result. In a server that has workers, async and asyncAfterMs also hand the
	// run to workers, unless this is false.
	Durable *bool `json:"durable" manual:"-"`
	// The caller's own name for this run. A chain sent again with the same key does not run twice: its run is resumed, or answered as
	// before.
	Key *string `json:"key" validate:"omitnil,min=1,max=128"`

	Fetch    *FetchRequest    // not nil: a fetch, and nothing else is set
	Text     string           // the chain, compact
	stepsRaw string           // `steps` as sent, compact; for an Engine.Call, its function and arguments. The plan's hash covers it
	anyInput bool             // input was given and is not an object: Input is nil, and any member may be read
	hoisted  []rawjson.Member // the top-level members that Options.Hoist names; Common has them too
}

// BudgetRequest lowers the server's limits; nil means not given.
type BudgetRequest struct {
	// Tokens of the answer.
	MaxTotalTokens *int `json:"maxTotalTokens" validate:"omitnil,min=1" minimum:"150" tool:"" manual:"-"`
	// Steps, including those of inline chains.
	MaxSteps *int `json:"maxSteps" validate:"omitnil,min=1" manual:"-"`
	// Calls of functions, including repetitions.
	MaxCalls *int `json:"maxCalls" validate:"omitnil,min=1" manual:"-"`
	// The time of the whole chain.
	MaxDurationMs *int `json:"maxDurationMs" validate:"omitnil,min=1" manual:"-"`
	// Bytes of all results, those of steps that are not answered included. A chain that may have more, as far as output schemas tell, is
	// refused before it runs.
	MaxBytes *int `json:"maxBytes" validate:"omitnil,min=1" manual:"-"`
}

// StepRequest is one step as it is written.
type StepRequest struct {
	// The function's name; never a reference. In place of fn and args, a step may have one member of that name: {"fs.cat": {"path": "a"}}.
	Fn string `json:"fn" validate:"max=256" minimum:"1" tool:""`
	// Instead of fn and args: an expression over $0, $id, $input, $item; its value is the result, and nothing is called.
	Expr *string `json:"expr" validate:"-" minimum:"1" tool:"not fn: sum($0.items, .price)"`
	// An object. A string that is a reference becomes the value; ${$0.path} inside a string becomes text; $$ stands for a dollar sign.
	Args []byte `json:"args" kind:"object" validate:"-" tool:"" manual:"object; strings may hold references"`
	// Instead of fn: an inline chain with step numbers of its own, whose $input is args.
	Chain *InlineRequest `json:"chain" validate:"-"`
	// A name for references: $id.path.
	ID string `json:"id" validate:"omitempty,identifier,unreserved=input item index prev result state secret env" tool:""`
	// An expression; if it is false, the step is skipped and its result is null.
	When *string `json:"when" kind:"expression" validate:"omitnil,min=1" tool:"e.g. $0.total > 3"`
	// A reference or expression giving an array: the step runs for each element, with $item and $index; the result is the array of results.
	ForEach *string `json:"forEach" validate:"omitnil,min=1" tool:""`
	// How many elements of forEach run at once. Default: 8 if the step only reads, else 1.
	Concurrency *int `json:"concurrency" validate:"omitnil,min=1"`
	// Call again until the expression over $result is true. In args, $result is the previous round's result, null in the first.
	Repeat *repeatRequest `json:"repeat"`
	// A reference or expression over $result: the value that the step keeps.
	Select *string `json:"select" validate:"omitnil,min=1" tool:"e.g. $result.items"`
	// The result if the step fails, with forEach that of each element that fails; the step then counts as ok and is marked defaulted.
	OrElse []byte `json:"orElse" kind:"any" validate:"-"` // null is a value, and does not count as absent
	// The time of one call. Default: 30000.
	TimeoutMs *int `json:"timeoutMs" validate:"omitnil,min=1,max=86400000"`
	// Call again after a failure that may be temporary: reads and idempotent functions only. Each pause is twice the last.
	Retry *retryRequest `json:"retry"`
	// The call that undoes a call of this step. Its args may hold the same references as args, and $result (before select).
	Undo *undoRequest `json:"undo"`

	short      string // the function's name where the step was written in the short form, {"fs.cat": {…}}; else ""
	literal    bool   // the step is that of an Engine.Call: Args are not read for references
	argsBroken bool   // args were given and are not an object: Args is nil
}

// InlineRequest is a chain in place of a function.
type InlineRequest struct {
	// Numbered from 0 again.
	Steps []StepRequest `json:"steps" validate:"-" manual:"-"`
	// As in a chain.
	Return []byte `json:"return" kind:"any" validate:"-" manual:"-"`
}

// undoRequest is a call that undoes another.
type undoRequest struct {
	// The function's name.
	Fn string `json:"fn" validate:"required,max=256" manual:"-"`
	// Its arguments.
	Args []byte `json:"args" kind:"object" validate:"-" manual:"-"`

	short string // as StepRequest.short
}

// at returns the JSON Pointers of the function's name and of the arguments, of an undo that stands at a pointer.
func (u *undoRequest) at(pointer string) (fn, args string) {
	if u.short != "" {
		at := fault.Key(pointer, u.short)
		return at, at
	}
	return pointer + "/fn", pointer + "/args"
}

// repeatRequest calls again until an expression over the result is true.
type repeatRequest struct {
	// The expression over $result.
	Until string `json:"until" validate:"required" manual:"-"`
	// The maximum number of rounds. If until is still false after the last, the step fails.
	Max int `json:"max" validate:"required,min=1,max=100000" manual:"-"`
	// The pause between two rounds.
	DelayMs int `json:"delayMs" validate:"min=0,max=3600000" manual:"-"`
	// A reference or expression over $result giving an array: the step's result is the arrays of all rounds, joined.
	Collect *string `json:"collect" validate:"omitnil,min=1"`
}

// retryRequest calls again after a failure; the pause doubles from one attempt to the next.
type retryRequest struct {
	// Attempts after the first.
	Max int `json:"max" validate:"required,min=1,max=100" manual:"-"`
	// The first pause.
	BackoffMs int `json:"backoffMs" validate:"min=0,max=3600000" manual:"-"`
}

// FetchRequest asks for more of a stored result.
type FetchRequest struct {
	// Fetches from the large result that this token names; nothing runs.
	Token string `json:"continuation_token" tool:"" manual:"of an earlier large result, without steps; with mode summary|paginated (page, page_size)|filtered (filter_keys)|query (query: reference or expression over $result)|full"`
	// The mode; by default it follows from the other fields.
	Mode string `json:"mode" kind:"mode" tool:"" manual:"-"`
	// The number of the page.
	Page *int `json:"page" kind:"page" tool:"" manual:"-"`
	// Items of a page.
	PageSize *int `json:"page_size" kind:"page" tool:"" manual:"-"`
	// Dotted paths to keep, of an object or of each item.
	FilterKeys []string `json:"filter_keys" tool:"" manual:"-"`
	// A path or an expression over $result.
	Query string `json:"query" tool:"" manual:"-"`
	// The budget of this answer.
	Budget *BudgetRequest `json:"budget" manual:"-"`
	// As in a chain.
	Lite *bool `json:"lite" manual:"-"`
	// As in a chain; of a page, the items.
	Format string `json:"format" validate:"omitempty,oneof=json table csv lines markdown auto" manual:"-"`

	at string // JSON Pointer of the object that has these fields
}

// StepID returns the id of a step of the outermost chain, or "".
func (r *Request) StepID(step int) string {
	if step < 0 || step >= len(r.Steps) {
		return ""
	}
	return r.Steps[step].ID
}

// Relocate prefixes a fault's pointer with that of the object that holds the fetch.
func (f *FetchRequest) Relocate(e *fault.Error) *fault.Error {
	if e.At == "" {
		return e
	}
	return e.Under(f.at)
}

// ToFetch returns what the fields ask of the store.
func (f *FetchRequest) ToFetch() budget.Fetch {
	w := budget.Fetch{Token: f.Token, Mode: f.Mode, FilterKeys: f.FilterKeys, Query: f.Query}
	if f.Page != nil {
		w.Page, w.PageSet = *f.Page, true
	}
	if f.PageSize != nil {
		w.PageSize, w.PageSizeSet = *f.PageSize, true
	}
	return w
}
