package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/peers"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
)

func init() {
	add(arm{key: "composer", name: "vMCP composite tools", open: openComposed, most: 200,
		how: "a composite tool for each task, whose steps run one after the other and wait a second for a call (`operational.timeouts`). " +
			"Each is tried again up to three times (`onError: retry`), as the documentation has it for failures of the network. " +
			"A composite tool that failed is called again, from its beginning, as its state is in memory"})
}

// composed is vMCP with composite tools, which are workflows in its configuration.
type composed struct {
	gateway
	client
	bench *harness.Bench
}

func openComposed(_ context.Context, b *harness.Bench, u *upstream) system {
	c := &composed{bench: b}
	config := peers.VMCPConfig(u.url(), map[string]any{"compositeTools": composites(),
		"operational": map[string]any{"timeouts": map[string]any{"default": deadline.String()}}})
	c.start = func(ctx context.Context) (*proc.Process, string) { return peers.StartVMCP(ctx, b, config) }
	return c
}

func (c *composed) hasDeadline() bool { return true }

func (c *composed) begin(ctx context.Context, t *trial) answer {
	url := c.url(ctx)
	ctx, vanish := c.live(ctx)
	defer vanish()
	session, err := c.bench.Dial(ctx, url, "")
	if err != nil {
		return answer{text: err.Error()}
	}
	defer session.End()
	if _, err = session.Answer(ctx, compositeName(t.task), json.RawMessage(fmt.Sprintf(`{"run":%q}`, t.name))); err != nil {
		return answer{text: err.Error()}
	}
	return answer{done: true}
}

func (c *composed) goOn(ctx context.Context, t *trial, _ answer) answer { return c.begin(ctx, t) }

func compositeName(t *task) string { return strings.ReplaceAll(t.name, " ", "_") }

// composites returns the tasks as composite tools. Their argument is the name of the trial, with which the refs begin.
func composites() (all []any) {
	for i := range tasks {
		t := &trial{name: "{{.params.run}}", task: &tasks[i]}
		var steps []any
		for at := range t.task.steps {
			steps = append(steps, t.composite(at))
		}
		all = append(all, map[string]any{"name": compositeName(t.task), "description": t.task.name, "steps": steps,
			"parameters": map[string]any{"type": "object", "required": []string{"run"},
				"properties": map[string]any{"run": map[string]any{"type": "string"}}}})
	}
	return all
}

// composite returns a step of a composite tool. It depends on the one before, so that the calls are in the task's order.
func (t *trial) composite(at int) map[string]any {
	s, args := &t.task.steps[at], map[string]any{}
	for _, a := range s.args {
		args[a.name] = a.literal
		if a.from > 0 {
			args[a.name] = fmt.Sprintf("{{.steps.s%d.output.id}}", a.from-1)
		}
	}
	retry := map[string]any{"action": "retry", "retryCount": 3}
	step := map[string]any{"id": fmt.Sprintf("s%d", at), "type": "tool", "tool": "bench_" + s.tool, "arguments": args, "onError": retry}
	if s.items > 0 {
		args["ref"] = "{{.forEach.item}}"
		inner := step
		inner["id"] = fmt.Sprintf("s%dItem", at)
		step = map[string]any{"id": fmt.Sprintf("s%d", at), "type": "forEach", "maxParallel": 1, "step": inner,
			"collection": "[" + strings.Join(t.left(at, nil), ",") + "]"}
	} else if s.writes() {
		args["ref"] = t.ref(at, 0)
	}
	if at > 0 {
		step["dependsOn"] = []string{fmt.Sprintf("s%d", at-1)}
	}
	return step
}
