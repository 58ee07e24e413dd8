package mcp

import (
	"errors"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/history"
	"github.com/onecall-mcp/onecall/steps"
)

// runsAnswer is the answer of info with runs.
type runsAnswer struct {
	Runs     []runSummary  `json:"runs"` // the caller's own, newest first
	LastHour *history.Hour `json:"lastHour,omitempty"`
	Note     string        `json:"note,omitempty"`
}

// runSummary is one of the caller's runs, without arguments and results.
type runSummary struct {
	ID        string         `json:"run"` // the id that resume takes
	Status    journal.Status `json:"status"`
	Code      fault.Code     `json:"code,omitempty"`
	Chain     string         `json:"chain,omitempty"`
	Key       string         `json:"key,omitempty"`
	Functions []string       `json:"functions,omitempty"` // those of its functions that the caller may use, at most maxRunsFunctions
	Began     string         `json:"began"`
	Millis    int            `json:"ms"`
	Calls     int            `json:"calls"`
	Writes    int            `json:"writes,omitempty"`
	Tokens    int            `json:"tokens"`
}

const (
	maxRunsShown     = 50
	maxRunsFunctions = 5
)

// runs lists the caller's own runs and, for administrators of all functions, the totals of the last hour.
func (c *call) runs() *sdk.CallToolResult {
	j := c.now.Engine.Journal()
	if j == nil {
		return c.refuse(fault.New(fault.NotSupported,
			"runs are not recorded here: the configuration says journal: {store: off}").Under("/runs"))
	}
	shown := &runsAnswer{Runs: []runSummary{}}
	var err, failed error
	if c.transportRequest.Shared() {
		shown.Note = "callers without tokens share one identity, so runs are not listed: " +
			"the resume of a failed answer names yours, or give each caller a token (access.tokens)"
	} else {
		shown.Runs, err = c.runsOfCaller(j)
	}
	if r := c.toolset.rights; r.Tier == steps.TierAdmin && (r.Functions == "" || r.Functions == "*") { // even if callers share one identity
		shown.LastHour, failed = history.LastHour(c.ctx, j, c.now.Engine.Scope())
	}
	if err = errors.Join(err, failed); err != nil {
		c.now.Log.WarnContext(c.ctx, "the journal cannot be read", "error", err)
		return c.refuse(fault.New(fault.Unavailable, "runs are unavailable: the journal cannot be read"))
	}
	result, _ := c.deliver(marshal(shown), 0)
	return result
}

// runsOfCaller lists the caller's runs, without runs that are part of another run.
func (c *call) runsOfCaller(j *journal.Journal) ([]runSummary, error) {
	none, scope := "", c.now.Engine.Scope()
	runs, err := history.Runs(c.ctx, j, &journal.Filter{Callers: []string{c.caller.ID}, Scope: &scope, Parent: &none, Limit: maxRunsShown})
	list := make([]runSummary, len(runs))
	view := c.view.Registry()
	for i := range runs {
		r := &runs[i]
		list[i] = runSummary{
			ID: r.ID, Status: r.Status, Code: r.Code, Key: r.Key, Began: r.Began.UTC().Format(time.RFC3339), Millis: int(r.Millis),
			Calls: r.Calls, Writes: r.Writes, Tokens: r.Tokens,
		}
		if !strings.HasPrefix(r.Chain, steps.ChainSource+".") || view.Has(r.Chain) { // a saved chain that the caller may use
			list[i].Chain = r.Chain
		}
		for _, name := range r.Functions {
			if view.Has(name) && len(list[i].Functions) < maxRunsFunctions {
				list[i].Functions = append(list[i].Functions, name)
			}
		}
	}
	return list, err
}
