package console

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/history"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// answerTokens is the token limit of an answer that a page shows: what is longer becomes a probe.
const answerTokens = 5000

// answerView is the answer to what the viewer ran.
type answerView struct {
	Run     string // "": it is not recorded
	Error   *fault.Error
	Waits   bool   // for approval
	Stay    string // how many calls an undo did not undo, which have no undo, as its page said before; "": it is another answer
	Result  string // as text; of a probe, its preview
	Cut     bool   // Result is longer
	Probe   *probe // Result is only the beginning; nil: it is whole
	LeftOut string // what an excerpt of the result leaves out; "": nothing
	Usage   struct{ Tokens, Calls, Kept int64 }
	Millis  float64
	Fetch   string // how the viewer fetches the rest; "": nothing is left
	Save    string // the command that saves the chain; "": it failed, or is not recorded
}

// probe describes a result that is too long to be shown.
type probe struct {
	Bytes, Tokens, Expires int64
	Shape                  string
}

// begin runs a chain for the viewer, whose page shows the answer. name is that of the chain in lists of runs if it has none.
func (r *request) begin(a *act, name string, text []byte, override chain.Override) (*page, error) {
	standard := false
	override.Lite, override.MaxTotalTokens = &standard, answerTokens
	return r.startAct(a, name, text, override)
}

// answerOf returns what a page shows of an answer.
func (r *request) answerOf(a *chain.Answer) *answerView {
	v := &answerView{Run: a.Run, Error: a.Error, Waits: a.Question != nil || a.Error != nil && a.Error.Code == fault.ApprovalRequired}
	answer := gjson.ParseBytes(a.JSON)
	usage := answer.Get("usage")
	v.Usage.Tokens, v.Usage.Calls, v.Usage.Kept = usage.Get("tokens").Int(), usage.Get("calls").Int(), usage.Get("kept").Int()
	v.Millis = usage.Get("ms").Float()
	result, token := answer.Get("result"), ""
	if token = result.Get(budget.TokenField).Str; token != "" && result.Get("total_size").Exists() && result.Get("preview").Exists() {
		v.Probe = &probe{result.Get("total_size").Int(), result.Get("total_tokens").Int(), result.Get("expires_in").Int(),
			result.Get("shape").String()}
		result = result.Get("preview")
	} else if left := answer.Get("left_out"); left.Exists() {
		v.LeftOut, token = left.Raw, left.Get(budget.TokenField).Str
	} else {
		token = ""
	}
	if a.OK || result.Type != gjson.Null { // a failed chain has a result only if a part of it succeeded
		v.Result = readable(gjson.ParseBytes(history.Shown([]byte(result.Raw), r.Scrubber)))
	}
	v.Cut = len(v.Result) > maxText
	if token != "" {
		v.Fetch = r.fetch(token)
	}
	if a.Run != "" && a.OK {
		v.Save = "onecall save" + r.Flags + " " + a.Run + " NAME"
	}
	return v
}

// stayed returns answerView.Stay for the answer to an undo.
func stayed(answer []byte) string {
	left := gjson.GetBytes(answer, "result.left").Array()
	if len(left) == 0 || slices.ContainsFunc(left, func(c gjson.Result) bool {
		return c.Get("code").Str != string(fault.NotSupported)
	}) {
		return ""
	}
	return count(len(left), "call")
}

// fetch returns how the viewer fetches a kept result: this machine's user at a terminal, a caller with a token through its agent.
func (r *request) fetch(token string) string {
	if r.viewer.ID == "" {
		return "onecall fetch" + r.Flags + " " + token + " --mode full"
	}
	request, _ := rawjson.Marshal(map[string]string{budget.TokenField: token, "mode": "full"}) // texts can be encoded
	return string(request)
}

// readable returns a JSON value for a person: a text as it is, anything else indented.
func readable(value gjson.Result) string {
	var b bytes.Buffer
	switch {
	case value.Type == gjson.String:
		return value.Str
	case json.Indent(&b, []byte(value.Raw), "", "  ") != nil:
		return value.Raw
	}
	return strings.TrimSpace(b.String())
}
