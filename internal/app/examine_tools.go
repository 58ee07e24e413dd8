package app

import (
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// What clients take of a list of tools. Names and descriptions are within what they take, whatever sources and the configuration say.
const (
	maxListedTools  = 128    // VS Code, in one request
	maxListedTokens = 10_000 // which a model reads at each turn
)

// tools looks at the list of tools that a client over stdio gets.
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
