// Package budget decides what an answer may cost and what becomes of a result that costs too much.
//
// A [Counter] counts tokens with a named encoding, exactly. A [Meter] is the only place that spends: it knows the budget
// of one answer and reports whether a text fits. [Results] keeps large results for a while, behind a [Driver]; it describes
// a kept result by a probe (preview, size, shape, continuation token) and answers the fetches that follow in five modes:
// summary, paginated, filtered, query and full.
//
// Results are valid JSON and stay raw bytes: every mode cuts them out of the value as it is spelled, so that numbers,
// escapes and the order of keys survive. The package knows nothing of references or steps; the query mode gets a
// function from its caller. Errors are of package fault.
package budget
