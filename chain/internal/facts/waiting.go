package facts

import (
	"errors"

	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// WaitingCall is a call that waits for approval.
type WaitingCall struct {
	StepPath string // the path of its step, as in writes: 3, 3[7], 3[7].1
	ID       string // the id of its step; "": the step has none
	Function string
	Effect   steps.Effect
	Args     []byte // the arguments as sent, with digests in place of secrets
	Undo     []byte // {"fn","args"} of the call that undoes it, complete except for $result; nil: none

	Flows []string // the ways of values that flow rules ask about, in words; then only a person can approve the call

	Name string // identifies exactly this call
}

// ErrDismissed is chain.ErrDismissed.
var ErrDismissed = errors.New("the question was left without an answer")

// CallsJSON writes the calls that wait for approval.
func CallsJSON(calls []WaitingCall) []byte {
	w := &rawjson.Writer{B: []byte{'['}}
	for i := range calls {
		WriteCall(w, &calls[i])
	}
	w.Close(']')
	return w.B
}

// WriteCall writes one of them.
func WriteCall(w *rawjson.Writer, c *WaitingCall) {
	w.Open('{')
	w.Text("at", c.StepPath)
	if c.ID != "" {
		w.Text("id", c.ID)
	}
	w.Text("fn", c.Function)
	w.Text("effect", c.Effect.String())
	w.Raw("args", c.Args)
	if c.Undo != nil {
		w.Raw("undo", c.Undo)
	}
	if len(c.Flows) > 0 {
		w.Texts("flows", c.Flows)
	}
	w.Close('}')
}
