package app

import (
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// Limits of clients on a list of tools. The lengths of names and descriptions are limited elsewhere, for any configuration.
const (
	maxListedTools  = 128    // VS Code, in one request
	maxListedTokens = 10_000 // read by a model at each turn
)

// tools checks the list of tools of a stdio client.
func (e *examination) tools() {
	surface := surfaceOf(&e.config.Config)
	list, err := e.Listing(surface)
	if err != nil {
		e.add(CheckTools, "", StatusFail, fault.Message(err), "")
		return
	}
	n, tokens := gjson.GetBytes(list, "tools.#").Int(), e.Counter.Count(list, -1)
	status, remedy := StatusOK, ""
	if n > maxListedTools || tokens > maxListedTokens {
		status, remedy = StatusWarn, "surface: chain shows three tools for all"
	}
	e.add(CheckTools, surface.String(), status, fmt.Sprintf("%d tools, %d tokens", n, tokens), remedy)
}
