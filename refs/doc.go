// Package refs carries values from results into later steps: the reference grammar (`$0.items[*].id ?? 10`), templates of
// arguments with references in them, and expressions over the same names. It works on raw JSON bytes: a value that a
// reference takes keeps its spelling (numbers beyond 2^53, 1.10, escapes, key order). It knows nothing of functions,
// tokens or MCP, and no type of the libraries inside (gjson, expr-lang) stands in its exported names.
//
// A text is compiled once, against a Place that says which names are legal there, and resolved as often as needed
// against a Scope. Compiled values are immutable and may be used from several goroutines at once. Results in a Scope
// are valid compact JSON; they are never written to.
//
// Every error is a *fault.Error: bad_reference, bad_expression and not_supported when compiling; reference_missing,
// bad_expression, limit_exceeded, timeout and cancelled when resolving.
package refs
