// Package mcp is the MCP server. It shows clients the tools chain, search and info, or dispatchers and flat tools, over stdio and
// Streamable HTTP, runs chains for them, and converts answers to results.
package mcp

import (
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// Surface selects the tools that a client sees.
type Surface uint8

// The surfaces and their names in configurations.
const (
	SurfaceChain    Surface = iota // "chain": chain, search, info
	SurfaceDispatch                // "dispatch": the same tools, a dispatcher per group, and ungrouped functions as flat tools
	SurfaceFlat                    // "flat": chain, search, info, and every function as a tool
	SurfaceHybrid                  // "hybrid": dispatchers and flat tools
)

var surfaceNames = [...]string{SurfaceChain: "chain", SurfaceDispatch: "dispatch", SurfaceFlat: "flat", SurfaceHybrid: "hybrid"}

// String returns the surface's name.
func (s Surface) String() string {
	if int(s) < len(surfaceNames) {
		return surfaceNames[s]
	}
	return surfaceNames[SurfaceChain]
}

// ParseSurface parses a name as String returns it; bad_request for anything else.
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
