package app

import (
	"fmt"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/steps"
)

// What clients take of a list of tools. Names and descriptions are within what they take, whatever sources and the configuration say.
const (
	maxListedTools  = 128    // VS Code, in one request
	maxListedTokens = 10_000 // which a model reads at each turn
)

// tools looks at the list of tools that a client over stdio gets.
func (e *examination) tools() {
	c := &e.config.Config
	server, err := mcp.New(&mcp.Options{Engine: e.Engine, Catalog: e.Catalog, Counter: e.Counter, Scrubber: e.scrubber, Dispatch: e.dispatch,
		Hoist: c.Hoist, Surface: surfaceOf(c), ReadTool: config.Or(c.ReadTool, false)})
	if err != nil {
		e.add(CheckTools, "", StatusFail, fault.Message(err), "")
		return
	}
	defer server.Close()
	list := server.List(steps.Rights{Tier: config.TierOf(c.Access.Stdio, steps.TierReadWrite)})
	tokens := 0
	for _, tool := range list {
		tokens += e.Counter.Count(tool.JSON, -1)
	}
	status, remedy := StatusOK, ""
	if len(list) > maxListedTools || tokens > maxListedTokens {
		status, remedy = StatusWarn, "surface: chain shows three tools for all"
	}
	e.add(CheckTools, surfaceOf(c).String(), status, fmt.Sprintf("%d tools, %d tokens", len(list), tokens), remedy)
}
