// Package cache is the call cache: it answers reads from the answers of earlier calls. It covers functions with a time to live and the
// effect read. All other reads pass through, even if the same read is running, so that polling still reaches the source. Errors are never
// stored.
//
// # What is the same call
//
// The same function with the same arguments as JSON values: key order and string escapes do not matter. Numbers are the same if they are
// written alike: 1 and 1.0 are two calls, because a source may distinguish them, and the cost is only one more call. A function whose
// description, schemas or effect have changed is another function. All callers of the registry share an answer: a function that answers
// each caller differently must not have a time to live. An answer is not shared if its call used the caller's result store or a block of
// its run. Private calls (steps.WithPrivateCalls) pass through.
//
// # Concurrent calls
//
// A read that is repeated while it runs waits for the running read. The running read continues while any caller waits, under the latest of
// their deadlines, and is cancelled when the last waiter leaves; each waiter leaves at its own deadline. Progress and logs go to the first
// caller, while it waits. An error goes to all waiters. A joined call counts as answered from the cache, because nothing was called for it.
//
// # What a write invalidates
//
// Every call of a function that does not read, whatever its result, drops all answers of its source before it is sent, or those of all
// sources if it has none. Running reads of the source are no longer stored or joined. While the write runs, reads pass through to their
// functions, so that nothing is left to drop at its end. If the write breaks off with an unknown outcome, reads pass through for 30 more
// seconds, because the source may still be executing the write.
//
// Not covered: writes that bypass this cache, and the same server behind two sources.
package cache
