// Package journal remembers what runs do while they do it: which calls began, which ended and how. A chain that failed goes on from
// there without making a call twice that was made, and what was written can be told, approved and undone.
//
// A Journal is what an engine writes through and what reads runs again. It numbers events, seals what is secret in them, and
// puts many runs' events into one transaction. A Driver keeps what it writes: Memory, or a database (package sqljournal).
//
// A run's row says who ran what, and how it ended. Its segments hold its events, in the order of their numbers, never of
// time. What a resume, an undo or a save needs (the chain, arguments, results) is encrypted in them.
package journal
