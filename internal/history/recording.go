package history

import (
	"strconv"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps/source/replay"
)

// RecordingOptions has the options of Recording.
type RecordingOptions struct {
	Scrubber *secret.Scrubber // removes secrets from arguments and results; nil: there are none
	Journal  *journal.Journal // the journal of the run to compare with; nil: it is compared with a recording
}

// Recording reads the recording at path for Compare. Errors are those of replay.Open.
func Recording(path string, o *RecordingOptions) (*Trace, error) {
	cassette, err := replay.Open(path)
	if err != nil {
		return nil, err
	}
	t := &Trace{Side: Side{File: path}}
	for _, recorded := range cassette.Calls() {
		c := tracedCall{Call: Call{At: "line " + strconv.Itoa(recorded.Line), Function: recorded.Function, Status: "ok",
			Bytes: len(recorded.Result), Tokens: tokens(len(recorded.Result)), Values: newValues(recorded.Args, recorded.Result,
				o.Scrubber)}}
		if recorded.Err != nil {
			c.Status, c.Code, c.Outcome = "failed", recorded.Err.Code, recorded.Err.Outcome
		}
		// Arguments with a masked secret get no MAC: the journal's MAC is that of the arguments with the secret.
		if args := canonical(recorded.Args); o.Journal != nil && string(comparableValue(args)) == string(args) {
			c.mac = string(o.Journal.MAC([]byte(recorded.Function), args))
		}
		t.calls = append(t.calls, c)
	}
	t.addTotals()
	return t, nil
}
