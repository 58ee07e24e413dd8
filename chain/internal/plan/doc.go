// Package plan reads requests and compiles them.
//
// Reading makes a Request of bytes, strictly: decode.go and fields.go by the types in request.go, with textasjson.go, hoist.go, misnamed.go
// and validate.go for what else a request may hold, locate.go for lines and columns, mentions.go and saveas.go for those who only look at
// one. Compiling makes a Plan of a Request, or reports all faults at once: compile.go, a level of steps at a time, with arguments.go,
// expressions.go, input.go, undo.go and origin.go, by the Rules of the engine.
package plan
