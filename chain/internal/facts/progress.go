package facts

import (
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// Progress reports the start, the progress or the end of a step, as chain.Progress does.
type Progress struct {
	Done, Total int
	Step        int
	ID          string
	Function    string
	Ended       bool

	Status   string
	Reason   string
	Err      *fault.Error
	Took     time.Duration
	Elements int
	Result   []byte

	FunctionDone, FunctionTotal float64
	Message                     string
}

// LogMessage is a message that a function logs while it runs, as chain.LogMessage is.
type LogMessage struct {
	Step          int
	Function      string
	Level, Logger string
	Data          []byte
}
