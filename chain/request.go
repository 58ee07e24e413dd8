package chain

// The types of a request are the only source for its fields. The decoder reads their tags (see shape). internal/gen writes from them the
// published schema, the manual and the input schema of the chain tool, and the reference in docs. All of these describe a field by its
// comment. The tag manual has other words for the model ("-": none). The tag tool puts a field into the tool's input schema, described by
// the words in the tag.

// request is a decoded request: a chain or a fetch. Values that are passed on are raw compact JSON, nil where absent.
// The tags say what a value may be; what depends on the server's limits or on other fields is checked by compile.
type request struct {
	// The pipeline, numbered from 0: a step refers to an earlier one by $N.path.
	Steps []step `json:"steps" validate:"-" tool:""` // each is checked where it is decoded
	// An object, read as $input.path.
	Input []byte `json:"input" kind:"object" validate:"-"`
	// JSON Schemas of input's members: a default fills a gap; a member without one is required.
	Params []byte `json:"params" kind:"schemas" validate:"-"`
	// Arguments for every step whose function declares them; a step's own args win. Not read for references.
	Common []byte `json:"common" kind:"object" validate:"-"`
	// The answer: any JSON, with references. Default: the last step's result.
	Return []byte `json:"return" kind:"any" validate:"-" tool:""` // null is an explicit null
	// True: the whole result of a write, never its lean form.
	Verify bool `json:"verify"`
	// Limits of this chain, which can only lower the server's.
	Budget *budgetRequest `json:"budget" tool:""`
	// After a failure: stop (default) starts no further step, continue runs the steps that do not depend on it, undo undoes what was
	// written.
	OnError string `json:"onError" validate:"omitempty,oneof=stop continue undo"`
	// True: the answer to a success is only its result.
	Lite *bool `json:"lite" tool:"result only"`
	// True: nothing runs; the answer is the plan.
	DryRun bool `json:"dryRun"`
	// What the answer says about each step: none, summary or full.
	Trace string `json:"trace" validate:"omitempty,oneof=none summary full"`

	// A name for people and tools.
	Name string `json:"name" validate:"max=200" manual:"-"`
	// The purpose of the chain; ignored.
	Description string `json:"description" manual:"-"`
	// True, of a saved chain: MCP clients see it as a tool of its own, on every surface.
	Tool bool `json:"tool" manual:"-"`
	// True, of a saved chain: MCP clients see it as a prompt.
	Prompt bool `json:"prompt" manual:"-"`
	// The version of the chain's file; ignored.
	Version string `json:"version" manual:"-"`
	// The address of this schema, for editors; ignored.
	Schema string `json:"$schema" manual:"-"`

	// Continues an earlier run: the resume of its failed answer. Calls that the run made are not made again; each field sent replaces
	// the run's.
	Resume string `json:"resume" validate:"-" tool:"" manual:"the resume of a failed answer: goes on with that run, taking calls that it made from its journal; each field sent takes the place of the run's"`
	// With resume: whole steps that replace the run's, by their number or id.
	Replace []byte `json:"replace" kind:"object" validate:"-"`
	// With resume: the outcomes of calls whose outcome or place is not known, by their place: "applied", "not_sent" or {"result": …}.
	Assume []byte `json:"assume" kind:"object" validate:"-"`
	// With resume: the approve of an answer whose calls wait for approval. It approves them.
	Approve string `json:"approve" validate:"-"`
	// With resume: undoes what the run has written.
	Undo bool `json:"undo" validate:"-"`
	// True: the answer is the id of the run, at once; the run continues. info reports its progress.
	Async bool `json:"async"`
	// As async, if the chain has not ended after this time.
	AsyncAfterMs *int `json:"asyncAfterMs" validate:"omitnil,min=0,max=86400000"`
	// True: workers carry out the run, and finish it even if this process ends. A server then answers as with async, or with asyncAfterMs;
	// onecall run waits. In a server that has workers, async and asyncAfterMs mean the same, unless this is false.
	Durable *bool `json:"durable" manual:"-"`
	// The caller's own name for this run. A chain sent again with it does not start again: it is resumed, or its answer is given again.
	Key *string `json:"key" validate:"omitnil,min=1,max=128"`

	fetch    *fetchRequest  // not nil: a fetch, and nothing else is set
	text     string         // the chain, compact
	stepsRaw string         // `steps` as written, compact
	anyInput bool           // input was given and is not an object: its members are not known
	hoisted  []objectMember // of the top level, named in Options.Hoist; they are in Common too
}

// budgetRequest lowers the server's limits; nil means not given.
type budgetRequest struct {
	// Tokens of the answer.
	MaxTotalTokens *int `json:"maxTotalTokens" validate:"omitnil,min=1" minimum:"150" tool:"" manual:"-"`
	// Steps, those of inline chains included.
	MaxSteps *int `json:"maxSteps" validate:"omitnil,min=1" manual:"-"`
	// Calls of functions, repetitions included.
	MaxCalls *int `json:"maxCalls" validate:"omitnil,min=1" manual:"-"`
	// Of the whole chain.
	MaxDurationMs *int `json:"maxDurationMs" validate:"omitnil,min=1" manual:"-"`
}

// step is one step as it is written.
type step struct {
	// The function's name; never a reference.
	Fn string `json:"fn" validate:"max=256" minimum:"1" tool:""`
	// In place of fn, without args: an expression over $0, $id, $input, $item; its value is the result, and nothing is called.
	Expr *string `json:"expr" validate:"-" minimum:"1" tool:"not fn: sum($0.items, .price)"`
	// An object. A string that is a reference becomes the value; ${$0.path} inside a string becomes text; $$ is a dollar.
	Args []byte `json:"args" kind:"object" validate:"-" tool:"" manual:"object; strings may hold references"`
	// In place of fn: an inline chain with step numbers of its own, whose $input is args.
	Chain *inline `json:"chain" validate:"-"`
	// A name for references: $id.path.
	ID string `json:"id" validate:"omitempty,identifier,unreserved=input item index prev result state secret env" tool:""`
	// An expression; if it is false, the step is skipped and its result is null.
	When *string `json:"when" kind:"expression" validate:"omitnil,min=1" tool:"e.g. $0.total > 3"`
	// A reference or expression giving an array: the step runs for each element, with $item and $index; the result is the array of results.
	ForEach *string `json:"forEach" validate:"omitnil,min=1" tool:""`
	// How many elements of forEach run at once: 8 for functions that read, 1 for those that write.
	Concurrency *int `json:"concurrency" validate:"omitnil,min=1"`
	// Call again until the expression over $result is true. In args, $result is that of the round before, null in the first.
	Repeat *repeatRequest `json:"repeat"`
	// A reference or expression over $result: the value that the step keeps.
	Select *string `json:"select" validate:"omitnil,min=1" tool:"e.g. $result.items"`
	// The result if the step fails; the step then counts as ok and is marked defaulted.
	OrElse []byte `json:"orElse" kind:"any" validate:"-"` // null is an explicit null
	// For one call; 30000 by default.
	TimeoutMs *int `json:"timeoutMs" validate:"omitnil,min=1,max=86400000"`
	// Call again after a failure that may pass: reads and idempotent functions only. Each pause is twice the last.
	Retry *retryRequest `json:"retry"`
	// The call that undoes a call of this step. Its args may hold the references that args may, and $result (before select).
	Undo *undoRequest `json:"undo"`

	literal    bool // Args hold no references: a single call's
	argsBroken bool // args were given and are not an object: Args is nil
}

// inline is a chain in place of a function.
type inline struct {
	// Numbered from 0 again.
	Steps []step `json:"steps" validate:"-" manual:"-"`
	// As in a chain.
	Return []byte `json:"return" kind:"any" validate:"-" manual:"-"`
}

// undoRequest is a call that undoes another.
type undoRequest struct {
	// The function's name.
	Fn string `json:"fn" validate:"required,max=256" manual:"-"`
	// Its arguments.
	Args []byte `json:"args" kind:"object" validate:"-" manual:"-"`
}

// repeatRequest calls again until an expression over the result is true.
type repeatRequest struct {
	// The expression.
	Until string `json:"until" validate:"required" manual:"-"`
	// Rounds; after them the step has failed.
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

// fetchRequest asks for more of a stored result.
type fetchRequest struct {
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
	Budget *budgetRequest `json:"budget" manual:"-"`
	// As in a chain.
	Lite *bool `json:"lite" manual:"-"`

	at string // JSON Pointer of the object that holds it
}
