package fault

// Code is one word of the closed list below. Programs and tests check codes, never messages. Released codes are not renamed.
type Code string

// The closed list. Help says what each code means, which is the same for a compile fault and for a run-time error.
const (
	BadJSON          Code = "bad_json"
	BadRequest       Code = "bad_request"
	Compile          Code = "compile"
	UnknownField     Code = "unknown_field"
	TextAsJSON       Code = "text_as_json"
	TextDropped      Code = "text_dropped"
	FormatMisfit     Code = "format_misfit"
	UnknownFunction  Code = "unknown_function"
	BadArguments     Code = "bad_arguments"
	BadReference     Code = "bad_reference"
	ReferenceMissing Code = "reference_missing"
	BadExpression    Code = "bad_expression"
	LimitExceeded    Code = "limit_exceeded"
	BudgetTooSmall   Code = "budget_too_small"
	NotSupported     Code = "not_supported"
	FunctionFailed   Code = "function_failed"
	Timeout          Code = "timeout"
	Cancelled        Code = "cancelled"
	Unavailable      Code = "unavailable"
	NotRecorded      Code = "not_recorded"
	TokenExpired     Code = "token_expired"
	BadMode          Code = "bad_mode"
	BadPage          Code = "bad_page"
	Denied           Code = "denied"
	FlowDenied       Code = "flow_denied"
	FlowWarned       Code = "flow_warned"
	ApprovalRequired Code = "approval_required"
	ResumeConflict   Code = "resume_conflict"
	Unreadable       Code = "unreadable"
	Busy             Code = "busy"
	Internal         Code = "internal"
)

// codeInfo describes a code.
type codeInfo struct {
	code      Code
	exit      int     // exit status of the command line
	http      int     // status of an HTTP answer
	retryable bool    // the same request may succeed later
	outcome   Outcome // the outcome of a call that writes, if its error has none
	help      string
}

// codeTable has a row for each code. Everything else that lists codes reads it or is generated from it.
var codeTable = []codeInfo{
	{BadJSON, 3, 400, false, Failed, "not JSON: syntax, encoding, depth, duplicate keys"},
	{BadRequest, 2, 400, false, Failed, "JSON, but a value or a combination of fields that is not accepted"},
	{Compile, 3, 422, false, Failed, "the chain has faults; nothing ran"},
	{UnknownField, 3, 422, false, Failed, "a field that the contract or the configuration does not know"},
	{TextAsJSON, 2, 400, false, Failed, "a warning: an array or an object was sent as a string of JSON, and was read"},
	{TextDropped, 1, 502, false, Failed, "a warning: a tool told something beside its structured content, which is left out"},
	{FormatMisfit, 2, 400, false, Failed, "a warning: the format that was asked for cannot hold the result, which is JSON"},
	{UnknownFunction, 3, 404, false, Failed, "a name that resolves to no function, or to several, in the caller's view"},
	{BadArguments, 1, 422, false, Failed, "arguments that do not fit the function's input schema"},
	{BadReference, 3, 422, false, Failed, "a reference that is malformed, or points forward or nowhere"},
	{ReferenceMissing, 1, 422, false, Failed, "a well-formed reference that finds nothing at run time"},
	{BadExpression, 1, 422, false, Failed, "an expression that does not compile, fails, or exceeds its limits"},
	{LimitExceeded, 1, 413, false, Failed, "a limit of the server or of the chain's budget is exceeded"},
	{BudgetTooSmall, 3, 422, false, Failed, "the token budget is below the minimum that an answer needs"},
	{NotSupported, 3, 501, false, Failed, "part of the contract that this version does not implement"},
	{FunctionFailed, 1, 502, false, Failed, "the function said that it failed"},
	{Timeout, 1, 504, true, SentUnknown, "a deadline passed; the call was cancelled"},
	{Cancelled, 130, 499, true, SentUnknown, "the client cancelled"},
	{Unavailable, 5, 503, true, SentUnknown, "the source could not be reached"},
	{NotRecorded, 1, 404, false, NotSent, "a replay was asked for a call that is not in the recording"},
	{TokenExpired, 1, 410, false, Failed, "the continuation token is not live for this caller"},
	{BadMode, 2, 400, false, Failed, "an unknown fetch mode, or one that does not fit the result"},
	{BadPage, 2, 400, false, Failed, "a page or page size that is not acceptable"},
	{Denied, 1, 403, false, Failed, "the caller's rights, the configuration or the rules for hosts do not allow it"},
	{FlowDenied, 3, 403, false, NotSent, "a flow rule forbids that labelled values reach an argument; nothing ran"},
	{FlowWarned, 1, 403, false, Failed, "a warning: labelled values reach an argument, and a flow rule warns of it"},
	{ApprovalRequired, 1, 403, false, Failed, "calls wait for approval; they are made once it is given"},
	{ResumeConflict, 1, 409, false, Failed, "a resume would repeat or change a write that was applied"},
	{Unreadable, 1, 500, false, NotSent, "the journal's record of a run is of another key, incomplete or changed"},
	{Busy, 1, 429, true, Failed, "too much at once; try again later"},
	{Internal, 1, 500, false, SentUnknown, "a defect of onecall or of a function: a panic, an invalid result"},
}

// unknownCode describes a code that is not in the list.
var unknownCode = codeInfo{exit: 1, http: 500, outcome: Failed}

func (c Code) info() *codeInfo {
	for i := range codeTable {
		if codeTable[i].code == c {
			return &codeTable[i]
		}
	}
	return &unknownCode
}

// Codes returns the closed list, in the order of its definition.
func Codes() []Code {
	codes := make([]Code, len(codeTable))
	for i := range codeTable {
		codes[i] = codeTable[i].code
	}
	return codes
}

// Exit returns the command line's exit status for an answer with this code; 1 for an unknown code.
func (c Code) Exit() int { return c.info().exit }

// HTTP returns the status of an HTTP answer with this code; 500 for an unknown code. On MCP an error is a tool result instead.
func (c Code) HTTP() int { return c.info().http }

// Retryable reports whether the same request, sent again unchanged, may succeed.
func (c Code) Retryable() bool { return c.info().retryable }

// Help says in one line what the code means; "" for an unknown code.
func (c Code) Help() string { return c.info().help }
