package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
	"github.com/onecall-mcp/onecall/bench/load"
)

// Worker is a compiled program that runs Main of this package.
type Worker struct{ path string }

// Build compiles the worker.
func Build(ctx context.Context, b *harness.Bench) *Worker {
	return &Worker{b.Build(ctx, "worker", "bench/cmd/compare", "./worker")}
}

// measureLimit is the time limit of one measurement, enough for a slow machine.
const measureLimit = 4 * time.Minute

// Measure makes one measurement in a new process.
func (w *Worker) Measure(ctx context.Context, name string, size, rounds int) (s Samples) {
	out := harness.Must(proc.Run(ctx, exec.Command(w.path, name, fmt.Sprint(size), fmt.Sprint(rounds)), measureLimit))
	harness.Check(json.Unmarshal([]byte(out), &s))
	return s
}

// Process is a worker that answers lines of JSON.
type Process struct {
	*proc.Process
	questions io.Writer
	answers   *json.Decoder
}

func (w *Worker) start(ctx context.Context, args ...string) *Process {
	cmd := exec.Command(w.path, args...)
	p := &Process{questions: harness.Must(cmd.StdinPipe()), answers: json.NewDecoder(harness.Must(cmd.StdoutPipe()))}
	p.Process = harness.Must(proc.Start(ctx, cmd))
	return p
}

// ask asks a question; nil: there is none, but an answer comes. It fails with the process.
func (p *Process) ask(question, answer any) {
	var err error
	if question != nil {
		err = json.NewEncoder(p.questions).Encode(question)
	}
	if err == nil {
		err = p.answers.Decode(answer)
	}
	if err != nil {
		harness.Check(errors.Join(err, p.Close(), errors.New(p.Output())))
	}
}

// Server is a worker that serves.
type Server struct {
	*Process
	Addresses
}

// Serve starts one of the servers.
func (w *Worker) Serve(ctx context.Context, name string) *Server {
	s := &Server{Process: w.start(ctx, name)}
	s.ask(nil, &s.Addresses)
	return s
}

// Stats returns what the server uses.
func (s *Server) Stats() (u Stats) {
	s.ask(struct{}{}, &u)
	return u
}

// URL returns the server's URL for a version of MCP.
func (s *Server) URL(version string) string {
	if version >= load.WithoutSessions {
		return s.Stateless
	}
	return s.Sessions
}

// Load starts a process with clients of a target.
func (w *Worker) Load(ctx context.Context, target load.Target) *Process {
	return w.start(ctx, "load", string(harness.Must(json.Marshal(target))))
}

// Round has the clients make calls. It fails with the process, not with a call.
func (p *Process) Round(r Round) (answer LoadResult) {
	p.ask(r, &answer)
	return answer
}
