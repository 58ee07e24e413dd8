package mcp

import (
	"encoding/json"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// infoShown is what info answers. Lite: the first three.
type infoShown struct {
	Name      string        `json:"name"`
	Version   string        `json:"version"`
	State     string        `json:"state"` // ready, starting, degraded
	Session   *sessionShown `json:"session,omitempty"`
	Surface   string        `json:"surface,omitempty"`
	Caller    string        `json:"caller,omitempty"`
	Tier      string        `json:"tier,omitempty"`
	Functions int           `json:"functions,omitempty"`
	Sources   []sourceShown `json:"sources,omitempty"`
	Limits    *limitsShown  `json:"limits,omitempty"`
	Hidden    string        `json:"hidden,omitempty"`  // to administrators of all functions: what callers by default do not see
	Unready   string        `json:"unready,omitempty"` // to administrators: why the server is not ready
	Note      string        `json:"note,omitempty"`
}

// limitsShown are those of the caller; what is not bounded is left out.
type limitsShown struct {
	MaxTotalTokens int `json:"maxTotalTokens,omitempty"`
	MaxRequestSize int `json:"maxRequestBytes,omitempty"`
	Calls          int `json:"calls,omitempty"`    // at once
	Sessions       int `json:"sessions,omitempty"` // over HTTP, at once
}

func (c *call) limitsShown() *limitsShown {
	o := &c.now.Options
	limits := o.Limits(c.of.Token)
	shown := &limitsShown{MaxTotalTokens: o.MaxTotalTokens, MaxRequestSize: int(o.MaxRequestBytes), Calls: max(limits.Calls, 0)}
	if c.of.Token { // without tokens the bound is for all callers together
		shown.Sessions = limits.Sessions
	}
	return shown
}

// sourceShown is what a caller is told of a source.
type sourceShown struct {
	Name      string `json:"name"`
	State     string `json:"state,omitempty"` // left out if it is ready
	Since     string `json:"since,omitempty"` // when it went down, if it is retrying or failed
	Functions int    `json:"functions,omitempty"`
	Version   string `json:"version,omitempty"`
	Error     string `json:"error,omitempty"`
}

// infoArguments is what is asked of info.
type infoArguments struct {
	// True: name, version and state alone.
	Lite bool `json:"lite"`
	// True: instead of that, your own runs, the newest first, with what resume takes, and their status; to administrators also sums of
	// all runs of the last hour.
	Runs bool `json:"runs"`
}

// info tells what this server is, and how its sources are.
func (c *call) info() *sdk.CallToolResult {
	if isFetch(c.args, true) {
		return c.fetch()
	}
	f := infoArguments{Lite: c.now.Lite}
	a := readArguments(c.args, &f)
	if len(a.faults) > 0 {
		return c.refuse(a.faults...)
	}
	if f.Runs {
		return c.runs()
	}
	o := c.now
	shown := &infoShown{Name: o.Name, Version: o.Version, State: c.state()}
	if !f.Lite {
		shown.Session = c.spentShown()
		shown.Surface, shown.Caller, shown.Tier = c.toolset.surface.String(), c.caller.ID, c.toolset.rights.Tier.String()
		shown.Functions = c.view.Registry().Len()
		shown.Sources = c.sources()
		shown.Limits = c.limitsShown()
		if o.Hidden != nil && c.toolset.rights.Tier == steps.TierAdmin && c.view.Registry().Len() == c.now.Catalog.Registry().Len() { // who sees all
			shown.Hidden = o.Hidden()
		}
		if o.Unready != nil && c.toolset.rights.Tier == steps.TierAdmin {
			shown.Unready = o.Unready(c.ctx)
		}
	}
	result, _ := c.deliver(marshal(shown), 0)
	if result.IsError && len(shown.Sources) > 0 { // it is too long, and what is too long cannot be kept
		shown.Sources, shown.Note = nil, "the store of large results cannot be used now: the sources are left out, search names them"
		result, _ = c.deliver(marshal(shown), 0)
	}
	return result
}

// state sums up the sources: starting while one is, degraded where one is down.
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

// sources tells of the sources that the caller may know of.
func (c *call) sources() []sourceShown {
	view := c.view.Registry()
	var shown []sourceShown
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
		one := sourceShown{Name: source.Name, Functions: n, Version: source.Version}
		if source.State != steps.StateReady {
			one.State = string(source.State)
		}
		if source.Error != nil {
			one.Error = shortened(source.Error)
		}
		if !source.Since.IsZero() {
			one.Since = source.Since.UTC().Format(time.RFC3339)
		}
		shown = append(shown, one)
	}
	return shown
}

// maxDown is how many sources are told of in which nothing could be looked for.
const maxDown = 5

// down tells of the sources in which nothing could be looked for.
func (c *call) down() []sourceShown {
	var down []sourceShown
	for _, source := range c.sources() {
		if source.Functions == 0 && source.State != "" && source.State != string(steps.StateIdle) {
			source.Version, source.Since = "", ""
			down = append(down, source)
		}
	}
	if more := len(down) - maxDown; more > 0 {
		down = append(down[:maxDown], sourceShown{Name: "and " + itoa(more) + " more"})
	}
	return down
}

// shortened is the first line of what is wrong with a source.
func shortened(f *fault.Error) string {
	line, _, _ := strings.Cut(f.Message, "\n")
	return fault.ClipRunes(line, 160)
}

// marshal writes a value as compact JSON, without the escapes that HTML would need.
func marshal(value any) json.RawMessage {
	encoded, err := rawjson.Marshal(value)
	if err != nil {
		panic(err) // none of the values of this package fails to encode
	}
	return encoded
}
