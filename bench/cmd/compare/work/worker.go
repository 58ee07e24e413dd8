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
func Build(ctx context.Context, b *harness.Bench) (*Worker, error) {
	path, err := b.Build(ctx, "worker", "bench/cmd/compare", "./worker")
	return &Worker{path}, err
}

// measureLimit is the time limit of one measurement, enough for a slow machine.
const measureLimit = 4 * time.Minute

// Measure makes one measurement in a new process.
func (w *Worker) Measure(ctx context.Context, name string, size, rounds int) (s Samples, err error) {
	out, err := proc.Run(ctx, exec.Command(w.path, name, fmt.Sprint(size), fmt.Sprint(rounds)), measureLimit)
	if err == nil {
		err = json.Unmarshal([]byte(out), &s)
	}
	return s, err
}

// Process is a worker that answers lines of JSON.
type Process struct {
	*proc.Process
	questions io.Writer
	answers   *json.Decoder
}

func (w *Worker) start(ctx context.Context, args ...string) (p *Process, err error) {
	cmd := exec.Command(w.path, args...)
	questions, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	answers, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p = &Process{questions: questions, answers: json.NewDecoder(answers)}
	p.Process, err = proc.Start(ctx, cmd)
	return p, err
}

// ask asks a question. An error is one of the process.
func (p *Process) ask(question, answer any) error {
	err := json.NewEncoder(p.questions).Encode(question)
	if err == nil {
		err = p.answers.Decode(answer)
	}
	if err != nil {
		return errors.Join(err, p.Close(), errors.New(p.Output()))
	}
	return nil
}

// Server is a worker that serves.
type Server struct {
	*Process
	Addresses
}

// Serve starts one of the servers.
func (w *Worker) Serve(ctx context.Context, name string) (*Server, error) {
	p, err := w.start(ctx, name)
	if err != nil {
		return nil, err
	}
	s := &Server{Process: p}
	if err := p.answers.Decode(&s.Addresses); err != nil {
		return nil, errors.Join(err, p.Close(), errors.New(p.Output()))
	}
	return s, nil
}

// Stats returns what the server uses.
func (s *Server) Stats() (u Stats, err error) { return u, s.ask(struct{}{}, &u) }

// URL returns the server's URL for a version of MCP.
func (s *Server) URL(version string) string {
	if version >= load.WithoutSessions {
		return s.Stateless
	}
	return s.Sessions
}

// Loader is a worker with clients.
type Loader struct{ *Process }

// Load starts a process with clients of a target.
func (w *Worker) Load(ctx context.Context, target load.Target) (*Loader, error) {
	text, err := json.Marshal(target)
	if err != nil {
		return nil, err
	}
	p, err := w.start(ctx, "load", string(text))
	return &Loader{p}, err
}

// Round makes calls from the clients. An error is one of the process, not of a call.
func (l *Loader) Round(r Round) (answer LoadResult, err error) { return answer, l.ask(r, &answer) }
