// Package callcache answers calls of functions that read from what they answered before: the call cache. A function takes
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
// Every call of a function that does not read, whatever comes of it, invalidates what it may touch before it is sent:
// answers are dropped, and reads that run are neither kept nor joined any more. While it runs, reads that it may touch go
// through to their functions, so that nothing is left to drop at its end. If it breaks off so that nobody knows whether it
// was done, this lasts 30 seconds more, as the source may still be at it.
//
// A write touches reads of its own source only. Which of them follows from two tags. The resource is what stands in the
// name between source and action (source.resource.action, also source.a.b.action). The paths are arguments, of functions
// without a resource only. "related" is defined below the table:
//
//	the write has…   | a read with a resource       | a read with paths        | a read with neither
//	a resource       | if the resources are related | yes                      | yes
//	paths            | yes                          | if the paths are related | yes
//	neither          | yes                          | yes                      | yes
//
// Two resources are related when the last word of one occurs in the other, case, separators and endings of plurals aside:
// repo.issue with issue, repo and repo.issue.comment, but not with repo.pull. Answers about resources that a source ties
// together in other ways (foreign keys, counters) may be as old as their time to live.
//
// A function has paths when this is sure: each word of its name is one of those for work with files (read_file,
// list_directory, edit, …), it is given a path under a name such as path, file, directory or paths, and whatever else it is
// given is a boolean, null, or known to be no place (content, pattern, limit, …); see words.go for the lists.
// Two paths are related when they are equal or one lies within the other. Case, backslashes, and dots and blanks that end
// an element are ignored; a path is cut before an element with a wildcard or a variable. What cannot be compared is
// related: absolute with relative paths, drives with roots, paths with .. or ~ and URLs. A write to what begins with a dot
// (.gitignore) counts for the whole folder that holds it.
//
// Not seen: writes that do not pass through this cache, links between paths, and the same server behind two sources.
package callcache
