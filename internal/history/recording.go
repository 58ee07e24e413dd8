package history

import (
	"strconv"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps/source/replay"
)

// RecordingOptions say how a recording is read.
type RecordingOptions struct {
	Scrubber *secret.Scrubber // of what is shown
	Journal  *journal.Journal // whose runs it is compared with; nil: it is compared with another recording
}

// Recording is what a recording tells, call by call. Errors: those of replay.Open.
func Recording(path string, o *RecordingOptions) (*Trace, error) {
	cassette, err := replay.Open(path)
	if err != nil {
		return nil, err
	}
	t := &Trace{Side: Side{File: path}}
	for _, one := range cassette.Calls() {
		c := tracedCall{Call: Call{At: "line " + strconv.Itoa(one.Line), Function: one.Function, Status: "ok", Bytes: len(one.Result), Tokens: tokens(len(one.Result)), Values: newValues(one.Args, one.Result, o.Scrubber)}}
		if one.Err != nil {
			c.Status, c.Code, c.Outcome = "failed", one.Err.Code, one.Err.Outcome
		}
		if args := canonical(one.Args); o.Journal != nil && string(comparable(args)) == string(args) {
			c.mac = string(o.Journal.MAC([]byte(one.Function), args))
		}
		t.calls = append(t.calls, c)
	}
	t.sum()
	return t, nil
}
