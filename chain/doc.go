// Package chain runs chains: JSON objects with an array of steps, whose references carry results from step to step, under a token budget
// that the answer never passes. A chain is data. It is checked whole before anything runs; its reads run side by side and
// its writes in the order written; the intermediate results stay here and only what `return` names is answered.
//
// Engine.Run is what every front end calls (the command line, the MCP server, Go programs). Its stages, each with a file of its
// own, take what the stage before gives:
//
//	decode   bytes → Request      strict: unknown fields, duplicate keys, wrong types are faults
//	compile  Request → plan       names, references, expressions, literals, limits: all faults at once
//	execute  plan → run           waves of steps: resolve, call, keep
//	report   run → Answer         `return` within the budget; what does not fit is given up in a fixed order
//
// Engine.Call is a chain of one step for front ends that call one function, with arguments that are taken literally; Deliver
// hands out what a front end has made, and Refuse tells what a front end itself refuses. All of them share the stages above: the same
// budget, probe and codes.
//
// Errors are coded (package fault); no message need ever be parsed.
package chain
