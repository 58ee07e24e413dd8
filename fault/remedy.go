package fault

// advice explains a code and its remedy.
type advice struct {
	causes []string // the usual causes, the most frequent first
	remedy string
}

// Causes returns the usual causes of the code, the most frequent first; nil for an unknown code. The message of an error names its
// own cause.
func (c Code) Causes() []string { return advices[c].causes }

// Remedy says what to do about the code, in Markdown; "" for an unknown code.
func (c Code) Remedy() string { return advices[c].remedy }

var advices = map[Code]advice{
	BadJSON: {
		[]string{"A quotation mark, comma or bracket is missing, or one is too many.", "One key occurs twice in an object.",
			"The shell took the quotation marks away, as in `--input {a: 1}`."},
		"Correct the text at the line and column that the message names. In a shell, put JSON in single quotes: `--input '{\"a\": 1}'`.",
	},
	BadRequest: {
		[]string{"A value has the wrong type or is out of its range.",
			"Two fields exclude each other, such as `steps` and `continuation_token`.",
			"A flag of a command has a value that it does not take."},
		"Change the value that the message names. The chain reference lists each field with its bounds.",
	},
	Compile: {
		[]string{"The chain has one or more faults. `faults` has each of them, with its code and its place."},
		"Correct all faults and send the chain again. Nothing ran, so there is nothing to undo.",
	},
	UnknownField: {
		[]string{"A key is misspelled; the message names the nearest known one.",
			"A field is one level too high or too low, such as `args` next to `steps`."},
		"Use the spelling that the message suggests, or look the key up in the reference of the chain or of the configuration.",
	},
	TextAsJSON: {
		[]string{"The host writes the arrays and objects of a tool call as strings. The model can do nothing about it."},
		"Nothing: the chain ran as if the JSON stood there. In files, and in the arguments of functions, send the array or object itself.",
	},
	TextDropped: {
		[]string{"The tool gives structured content, and tells more in a text or an image beside it."},
		"Set `result: content` for the function to get both, or `result: text` to get the text (`functions` in the configuration). If the text does not matter: nothing.",
	},
	FormatMisfit: {
		[]string{"The result is no list, such as an object around one.", "Its objects have different names, or the same in another order.",
			"A list for `lines` has objects in it, or texts with line breaks."},
		"Return what the format holds, such as `$prev.items`, or a step that makes it so: `{\"expr\": \"map($0, {id: .id, name: .name})\"}`. " +
			"Nothing is lost: the result is there, as JSON.",
	},
	UnknownFunction: {
		[]string{"The name is misspelled.", "Several functions have this short name.",
			"The source that offers the function is not in the configuration, or has failed.",
			"The configuration does not open it, as the functions that change files, or a program: the message names the key.",
			"The caller may not use the function. To clients over HTTP without tokens, functions that write are hidden."},
		"Search with `onecall tools WORDS` or the tool `search`, and write the whole name, `source.function`. If the function should be " +
			"there, `onecall tools` shows the state of its source.",
	},
	BadArguments: {
		[]string{"An argument is missing, misspelled or of the wrong type.",
			"A reference gave a value that does not fit the function's input schema."},
		"Look at the function's arguments: `onecall call NAME --help`, or `search` with `names` and `schema`.",
	},
	BadReference: {
		[]string{"The reference names a later step, or a step or `id` that is not there.",
			"The result of the step has no such member, as its output schema says.",
			"A text contains `$name` that is not meant as a reference."},
		"Refer to an earlier step by its number or `id`, and to a member that the message lists. Write `$$` for a dollar that begins a " +
			"text.",
	},
	ReferenceMissing: {
		[]string{"The result did not have the member this time.", "A list was shorter than the index."},
		"Use a member of `available`. If it may be missing, write `?` behind it or give a value for that case: `$0.limit ?? 10`.",
	},
	BadExpression: {
		[]string{"The expression has a syntax error, or uses a name that is not known there.", "It reads a member of null.",
			"A number does not fit in 64 bits.", "It makes too many iterations or needs too much memory."},
		"Correct the expression at the place that the message names. Use `?.` where a value may be null. In JSON, a backslash in a text " +
			"is written `\\\\`.",
	},
	LimitExceeded: {
		[]string{"The chain made more calls than `budget.maxCalls`, or would make more in any case.",
			"It took more memory than the limits allow, or its results may have more bytes than its `budget.maxBytes`.",
			"`repeat` did not come to an end within `max` rounds.", "A result is too large to keep, or to be given whole."},
		"Ask for less: filters, `limit`, `select`, a page of a kept result. Otherwise raise the limit that the message names.",
	},
	BudgetTooSmall: {
		[]string{"`budget.maxTotalTokens` or `--budget` is below 150, or the fetch's budget does not hold even a description of the " +
			"result."},
		"Raise the budget to what the message asks for.",
	},
	NotSupported: {
		[]string{"The chain uses a part of the language that this version does not implement, such as `$secret`, or that nothing is kept for: `$state` with `journal: {store: off}`.",
			"A document has a version of OpenAPI that is not supported.", "The call has no undo."},
		"Leave it out, or do it in the way that the message names.",
	},
	FunctionFailed: {
		[]string{"The tool or service answered that it failed: `body` and `status` say what it said.",
			"What was asked for does not exist, or the credentials were refused."},
		"Read the message and `body`: they are the function's own words. Look at `writes` for what was done, correct the chain and send " +
			"it with `resume`.",
	},
	Timeout: {
		[]string{"The function was slower than `timeoutMs`.", "The chain took longer than `budget.maxDurationMs`.",
			"The caller's own deadline passed."},
		"Raise the limit that the message names, or ask for less at once. If the outcome of a write is `sent_unknown`, first check " +
			"whether it was done; then resume.",
	},
	Cancelled: {
		[]string{"The client or the person cancelled the request.", "The server ended while the chain ran."},
		"Look at `writes` for what was done, and resume the run or leave it.",
	},
	Unavailable: {
		[]string{"The program of an MCP server does not start, or has ended.", "A service does not answer, or answers 502 to 504.",
			"A login is missing or has expired.", "The journal or the store of results cannot be reached."},
		"`onecall tools` shows the state of each source and the reason; `--verbose` shows what the server writes. Fix that, then send " +
			"the same request again.",
	},
	NotRecorded: {
		[]string{"The chain makes a call, or has arguments, that were not recorded.",
			"A value that changes, such as the time, is among the arguments."},
		"Compare with the nearest recorded arguments in the message. If the chain was meant to change, record it again.",
	},
	TokenExpired: {
		[]string{"Nobody used the token or the run for a while: five minutes for a result, `journal.keep` (24 hours) for a run.",
			"It belongs to another caller, or to another configuration.", "A token was cut when it was copied.",
			"The run has ended well, or was undone, so that nothing of it is left to resume."},
		"Run the chain again. For a run, `onecall runs` lists those that can be resumed.",
	},
	BadMode: {
		[]string{"The mode of a fetch is misspelled.", "The mode does not fit the result, such as `filtered` for a text."},
		"Use one of `available`.",
	},
	BadPage: {
		[]string{"`page` or `page_size` is below 1, or not a whole number.", "One page does not fit the budget."},
		"Pages count from 1. Choose the page size that the message names.",
	},
	Denied: {
		[]string{"The host is not in `http.allow`, or is a private address.", "The path is outside `fs.root`.",
			"A person refused to approve the call: each resume is denied it, and for `approvals.remember` so is the same call in other runs, until " +
				"a person approves it with `onecall approve RUN`.",
			"The tool only reads, and the chain writes.", "The token may only call signed plans, and the request says more than such a call."},
		"The call that the message is about was not sent. What a person denied, a person can approve: `onecall approve RUN`. Where the " +
			"message names a key of the configuration, allow it there, if it should be allowed.",
	},
	FlowDenied: {
		[]string{"A reference or an expression brings a value that has a label, such as a message from outside, to an argument that a rule under " +
			"`flows` protects. The message tells the way of the value.",
			"The client was shown values with the label, and then sent a value of its own (a rule with `through: model`)."},
		"Leave the value out, or take one without the label: one that the person gave, or another member of the result. `onecall tools --labels` " +
			"shows labels and roles; `flows` and `functions` in the configuration say what they are.",
	},
	FlowWarned: {
		[]string{"As of `flow_denied`, but the rule says `do: warn`."},
		"Nothing: the chain runs. Look at the way that the message tells, and at the arguments that are sent.",
	},
	ApprovalRequired: {
		[]string{"The configuration requires approval of calls that write or destroy. `calls` lists those that wait, with their " +
			"arguments."},
		"Look at the calls. Approve them with `onecall approve RUN` and resume; or, where the answer has `approve`, send it with `resume`.",
	},
	ResumeConflict: {
		[]string{"The corrected chain no longer makes a write that was already applied.",
			"It is not known whether a write was done, and it is not safe to repeat."},
		"A call that the message names as applied is done: leave its arguments as they were, and the resume reuses it, or take it back with " +
			"`onecall undo RUN`. Sent again with `assume`, or `--assume STEP=applied`, the resume leaves it and makes the changed call besides; " +
			"the refused one has changed nothing. Of a call that is " +
			"`sent_unknown`, find out whether it was done, and say so: `--assume STEP=applied` or `--assume STEP=not_sent`.",
	},
	Unreadable: {
		[]string{"The key of the journal was lost, or is another one, as after a restored backup.",
			"A part of the journal is missing or was changed."},
		"Put the key or the journal back that belongs to the run; the message names the file. `onecall doctor` checks both. Otherwise look at " +
			"the services for what the run did: onecall does not know, and repeats and undoes nothing.",
	},
	Busy: {
		[]string{"The caller has as many calls under way as it may have.", "Running chains hold as much memory as they may.",
			"Another process continues the same run."},
		"Wait a few seconds and send the request again.",
	},
	Internal: {
		[]string{"onecall or a function has a defect. The request may well be right."},
		"Report it, with the version that `onecall version` prints and the id in the answer or the log.",
	},
}
