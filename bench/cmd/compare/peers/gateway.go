package peers

import (
	"context"
	"encoding/json"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// Gateway is a peer that was started in front of an upstream, and runs programs.
type Gateway struct {
	*proc.Process
	URL, Tool string
	Starlark  bool // its programs are in Starlark, else in TypeScript
	arm       *arm
}

// Start starts the peer with a key, such as vmcp, in front of the upstream at a URL. The caller closes it.
func Start(ctx context.Context, hb *harness.Bench, key, upstream string) *Gateway {
	a := armByKey(key)
	b := &bench{Bench: hb}
	b.nodeErr = harness.Try(func() {
		b.node = b.Node(ctx, "bench/cmd/compare/peers/node")
		b.node.Note("@cloudflare/codemode", "miniflare")
	})
	g := &Gateway{arm: a, Tool: a.tool, Starlark: a.language == starlark}
	g.Process, g.URL = a.start(ctx, b, upstream)
	return g
}

// Arguments returns what a client sends for a program, in which the upstream's tools have the prefix bench_.
func (g *Gateway) Arguments(program string) json.RawMessage {
	if g.arm.write != nil {
		program = g.arm.write(program)
	}
	return harness.Must(rawjson.Marshal(map[string]string{g.arm.argument: program}))
}

func armByKey(key string) *arm {
	for i := range arms {
		if arms[i].key == key {
			return &arms[i]
		}
	}
	panic("no arm " + key)
}
