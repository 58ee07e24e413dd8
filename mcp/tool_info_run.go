package mcp

import (
	"encoding/json"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// runProgress is the answer of info with run.
type runProgress struct {
	Run       string          `json:"run"`
	Status    journal.Status  `json:"status"`
	Code      fault.Code      `json:"code,omitempty"`
	Steps     int             `json:"steps"`
	Done      *int            `json:"done,omitempty"` // steps that have ended
	Calls     int             `json:"calls,omitempty"`
	Began     string          `json:"began"`
	Millis    int             `json:"ms"`
	Fetch     json.RawMessage `json:"fetch,omitempty"` // arguments that chain answers with the run's answer
	ExpiresIn int             `json:"expires_in,omitempty"`
	Note      string          `json:"note,omitempty"`
}

// runInfo describes the progress of one of the caller's runs.
func (c *call) runInfo(id string) *sdk.CallToolResult {
	r, f := c.now.Engine.DetachedRun(c.ctx, id, true, c.caller)
	if f != nil {
		return c.refuse(f.Under("/run"))
	}
	shown := &runProgress{Run: id, Status: r.Status, Code: r.Code, Steps: r.Steps, Calls: r.Calls, Began: stamp(r.Began),
		Millis: int(r.Took.Milliseconds()), Note: r.Note}
	if r.Done >= 0 {
		shown.Done = &r.Done
	}
	token, lifetime := r.Keep(c.ctx)
	switch {
	case token != "":
		shown.Fetch = marshal(map[string]any{"continuation_token": token, "mode": "full", "lite": true})
		shown.ExpiresIn, shown.Note = int(lifetime.Seconds()), "send fetch as the arguments of chain: its answer is that of the run"
	case r.Note == "" && (r.Done < 0 || r.Status != journal.Running):
		shown.Note = noteOf(r.Status, id)
	}
	result, _ := c.deliver(marshal(shown), 0)
	return result
}

// noteOf returns what a caller can do about a run whose answer is not available.
func noteOf(status journal.Status, id string) string {
	switch status {
	case journal.Running:
		return "another request, or another process, carries it out"
	case journal.OK, journal.Undone:
		return "its answer is not here any more: a chain with a key that is sent again is answered as before"
	}
	return `chain {"resume":"` + id + `"} goes on with it: what it has done is not done again`
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
