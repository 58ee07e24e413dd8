package harness

import "fmt"

// failure is what Check panics with, and Try recovers.
type failure struct{ error }

// Check ends the work of Try if err is not nil, as a failed check ends a test. It must not be called in another goroutine.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// CheckHere is Check for what does not work on every machine: the error is ErrNotHere, too.
func CheckHere(err error) {
	if err != nil {
		Fail("%w: %w", ErrNotHere, err)
	}
}

// Fail ends the work of Try with an error.
func Fail(format string, args ...any) { Check(fmt.Errorf(format, args...)) }

// FailIf ends the work of Try with an error if something is wrong.
func FailIf(wrong bool, format string, args ...any) {
	if wrong {
		Fail(format, args...)
	}
}

// Must returns v, or ends the work of Try if err is not nil.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// Try does work, and returns the error by which Check has ended it.
func Try(work func()) (err error) {
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case failure:
			err = reason.error
		default:
			panic(reason)
		}
	}()
	work()
	return nil
}

// In does work. An error by which Check ends it begins with what was worked on.
func In(what string, work func()) {
	if err := Try(work); err != nil {
		Fail("%s: %w", what, err)
	}
}
