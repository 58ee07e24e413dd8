package faults

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
)

func init() {
	add(arm{key: "cloudflareDurable", name: "Cloudflare durable code mode", open: openDurable,
		how: "the durable runtime in miniflare, with its log on a disk of its own, and an MCP client that waits a second for a call. " +
			"A run that waits is approved. Its documentation has no way on for a run that has failed or was left running: the latter is expired " +
			"(`expirePaused`), and another program, as a model writes it with the log, makes the calls that the log does not have as applied. " +
			"Writes that the log has as begun are looked up, unless they are safe to repeat"})
}

// durable is Cloudflare's durable code mode: a program that runs in a Durable Object, which keeps a log of the program's calls.
type durable struct {
	gateway
	client
	room  *disk
	known map[string]string // the ids of the trial's writes that were made, by ref
	asked map[string]bool   // the begun writes that were looked up, by run and place in its log
}

func openDurable(ctx context.Context, b *harness.Bench, u *upstream) system {
	node := b.Node(ctx, "bench/cmd/compare/peers/node")
	node.Note("@cloudflare/codemode", "miniflare")
	d, folder := &durable{}, filepath.Join(b.Temp, "cloudflare")
	d.room = newDisk(folder)
	d.start = func(ctx context.Context) (*proc.Process, string) {
		return harness.Listen(ctx, node.Command("durable.mjs", u.url(), folder))
	}
	return d
}

func (d *durable) hasDeadline() bool { return true }
func (d *durable) approves() bool    { return true }
func (d *durable) disk() *disk       { return d.room }

func (d *durable) close() {
	d.gateway.close()
	if d.room != nil {
		d.room.close()
	}
}

// call calls a method of the runtime.
func (d *durable) call(ctx context.Context, t *trial, method string, argument any) (gjson.Result, error) {
	url := d.url(ctx)
	ctx, vanish := d.live(ctx)
	defer vanish()
	body, status, err := postJSON(ctx, url, harness.Must(json.Marshal(map[string]any{
		"method": method, "argument": argument, "approve": approval(t) == "write"})), nil)
	if err == nil && !strings.HasPrefix(status, "200") {
		err = fmt.Errorf("%s: %.500s", status, body)
	}
	return gjson.ParseBytes(body), err
}

func (d *durable) begin(ctx context.Context, t *trial) answer {
	d.known, d.asked = map[string]string{}, map[string]bool{}
	return d.execute(ctx, t)
}

// execute runs the task without the writes that are known, and approves what waits.
func (d *durable) execute(ctx context.Context, t *trial) answer {
	run, err := d.call(ctx, t, "execute", map[string]any{"code": "async () => {\n" + t.program(false, d.known) + "\n}"})
	return d.finish(ctx, t, run, err)
}

// finish approves what waits in a run, each time twice, and reads the answer.
func (d *durable) finish(ctx context.Context, t *trial, run gjson.Result, err error) answer {
	for err == nil && run.Get("status").Str == "paused" && ctx.Err() == nil {
		t.waits()
		decision := map[string]any{"executionId": cmp.Or(run.Get("executionId").Str, run.Get("id").Str)}
		var second sync.WaitGroup
		second.Go(func() { _, _ = d.call(ctx, t, "approve", decision) })
		_, err = d.call(ctx, t, "approve", decision)
		second.Wait()
		if runs, failed := d.runs(ctx, t); len(runs) > 0 {
			run, err = runs[len(runs)-1], failed
		}
	}
	if err != nil {
		return answer{text: err.Error()}
	}
	a := answer{text: run.Raw, done: run.Get("status").Str == "completed", told: map[string]outcome{}}
	for _, entry := range logOf(run) {
		switch ref := entry.Get("args.ref").Str; entry.Get("state").Str {
		case "applied":
			a.told[ref] = applied
		case "pending":
			a.told[ref] = undone
		default:
			a.told[ref] = unknown
		}
	}
	return a
}

// logOf returns the calls of a run, which its answer and the list of runs have under different names.
func logOf(run gjson.Result) []gjson.Result {
	return append(run.Get("calls").Array(), run.Get("log").Array()...)
}

// runs returns the runs of the trial, the oldest first. They are found by their programs, as a client that was killed has no id.
func (d *durable) runs(ctx context.Context, t *trial) (some []gjson.Result, err error) {
	const most = 20 // more than a trial has
	all, err := d.call(ctx, t, "executions", most)
	for _, run := range slices.Backward(all.Array()) {
		if strings.Contains(run.Get("code").Str, `"`+t.name+".") {
			some = append(some, run)
		}
	}
	return some, err
}

// silence is how long a run must have logged nothing to count as left. It is longer than a call may take.
const silence = 2 * deadline

func (d *durable) goOn(ctx context.Context, t *trial, _ answer) answer {
	runs, err := d.runs(ctx, t)
	for err == nil && len(runs) > 0 && runs[len(runs)-1].Get("status").Str == "running" {
		if _, err = d.call(ctx, t, "expirePaused", map[string]any{"maxAgeMs": silence.Milliseconds()}); err == nil {
			time.Sleep(silence / 10)
			runs, err = d.runs(ctx, t)
		}
	}
	if err != nil {
		return answer{text: err.Error()}
	}
	if len(runs) > 0 {
		switch last := runs[len(runs)-1]; last.Get("status").Str {
		case "paused", "completed":
			return d.finish(ctx, t, last, nil)
		}
	}
	asks := d.learn(t, runs)
	a := d.execute(ctx, t)
	a.asks, a.rewritten = asks, len(d.known) > 0
	return a
}

// learn looks up in the log of runs what they have written, and returns how many of these writes it had to look up in the service.
func (d *durable) learn(t *trial, runs []gjson.Result) (asks int) {
	for _, run := range runs {
		for _, entry := range logOf(run) {
			ref, begun := entry.Get("args.ref").Str, run.Get("id").Str+entry.Get("seq").Raw
			switch {
			case ref == "":
			case entry.Get("state").Str == "applied":
				d.known[ref] = entry.Get("result.id").Str
			case !d.asked[begun] && !idempotent(strings.TrimPrefix(entry.Get("method").Str, "bench_")):
				d.asked[begun] = true
				asks++
				if id := t.lookUp(ref); id != "" {
					d.known[ref] = id
				}
			}
		}
	}
	return asks
}
