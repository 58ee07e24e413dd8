// Package shape learns the shape of the results of functions that declare no output schema: the names, types and nesting of their members,
// never a value. The learned shape is shown with a function's signature, and references outside it cause a warning.
//
// # What is kept
//
// A member is kept once two callers or five calls have seen it. Until then only a salted hash of its path is counted, so that a name that
// was seen once is stored nowhere. One entry, [key], stands for all names that are data (numbers, ids, addresses, dates, paths: see
// isData). It stands for all members of an object if half of their names are data, if there are more than 64 over time, or if they are
// similar records. A shape is a JSON Schema of at most 4 KiB. If it is full, deeper members are left out, but still count as possible.
//
// # Cost
//
// A result is read without decoding it: at most 1 MiB, 4,096 values and 10 levels. The first 32 results of a function are read, then one in
// 32.
//
// # Storage
//
// A Store holds the shapes of many functions in one file, which several processes may share: each merges its shapes into the file under a
// lock. A shape belongs to a function's name and an identity of its source, so that another server of the same name inherits nothing.
package shape
