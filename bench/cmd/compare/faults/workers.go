package faults

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
)

func init() {
	add(arm{key: "durable", name: "onecall-temporal run --durable", open: openWorked, ours: true, most: 200,
		how: "a worker, which is what is killed as the gateway, and Temporal's development server, which is not killed. " +
			"The file, whose chain has a key, is run again; a worker that was killed is missed after five seconds"})
}

// worked is onecall with an engine: workers run what a command hands over.
type worked struct {
	*ran
	workers map[string]*gateway // by what waits for an approval
	engine  *proc.Process

	life     context.Context
	restarts sync.WaitGroup
}

func openWorked(ctx context.Context, b *harness.Bench, u *upstream) system {
	host, port := harness.FreePort()
	address := host + ":" + port
	temporal := b.Go(ctx, "temporal")
	path := b.Build(ctx, "onecall-temporal", "temporal", "./cmd/onecall-temporal")
	w := &worked{life: ctx, workers: map[string]*gateway{}, ran: &ran{place: newPlace(b, "worked",
		func(context.Context) string { return path }, u, harness.Config{"engine": "temporal://" + address})}}
	w.engine = harness.Must(proc.Start(ctx, b.Cmd(temporal, "server", "start-dev", "--headless", "--ip", host, "--port", port,
		"--log-level", "error", "--db-filename", filepath.Join(b.Temp, "temporal.db"))))
	awaitNamespace(ctx, func() *exec.Cmd {
		return b.Cmd(temporal, "operator", "namespace", "describe", "default", "--address", address)
	})
	for approve := range w.config {
		w.workers[approve] = &gateway{start: func(ctx context.Context) (*proc.Process, string) {
			p := harness.Must(proc.Start(ctx, w.command(ctx, approve, "worker")))
			_, err := p.Await(regexp.MustCompile("ready"), harness.StartLimit)
			harness.Check(err)
			return p, approve
		}}
	}
	return w
}

// awaitNamespace waits until the server has its namespace.
func awaitNamespace(ctx context.Context, describe func() *exec.Cmd) {
	ctx, stop := context.WithTimeout(ctx, harness.StartLimit)
	defer stop()
	for describe().Run() != nil {
		harness.FailIf(ctx.Err() != nil, "the Temporal server did not start within %v", harness.StartLimit)
	}
}

func (w *worked) hasGateway() bool { return true }

// killGateway kills the workers. A supervisor starts those again that have been at work.
func (w *worked) killGateway() {
	for _, g := range w.workers {
		if g.killGateway(); g.wasKilled() {
			w.restarts.Go(func() { g.url(w.life) })
		}
	}
}

func (w *worked) close() {
	w.restarts.Wait()
	for _, g := range w.workers {
		g.close()
	}
	_ = w.engine.Close()
	w.place.close()
}

func (w *worked) begin(ctx context.Context, t *trial) answer {
	w.workers[approval(t)].url(ctx)
	if t.fault.kind.waits {
		watched, stop := context.WithCancel(ctx)
		var person sync.WaitGroup
		defer person.Wait()
		defer stop()
		person.Go(func() { w.approveAll(watched, t) })
	}
	return read(t, w.run(ctx, t, "run", "--durable", w.file(t)))
}

// approveAll approves what waits, each time twice, until the context ends: the command waits for its chain meanwhile.
func (w *worked) approveAll(ctx context.Context, t *trial) {
	for ctx.Err() == nil {
		for _, run := range gjson.Get(w.run(ctx, t, "runs", "--status", "waiting", "--json"), "runs.#.id").Array() {
			t.waits()
			var second sync.WaitGroup
			second.Go(func() { w.run(ctx, t, "approve", run.Str) })
			w.run(ctx, t, "approve", run.Str)
			second.Wait()
		}
	}
}

// goOn runs the same file again. If outcomes are unknown, it looks them up.
func (w *worked) goOn(ctx context.Context, t *trial, last answer) answer {
	if gjson.Get(last.text, "error.code").Str == "resume_conflict" {
		return w.ran.goOn(ctx, t, last)
	}
	return w.begin(ctx, t)
}
