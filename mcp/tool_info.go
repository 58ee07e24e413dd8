package mcp

import (
	"encoding/json"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// infoAnswer is the answer of info. With lite it has only the first three fields.
type infoAnswer struct {
	Name      string        `json:"name"`
	Version   string        `json:"version"`
	State     string        `json:"state"` // ready, starting, degraded
	Session   *sessionUsage `json:"session,omitempty"`
	Surface   string        `json:"surface,omitempty"`
	Caller    string        `json:"caller,omitempty"`
	Tier      string        `json:"tier,omitempty"`
	Functions int           `json:"functions,omitempty"`
	Sources   []sourceState `json:"sources,omitempty"`
	Limits    *callerLimits `json:"limits,omitempty"`
	Hidden    string        `json:"hidden,omitempty"`  // what other callers do not see, for administrators of all functions
	Unready   string        `json:"unready,omitempty"` // why the server is not ready, for administrators
	Note      string        `json:"note,omitempty"`
}

// callerLimits are the caller's limits, without those that are unlimited.
type callerLimits struct {
	MaxTotalTokens int `json:"maxTotalTokens,omitempty"`
	MaxRequestSize int `json:"maxRequestBytes,omitempty"`
	Calls          int `json:"calls,omitempty"`    // tool calls at a time
	Sessions       int `json:"sessions,omitempty"` // HTTP sessions at a time
}

func (c *call) callerLimits() *callerLimits {
	o := &c.now.Options
	limits := o.Limits(c.transportRequest.Token)
	shown := &callerLimits{MaxTotalTokens: o.MaxTotalTokens, MaxRequestSize: int(o.MaxRequestBytes), Calls: max(limits.Calls, 0)}
	if c.transportRequest.Token { // without tokens all callers share the limit
		shown.Sessions = limits.Sessions
	}
	return shown
}

// sourceState describes a source to a caller.
type sourceState struct {
	Name      string `json:"name"`
	State     string `json:"state,omitempty"` // "": ready
	Since     string `json:"since,omitempty"` // when it went down, if retrying or failed
	Functions int    `json:"functions,omitempty"`
	Version   string `json:"version,omitempty"`
	Error     string `json:"error,omitempty"`
	Lock      string `json:"lock,omitempty"` // functions that are not as the lock says, for operators
}

var infoTable = decode.TableOf[infoArguments]()

// infoArguments are the arguments of info.
type infoArguments struct {
	// True: only name, version and state.
	Lite bool `json:"lite"`
	// True: instead, your own runs, newest first, with their status and the id that resume takes; for administrators also totals of all
	// runs of the last hour.
	Runs bool `json:"runs"`
	// Instead, the progress of this run of yours and, once it has ended, how to get its answer.
	Run string `json:"run"`
}

// info describes the server and its sources.
func (c *call) info() *sdk.CallToolResult {
	if isFetch(c.args, true) {
		return c.fetch()
	}
	f := infoArguments{Lite: c.now.Lite}
	a := readArguments(c.args, infoTable, &f)
	for _, unknown := range a.Faults.List {
		if unknown.Code == fault.UnknownField && len(unknown.Nearest) == 0 { // such as the name of a function
			unknown.Message += "; search finds functions and describes them"
		}
	}
	if len(a.Faults.List) > 0 {
		return c.refuse(a.Faults.List...)
	}
	switch {
	case f.Run != "":
		return c.runInfo(f.Run)
	case f.Runs:
		return c.runs()
	}
	o := c.now
	shown := &infoAnswer{Name: o.Name, Version: o.Version, State: c.state()}
	if !f.Lite {
		shown.Session = c.sessionUsage()
		shown.Surface, shown.Caller, shown.Tier = c.toolset.surface.String(), c.caller.ID, c.toolset.rights.Tier.String()
		if c.toolset.rights.Plans {
			shown.Tier = "plans"
		}
		shown.Functions = c.view.Registry().Len()
		shown.Sources = c.sources()
		shown.Limits = c.callerLimits()
		// Only an administrator who sees all functions is told what others do not see.
		if o.Hidden != nil && c.toolset.rights.Tier == steps.TierAdmin && c.view.Registry().Len() == c.now.Catalog.Registry().Len() {
			shown.Hidden = o.Hidden()
		}
		if o.Unready != nil && c.toolset.rights.Tier == steps.TierAdmin {
			shown.Unready = o.Unready(c.ctx)
		}
	}
	result, _ := c.deliver(marshal(shown), 0)
	if result.IsError && len(shown.Sources) > 0 { // too long, and it cannot be stored
		shown.Sources, shown.Note = nil, "the store of large results is unavailable: sources are left out; search lists them"
		result, _ = c.deliver(marshal(shown), 0)
	}
	return result
}

// state summarizes the sources that the caller may know: starting while one is, else degraded if one is down, else ready.
func (c *call) state() string {
	state := string(steps.StateReady)
	for _, source := range c.view.Sources() {
		switch source.State {
		case steps.StateStarting:
			return string(source.State)
		case steps.StateRetrying, steps.StateFailed:
			state = "degraded"
		}
	}
	return state
}

// sources describes the sources that the caller may know, without disabled ones.
func (c *call) sources() []sourceState {
	view := c.view.Registry()
	var shown []sourceState
	for _, source := range c.view.Sources() {
		n := 0
		for name := range source.Functions {
			if view.Has(name) {
				n++
			}
		}
		if source.State == steps.StateDisabled {
			continue
		}
		one := sourceState{Name: source.Name, Functions: n, Version: source.Version}
		if source.State != steps.StateReady {
			one.State = string(source.State)
		}
		if source.Error != nil {
			one.Error = shortened(source.Error)
		}
		one.Lock = source.DifferenceText()
		if !source.Since.IsZero() {
			one.Since = source.Since.UTC().Format(time.RFC3339)
		}
		shown = append(shown, one)
	}
	return shown
}

// maxDown bounds the listed sources that are down.
const maxDown = 5

// downSources describes the sources that could not be searched: up to maxDown, and the number of the others in place of a name.
func (c *call) downSources() []sourceState {
	var down []sourceState
	for _, source := range c.sources() {
		if source.Functions == 0 && source.State != "" && source.State != string(steps.StateIdle) {
			source.Version, source.Since, source.Lock = "", "", ""
			down = append(down, source)
		}
	}
	if more := len(down) - maxDown; more > 0 {
		down = append(down[:maxDown], sourceState{Name: "and " + itoa(more) + " more"})
	}
	return down
}

// shortened returns the first line of a fault's message.
func shortened(f *fault.Error) string {
	line, _, _ := strings.Cut(f.Message, "\n")
	return fault.ClipRunes(line, 160)
}

// marshal returns a value as compact JSON without HTML escapes.
func marshal(value any) json.RawMessage {
	encoded, err := rawjson.Marshal(value)
	if err != nil {
		panic(err) // the values of this package always encode
	}
	return encoded
}
