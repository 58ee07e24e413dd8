// Package cache answers calls of functions that read from what they answered before: the call cache. A function takes
// part where it has a time to live and its effect is read; every other read goes through untouched, also where the same
// read runs already, so that polling stays polling. Errors are never kept.
//
// # What is the same call
//
// The same function with the same arguments as JSON values: the order of keys and the escapes in strings do not matter.
// Numbers are the same where they are spelt alike: 1 and 1.0 are two calls, since a source may tell them apart, and the
// worst that comes of it is one more call. A function whose description, schemas or effect have changed is another
// function. An answer is shared by all callers of the registry: a function that answers each caller differently must not
// be given a time to live. An answer for which a value was put into the caller's result store is not shared.
// Calls that are their caller's own (steps.Private) go through untouched.
//
// # Side by side
//
// Where the cache is on, the same read made again while it runs waits for the one that runs. It goes on while
// anybody waits, under the latest deadline of those who do, and is cancelled when nobody does; each leaves at its own
// deadline. Progress and logs go to the first, while it waits. An error is given to all who waited. Who joined counts as
// answered from the cache, as nothing was called for it.
//
// # What a write invalidates
//
// Every call of a function that does not read, whatever comes of it, drops all answers of its source before it is sent, and
// those of all sources if it has none. Reads of the source that run are neither kept nor joined any more. While the write
// runs, reads go through to their functions, so that nothing is left to drop at its end. If it breaks off so that nobody
// knows whether it was done, this lasts 30 seconds more, as the source may still be at it.
//
// Not seen: writes that do not pass through this cache, and the same server behind two sources.
package cache
