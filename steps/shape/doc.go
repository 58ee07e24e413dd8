// Package shape learns the shape of the results of functions that declare no output schema: the names, types and nesting of
// their members, never a value. The learnt shape is shown with a function's signature, and references outside it give a
// warning.
//
// # What is kept
//
// A member is kept once two callers or five calls have seen it. Until then only a salted hash of its path is counted, so
// that a name that was seen once is stored nowhere. Names that are data (numbers, ids, addresses, dates, paths: see
// isData), objects with more than 64 members over time, and objects whose members are similar records become one entry,
// [key], which stands for all names. A shape is a JSON Schema of at most 4 KiB; when it is full, deeper members are left
// out and counted as possible.
//
// # Cost
//
// A result is read without decoding it: at most 1 MiB, 4,096 values and 10 levels. The first 32 results of a function are
// read, later one of 32.
//
// # Storage
//
// A Store holds the shapes of many functions in one file, which several processes may share: each merges what it learnt
// into the file under a lock. A shape belongs to a function's name and an identity of its source, so that another server of
// the same name inherits nothing.
package shape
