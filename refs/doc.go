// Package refs carries values from results into later steps: the reference grammar (`$0.items[*].id ?? 10`), argument
// templates that contain references, and expressions over the same names. It works on raw JSON bytes: a referenced value
// keeps its spelling (numbers beyond 2^53, 1.10, escapes, key order). It knows nothing of functions, tokens or MCP, and no
// type of the libraries that it uses (gjson, expr-lang) appears in its exported names.
//
// A text is compiled once, against a CompileScope that says which names are legal, and resolved any number of times against
// a Scope. Compiled values are immutable; several goroutines may use them at once. Results in a Scope are valid compact
// JSON and are never written to.
//
// Every error is a *fault.Error. When compiling: bad_reference, bad_expression and not_supported, bad_json for a template that
// is not JSON, and bad_arguments for a Pattern. When resolving: reference_missing, bad_expression, limit_exceeded, busy, timeout
// and cancelled.
package refs
