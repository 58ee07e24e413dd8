package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/install"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
	"github.com/onecall-mcp/onecall/bench/load"
)

// Worker is a compiled program that runs Main of this package.
type Worker struct{ path string }

// Build compiles the worker from the repository at root into the folder tools.
func Build(ctx context.Context, root, tools string) (*Worker, error) {
	if err := os.MkdirAll(tools, 0o755); err != nil {
		return nil, err
	}
	w := &Worker{path: filepath.Join(tools, "worker")}
	return w, install.Build(ctx, filepath.Join(root, "bench/cmd/compare"), "./worker", w.path)
}

// measureLimit is the time limit of one measurement, enough for a slow machine.
const measureLimit = 4 * time.Minute

// Measure makes one measurement in a new process.
func (w *Worker) Measure(ctx context.Context, name string, size, rounds int) (Samples, error) {
	cmd := exec.Command(w.path, name, fmt.Sprint(size), fmt.Sprint(rounds))
	out, err := proc.Run(ctx, cmd, measureLimit)
	if err != nil {
		return nil, err
	}
	var s Samples
	return s, json.Unmarshal([]byte(out), &s)
}

// Server is a worker that serves.
type Server struct {
	*proc.Process
	Addresses
}

// Serve starts a server that runs for at most limit: "serve" for onecall, or "upstream" for the SDK's server.
func (w *Worker) Serve(ctx context.Context, limit time.Duration, name string) (*Server, error) {
	p, err := proc.Start(ctx, exec.Command(w.path, name))
	if err != nil {
		return nil, err
	}
	line, err := p.Await(regexp.MustCompile(`(?m)^\{.*\}$`), time.Minute)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	s := &Server{Process: p}
	if err := json.Unmarshal([]byte(line), &s.Addresses); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return s, nil
}

// URL returns the server's URL for a version of MCP.
func (s *Server) URL(version string) string {
	if version >= load.WithoutSessions {
		return s.Stateless
	}
	return s.Sessions
}

// Loader is a worker with clients.
type Loader struct {
	*proc.Process
	rounds  io.WriteCloser
	answers *json.Decoder
}

// Load starts a process with clients of a target.
func (w *Worker) Load(ctx context.Context, target load.Target, limit time.Duration) (*Loader, error) {
	text, err := json.Marshal(target)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(w.path, "load", string(text))
	rounds, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	answers, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p, err := proc.Start(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return &Loader{Process: p, rounds: rounds, answers: json.NewDecoder(answers)}, nil
}

// Round makes calls from the clients. An error is one of the process, not of a call.
func (l *Loader) Round(r Round) (LoadResult, error) {
	var answer LoadResult
	if err := json.NewEncoder(l.rounds).Encode(r); err != nil {
		return answer, errors.Join(err, l.Close())
	}
	if err := l.answers.Decode(&answer); err != nil {
		return answer, errors.Join(fmt.Errorf("clients: %w", err), l.Close())
	}
	return answer, nil
}
