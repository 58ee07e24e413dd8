// Package mcp is the MCP server: it shows MCP clients the tools chain, search and info, or dispatchers and flat tools,
// over stdio and Streamable HTTP, and turns their bytes into chains and answers into results.
package mcp

import (
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// Surface is which tools a client sees.
type Surface uint8

// The surfaces, in the spelling of configurations.
const (
	SurfaceChain    Surface = iota // "chain": chain, search, info
	SurfaceDispatch                // "dispatch": those, a dispatcher for each group, and functions of no group as flat tools
	SurfaceFlat                    // "flat": those, and every function as a tool of its own
	SurfaceHybrid                  // "hybrid": dispatchers and flat tools
)

var surfaceNames = [...]string{SurfaceChain: "chain", SurfaceDispatch: "dispatch", SurfaceFlat: "flat", SurfaceHybrid: "hybrid"}

// String is the surface's word.
func (s Surface) String() string {
	if int(s) < len(surfaceNames) {
		return surfaceNames[s]
	}
	return surfaceNames[SurfaceChain]
}

// ParseSurface reads a surface's word exactly as String spells it; bad_request for anything else.
func ParseSurface(word string) (Surface, error) {
	for s, name := range surfaceNames {
		if word == name {
			return Surface(s), nil
		}
	}
	f := fault.New(fault.BadRequest, "unknown surface %q: use %s", word, strings.Join(surfaceNames[:], ", "))
	f.Available, f.Nearest = surfaceNames[:], fault.Nearest(word, surfaceNames[:], 1)
	return SurfaceChain, f
}
