// Package cache answers calls of functions that read from earlier answers: the call cache. It covers functions with a time
// to live and the effect read; all other reads pass through, even if the same read is running, so that polling still polls.
// Errors are never stored.
//
// # What is the same call
//
// The same function with the same arguments as JSON values: key order and string escapes do not matter. Numbers are the
// same if they are written alike: 1 and 1.0 are two calls, since a source may tell them apart, and the cost is only one
// more call. A function whose description, schemas or effect have changed is another function. All callers of the registry
// share an answer: a function that answers each caller differently must not have a time to live. An answer for which a
// value was stored in the caller's result store is not shared. Private calls (steps.Private) pass through.
//
// # Concurrent calls
//
// A read that is repeated while it runs waits for the running one. That one continues while anybody waits, under the latest
// of their deadlines, and is cancelled when nobody does; each waiter leaves at its own deadline. Progress and logs go to
// the first caller, while it waits. An error goes to all waiters. A joined call counts as answered from the cache, as
// nothing was called for it.
//
// # What a write invalidates
//
// Every call of a function that does not read, whatever its result, drops all answers of its source before it is sent, and
// those of all sources if it has none. Running reads of the source are neither stored nor joined any more. While the write
// runs, reads pass through to their functions, so that nothing is left to drop at its end. If it breaks off with an unknown
// outcome, this lasts 30 seconds more, as the source may still be executing it.
//
// Not covered: writes that bypass this cache, and the same server behind two sources.
package cache
