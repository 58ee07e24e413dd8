// Package journal records what runs do while they do it: which calls began, which ended, and how. A failed chain can then be resumed
// without repeating its calls, and what it wrote can be shown, approved and undone.
//
// An engine writes and reads runs through a Journal. It numbers events, encrypts what is secret in them, and puts the events of many runs
// into one transaction. A Driver stores them: Memory, or a database (package sqljournal).
//
// The row of a run says who ran what, and how it ended. Its segments have its events in the order of their numbers, not of time. What a
// resume, an undo or a save needs (the chain, arguments, results) is encrypted.
package journal
