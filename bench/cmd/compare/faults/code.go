package faults

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/peers"
)

// coded is a gateway that runs programs, and keeps nothing of a run: a program that has failed is run again.
type coded struct {
	bench   *harness.Bench
	key     string
	mu      sync.Mutex
	gateway *peers.Gateway
	killed  bool
	vanish  context.CancelFunc // closes the connections of the client
}

// openCoded returns how one of the peers is started.
func openCoded(key string) func(context.Context, *harness.Bench, *upstream) system {
	return func(ctx context.Context, b *harness.Bench, u *upstream) system {
		return &coded{bench: b, key: key, gateway: peers.Start(ctx, b, key, u.url())}
	}
}

func (c *coded) hasGateway() bool  { return true }
func (c *coded) hasDeadline() bool { return false }
func (c *coded) database() string  { return "" }
func (c *coded) disk() *disk       { return nil }
func (c *coded) approves() bool    { return false }
func (c *coded) close()            { _ = c.gateway.Close() }

func (c *coded) killGateway() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gateway.Kill()
	c.killed = true
}

func (c *coded) killClient() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.vanish()
}

func (c *coded) begin(ctx context.Context, t *trial) (a answer) {
	ctx, vanish := context.WithCancel(ctx)
	defer vanish()
	c.mu.Lock()
	c.vanish = vanish
	killed := c.killed
	c.mu.Unlock()
	if killed {
		<-c.gateway.Done()
		gateway := peers.Start(context.WithoutCancel(ctx), c.bench, c.key, t.upstream.url())
		c.mu.Lock()
		c.gateway, c.killed = gateway, false
		c.mu.Unlock()
	}
	session, err := c.bench.Dial(ctx, c.gateway.URL, "")
	if err != nil {
		return answer{text: err.Error()}
	}
	defer session.End()
	if _, err = session.Answer(ctx, c.gateway.Tool, c.gateway.Arguments(t.program(c.gateway.Starlark))); err != nil {
		return answer{text: err.Error()}
	}
	return answer{done: true}
}

func (c *coded) goOn(ctx context.Context, t *trial, _ answer) answer { return c.begin(ctx, t) }

// program returns the task as a program in Starlark or TypeScript, with a line for each step.
func (t *trial) program(starlark bool) string {
	call, argument, id, loop, end := "await tools.bench_%s({%s})", "%s: %s", "r%d.id", "for (const ref of [%s]) %s", "return 1"
	declare := "const "
	if starlark {
		call, argument, id, loop, declare = "bench_%s(%s)", "%s=%s", `r%d["id"]`, "for ref in [%s]:\n  %s", ""
	}
	var lines []string
	for i, s := range t.task.steps {
		var args []string
		for _, a := range s.args {
			value := fmt.Sprintf("%q", a.literal)
			if a.from > 0 {
				value = fmt.Sprintf(id, a.from-1)
			}
			args = append(args, fmt.Sprintf(argument, a.name, value))
		}
		switch {
		case s.items > 0:
			args = append(args, fmt.Sprintf(argument, "ref", "ref"))
			var refs []string
			for item := range s.items {
				refs = append(refs, fmt.Sprintf("%q", t.ref(i, item)))
			}
			lines = append(lines, fmt.Sprintf(loop, strings.Join(refs, ", "), fmt.Sprintf(call, s.tool, strings.Join(args, ", "))))
			continue
		case s.writes():
			args = append(args, fmt.Sprintf(argument, "ref", fmt.Sprintf("%q", t.ref(i, 0))))
		}
		lines = append(lines, fmt.Sprintf("%sr%d = %s", declare, i, fmt.Sprintf(call, s.tool, strings.Join(args, ", "))))
	}
	return strings.Join(append(lines, end), "\n")
}
