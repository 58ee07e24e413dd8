// Package budget decides what an answer may cost and what happens to a result that costs too much.
//
// A [Counter] counts the tokens of a named encoding exactly. A [Meter] has the budget of one answer and is the only place that spends it.
// [Results] stores large results for a while, using a [Driver]. It describes a stored result by a probe (preview, size, shape,
// continuation token) and answers the fetches that follow in five modes: summary, paginated, filtered, query and full.
//
// Results are valid JSON and remain raw bytes. Every mode cuts its answer out of the original text, so numbers, escapes and the order
// of keys are preserved. The package knows nothing of references or steps; the caller provides a function for the query mode. Errors
// are of package fault.
package budget
