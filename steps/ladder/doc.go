// Package ladder enforces an order of cost on calls. A ladder names functions from cheap to expensive, its rungs, such as a search, a card,
// a skeleton and a window of the text. It also names the argument that holds the subject of a call. A call that skips more than one rung
// for its subject causes a warning, or is refused before the function is called. The decision uses the arguments of the call itself, with
// all references resolved.
//
// The rules:
//
//   - A call's subjects are the value of the subject's argument, or each element if that is an array. null, "" and a missing
//     argument are no subject, and a call without one is not judged.
//   - A call counts for its subjects once the function has answered it, with a result or with its own error
//     (function_failed), even if the answer comes from the call cache or a recording.
//   - The result of the first rung, and of any rung whose function does not declare the argument, counts for every subject that
//     it names: the values of members with the argument's name, at any depth, ignoring case and the separators _ and -.
//   - A subject is on the highest rung that it was called at in the session (package steps, Session); without a session
//     each call is judged alone. Rungs that the caller may not use do not exist for that caller: they count neither as skipped
//     nor as reached, and are never named.
//   - A rung that currently names no function, because its source is unavailable, does not exist in Warn mode. In Enforce mode
//     it counts as skipped: a missing cheap function must not open the way to the functions above it.
//   - Subjects are compared by value: a number and a string of its digits are the same subject. Integers are exact, other
//     numbers are compared as 64-bit floats, objects regardless of key order.
//
// The ladder saves tokens. It is not access control: a function that finds its subject by another argument is not judged.
package ladder
