package refs

import (
	"strconv"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// Scope holds the values that a text sees while it is resolved; they are valid compact JSON. It is cheap to copy.
type Scope struct {
	Input  []byte       // the chain's input; nil is {}
	Steps  []StepResult // the results of the steps, by number
	Item   []byte       // the element of forEach
	Index  int          // its index
	Result []byte       // the step's own result; nil is null
	State  []byte       // the values of state that the chain reads, by key; nil is {}

	// Now is the value of now() in expressions; zero: the time of each call of now().
	Now time.Time

	// InputText returns Input with the bytes of blocks, as base64, in place of the texts that stand for them; nil: there are none. Templates
	// do not call it: their values keep these texts.
	InputText func() ([]byte, *fault.Error)

	// Lenient makes a reference null, instead of an error, if its step has no result, or if its path leads into an element of forEach
	// that has none. It is set for `return`.
	Lenient bool

	// Blocks are the blocks of binary data among the values; nil: there are none. Only templates ask for them.
	Blocks Blocks

	// MaxBytes bounds the value of one template or reference (limit_exceeded past it); 0: 256 MiB.
	MaxBytes int
}

// Blocks knows the blocks of binary data among the values of a scope: objects whose member data is a handle.
type Blocks interface {
	// Refer returns the text that stands for the bytes of a block; "": the text, which is not unescaped, is no handle. gone: it was one, and
	// there are no bytes any more.
	Refer(text string) (mark string, gone bool)
}

// StepResult is the result of a step so far.
type StepResult struct {
	Raw    []byte // nil: the step has no result
	Status string // ok, failed, skipped, reused; "" before it has ended
}

const defaultMaxBytes = 256 << 20

func (s *Scope) maxBytes() int {
	if s.MaxBytes > 0 {
		return s.MaxBytes
	}
	return defaultMaxBytes
}

// root returns the value that a reference starts from; nil if it is a step without a result.
func (s *Scope) root(root Root, number int) ([]byte, *fault.Error) {
	switch root {
	case RootStep:
		if number < len(s.Steps) {
			return s.Steps[number].Raw, nil
		}
		return nil, nil
	case RootInput:
		if len(s.Input) == 0 {
			return []byte("{}"), nil
		}
		return s.Input, nil
	case RootItem:
		return orNull(s.Item), nil
	case rootIndex:
		return strconv.AppendInt(nil, int64(s.Index), 10), nil
	case RootResult:
		return orNull(s.Result), nil
	case RootState:
		if len(s.State) == 0 {
			return []byte("{}"), nil
		}
		return s.State, nil
	}
	return nil, fault.New(fault.NotSupported, "$%s is not supported by this version.", root.name())
}

// textRoot is root with the text of blocks in the input, for all but templates.
func (s *Scope) textRoot(root Root, number int) ([]byte, *fault.Error) {
	if root == RootInput && s.InputText != nil {
		return s.InputText()
	}
	return s.root(root, number)
}

func orNull(raw []byte) []byte {
	if len(raw) == 0 {
		return []byte("null")
	}
	return raw
}

// noResult returns the error of a reference to a step without a result.
func (s *Scope) noResult(number int) *fault.Error {
	state := "has not ended"
	if number < len(s.Steps) && s.Steps[number].Status != "" {
		state = "has the status " + s.Steps[number].Status
	}
	return fault.New(fault.ReferenceMissing, "Step %d has no result: it %s. Give a default with ?? where that is expected.", number, state)
}
