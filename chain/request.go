package chain

// request is a decoded request: a chain or a fetch. Values that are passed on are raw compact JSON, nil where absent.
// The tags say what a value may be; what depends on the server's limits or on other fields is checked by compile.
type request struct {
	Steps   []step         `json:"steps" validate:"-"` // each is checked where it is decoded
	Input   []byte         `json:"input" kind:"object" validate:"-"`
	Params  []byte         `json:"params" kind:"schemas" validate:"-"`
	Common  []byte         `json:"common" kind:"object" validate:"-"`
	Return  []byte         `json:"return" kind:"any" validate:"-"` // `null` is an explicit null
	Verify  bool           `json:"verify"`
	Budget  *budgetRequest `json:"budget"`
	OnError string         `json:"onError" validate:"omitempty,oneof=stop continue"`
	Lite    *bool          `json:"lite"`
	DryRun  bool           `json:"dryRun"`
	Trace   string         `json:"trace" validate:"omitempty,oneof=none summary full"`
	Name    string         `json:"name" validate:"max=200"`

	Description string `json:"description"`
	Version     string `json:"version"`
	Schema      string `json:"$schema"`
	Resume      later  `json:"resume"`
	Replace     later  `json:"replace"`
	Assume      later  `json:"assume"`
	Approve     later  `json:"approve"`

	fetch    *fetchRequest  // not nil: a fetch, and nothing else is set
	stepsRaw string         // `steps` as written, compact
	anyInput bool           // input was given and is no object: what it holds is not known
	hoisted  []objectMember // of the top level, named in Options.Hoist; they are in Common too
}

// budgetRequest lowers the server's limits; nil means not given.
type budgetRequest struct {
	MaxTotalTokens *int `json:"maxTotalTokens" validate:"omitnil,min=1"`
	MaxSteps       *int `json:"maxSteps" validate:"omitnil,min=1"`
	MaxCalls       *int `json:"maxCalls" validate:"omitnil,min=1"`
	MaxDurationMs  *int `json:"maxDurationMs" validate:"omitnil,min=1"`
}

// step is one step as it is written.
type step struct {
	Fn          string         `json:"fn" validate:"max=256"`
	Expr        *string        `json:"expr" validate:"-"`
	Args        []byte         `json:"args" kind:"object" validate:"-"`
	Chain       *inline        `json:"chain" validate:"-"`
	ID          string         `json:"id" validate:"omitempty,identifier,unreserved"`
	When        *string        `json:"when" kind:"expression" validate:"omitnil,min=1"`
	ForEach     *string        `json:"forEach" validate:"omitnil,min=1"`
	Concurrency *int           `json:"concurrency" validate:"omitnil,min=1"`
	Repeat      *repeatRequest `json:"repeat"`
	Select      *string        `json:"select" validate:"omitnil,min=1"`
	OrElse      []byte         `json:"orElse" kind:"any" validate:"-"` // `null` is an explicit null
	TimeoutMs   *int           `json:"timeoutMs" validate:"omitnil,min=1,max=86400000"`
	Retry       *retryRequest  `json:"retry"`
	Undo        later          `json:"undo"`

	literal    bool // Args hold no references: a single call's
	argsBroken bool // args were given and are no object: Args is nil
}

// inline is a chain in place of a function.
type inline struct {
	Steps  []step `json:"steps" validate:"-"`
	Return []byte `json:"return" kind:"any" validate:"-"`
}

// repeatRequest calls again until an expression over the result is true.
type repeatRequest struct {
	Until   string  `json:"until" validate:"required"`
	Max     int     `json:"max" validate:"required,min=1,max=100000"`
	DelayMs int     `json:"delayMs" validate:"min=0,max=3600000"`
	Collect *string `json:"collect" validate:"omitnil,min=1"`
}

// retryRequest calls again after a failure; the pause doubles from one attempt to the next.
type retryRequest struct {
	Max       int `json:"max" validate:"required,min=1,max=100"`
	BackoffMs int `json:"backoffMs" validate:"min=0,max=3600000"`
}

// fetchRequest asks for more of a kept result.
type fetchRequest struct {
	Token      string         `json:"continuation_token"`
	Mode       string         `json:"mode"`
	Page       *int           `json:"page" kind:"page"`
	PageSize   *int           `json:"page_size" kind:"page"`
	FilterKeys []string       `json:"filter_keys"`
	Query      string         `json:"query"`
	Budget     *budgetRequest `json:"budget"`
	Lite       *bool          `json:"lite"`

	at string // JSON Pointer of the object that holds it
}

// reserved names cannot be ids: they are roots of references.
var reserved = map[string]bool{"input": true, "item": true, "index": true, "prev": true, "result": true, "state": true,
	"secret": true, "env": true}
