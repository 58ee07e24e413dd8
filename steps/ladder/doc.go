// Package ladder keeps calls to an order of cost. A ladder names functions from cheap to costly, its rungs, and the
// argument that says what a call is about, its subject: a search, a card, a skeleton, a window of the text. A call that
// skips more than one rung for its subject is warned about, or refused before the function is reached. It is decided on
// the arguments of the call itself, when all references are resolved.
//
// What counts:
//
//   - A call's subjects are the value of the subject's argument; each element, where that is an array. null, "" and an
//     argument that is not given are no subject, and a call without one is not judged.
//   - A call counts for its subjects once the function has answered it, with a result or with an error of its own
//     (function_failed), whoever made the answer: the call cache and recordings too.
//   - The result of the first rung, and of any whose function does not declare the argument, counts for every subject that
//     it names: the values of members with the argument's name, at any depth, whatever their case and the separators _ and -.
//   - A subject stands on the highest rung that it was called at in the session (package steps, Session); without a
//     session each call stands alone. Rungs that the caller may not use do not exist for it: they count neither as skipped
//     nor as reached, and are never named.
//   - A rung that names no function now, as its source is not available, does not exist in Warn mode. In Enforce mode it
//     counts as skipped: a function above it must not become free because a cheaper one is missing.
//   - Subjects are compared by value: a number and a string of its digits are the same subject. Integers are exact, other
//     numbers are compared as 64-bit floats, objects whatever the order of their keys.
//
// The ladder saves tokens. It is no right: a function that finds its subject by another argument is not judged.
package ladder
