package app

import (
	"fmt"
	"os"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/steps"
)

// What clients take of a list of tools.
const (
	maxListedTools  = 128     // VS Code, in one request
	maxListedTokens = 10_000  // read by a model at each turn
	maxListedName   = 60      // Cursor, together with the server's name
	maxDescription  = 2 << 10 // bytes: Claude Code cuts what is longer
	serverName      = "onecall"
)

func shellPath() string { return os.Getenv("PATH") }

// tools looks at the list of tools that a client over stdio gets.
func (e *examination) tools() {
	c := &e.config.Config
	server, err := mcp.New(&mcp.Options{Engine: e.Engine, Catalog: e.Catalog, Counter: e.Counter, Scrubber: e.scrubber, Dispatch: e.dispatch, Hoist: c.Hoist,
		Surface: surfaceOf(c), ReadTool: config.Or(c.ReadTool, false)})
	if err != nil {
		e.add(CheckTools, "", StatusFail, fault.Message(err), "")
		return
	}
	defer server.Close()
	list := server.List(steps.Rights{Tier: config.TierOf(c.Access.Stdio, steps.TierReadWrite)})
	tokens := 0
	var long, wordy []string
	for _, tool := range list {
		tokens += e.Counter.Count(tool.JSON, -1)
		if len(serverName)+1+len(tool.Name) > maxListedName {
			long = append(long, tool.Name)
		}
		if len(tool.Description) > maxDescription {
			wordy = append(wordy, tool.Name)
		}
	}
	surface := surfaceOf(c).String()
	status, remedy := StatusOK, ""
	if len(list) > maxListedTools || tokens > maxListedTokens {
		status, remedy = StatusWarn, "surface: chain shows three tools for all"
	}
	e.add(CheckTools, surface, status, fmt.Sprintf("%d tools, %d tokens", len(list), tokens), remedy)
	if len(long) > 0 {
		e.add(CheckTools, surface, StatusWarn, fmt.Sprintf("names of over %d characters with the server's, which some clients leave out: %s", maxListedName, fault.Clip(strings.Join(long, ", "), 300)),
			"shorten the group's name")
	}
	if len(wordy) > 0 {
		e.add(CheckTools, surface, StatusWarn, fmt.Sprintf("descriptions of over %d bytes, which some clients cut: %s", maxDescription, fault.Clip(strings.Join(wordy, ", "), 300)),
			"shorten the group's description")
	}
}
