package fault

import (
	"fmt"
	"runtime/debug"
)

// Panicked is the fault for work that a panic ended. The panic and its stack are its cause, not part of its message.
func Panicked(panicked any, what string) *Error {
	f := New(Internal, "%s", what)
	f.Err = fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
	return f
}
