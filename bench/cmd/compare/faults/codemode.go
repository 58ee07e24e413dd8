package faults

import (
	"context"
	"fmt"
	"strings"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/peers"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
)

func init() {
	add(arm{key: "cloudflare", name: "Cloudflare code mode", open: openCoded("cloudflare"), most: 200})
	add(arm{key: "vmcp", name: "vMCP code mode", open: openCoded("vmcp"), most: 200})
}

// coded is a gateway that runs programs, and keeps nothing of a run: a program that has failed is run again.
type coded struct {
	gateway
	client
	bench *harness.Bench
	peer  *peers.Gateway
}

// openCoded returns how one of the peers is started.
func openCoded(key string) func(context.Context, *harness.Bench, *upstream) system {
	return func(_ context.Context, b *harness.Bench, u *upstream) system {
		c := &coded{bench: b}
		c.start = func(ctx context.Context) (*proc.Process, string) {
			c.peer = peers.Start(ctx, b, key, u.url())
			return c.peer.Process, c.peer.URL
		}
		return c
	}
}

func (c *coded) begin(ctx context.Context, t *trial) (a answer) {
	url := c.url(ctx)
	ctx, vanish := c.live(ctx)
	defer vanish()
	session, err := c.bench.Dial(ctx, url, "")
	if err != nil {
		return answer{text: err.Error()}
	}
	defer session.End()
	if _, err = session.Answer(ctx, c.peer.Tool, c.peer.Arguments(t.program(c.peer.Starlark, nil))); err != nil {
		return answer{text: err.Error()}
	}
	return answer{done: true}
}

func (c *coded) goOn(ctx context.Context, t *trial, _ answer) answer { return c.begin(ctx, t) }

// program returns the task as a program in Starlark or TypeScript, with a line for each step. The writes of which the id is known, by their
// refs, are not in it.
func (t *trial) program(starlark bool, known map[string]string) string {
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
		if s.items > 0 {
			args = append(args, fmt.Sprintf(argument, "ref", "ref"))
			if refs := t.left(i, known); len(refs) > 0 {
				lines = append(lines, fmt.Sprintf(loop, strings.Join(refs, ", "), fmt.Sprintf(call, s.tool, strings.Join(args, ", "))))
			}
			continue
		}
		if s.writes() {
			args = append(args, fmt.Sprintf(argument, "ref", fmt.Sprintf("%q", t.ref(i, 0))))
		}
		value := fmt.Sprintf(call, s.tool, strings.Join(args, ", "))
		if id, made := known[t.ref(i, 0)]; made {
			value = fmt.Sprintf(`{"id": %q}`, id)
		}
		lines = append(lines, fmt.Sprintf("%sr%d = %s", declare, i, value))
	}
	return strings.Join(append(lines, end), "\n")
}

// left returns the refs of a step's items, quoted, without those that are known.
func (t *trial) left(step int, known map[string]string) (refs []string) {
	for item := range t.task.steps[step].items {
		if _, made := known[t.ref(step, item)]; !made {
			refs = append(refs, fmt.Sprintf("%q", t.ref(step, item)))
		}
	}
	return refs
}
