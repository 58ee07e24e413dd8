// Package chain runs chains: JSON objects with an array of steps, whose references carry results from step to step, under a token budget
// that the answer never exceeds.
//
// A chain is data. It is checked completely before anything runs. Its reads run side by side, its writes in the order written.
// Intermediate results stay on the server; only what `return` names is answered.
//
// Engine.Run is what every front end calls: the command line, the MCP server, Go programs. Each stage is a package below internal, and
// takes what the stage before it returns:
//
//	plan     bytes → request      strict: unknown fields, duplicate keys and wrong types are faults
//	         request → plan       names, references, expressions, literals, limits: reports all faults at once
//	run      plan → facts         waves of steps: resolve, call, store; the ledger has what the journal knows of the run
//	answer   facts → Answer       `return` within the budget; what does not fit is omitted in a fixed order
//
// A chain may be answered before its run has ended (Caller.Detach). Engine.DetachedRun then says how far the run is, and has its answer.
//
// Engine.Call runs a chain of one step, for front ends that call one function. Its arguments are literal. Engine.Deliver answers a value
// that a front end has made, and Engine.Refuse answers with faults that a front end has found. All of them share the budget, the probe
// and the codes.
//
// Errors are coded (package fault). No message needs to be parsed.
package chain
