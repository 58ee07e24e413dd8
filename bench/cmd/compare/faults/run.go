package faults

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
)

func init() {
	add(arm{key: "run", name: "onecall run", open: openRan, ours: true})
}

// ran is onecall as a program that runs a file.
type ran struct {
	*place
	mu   sync.Mutex
	kill func()
}

func openRan(_ context.Context, b *harness.Bench, u *upstream) system {
	return &ran{place: newPlace(b, "ran", b.Onecall, u, nil)}
}

func (s *ran) killClient() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
}

// run runs a verb of onecall to its end.
func (s *ran) run(ctx context.Context, t *trial, verb string, args ...string) string {
	cmd := s.command(ctx, approval(t), verb, args...)
	var out, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failure
	harness.Check(cmd.Start())
	s.mu.Lock()
	s.kill = func() { _ = cmd.Process.Kill() }
	stop := context.AfterFunc(ctx, s.kill)
	s.mu.Unlock()
	defer stop()
	if err := cmd.Wait(); err != nil && out.Len() == 0 {
		return fmt.Sprintf("%v: %s", err, failure.String())
	}
	return out.String()
}

func (s *ran) file(t *trial) string {
	path := filepath.Join(s.bench.Temp, t.name+".chain.json")
	harness.Check(os.WriteFile(path, t.keyed(), 0o600))
	return path
}

// finish approves what waits in a run, each time twice, and reads the answer.
func (s *ran) finish(ctx context.Context, t *trial, text string) answer {
	for gjson.Get(text, "error.code").Str == "approval_required" && ctx.Err() == nil {
		t.waits()
		run := gjson.Get(text, "resume").Str
		var second sync.WaitGroup
		second.Go(func() { s.run(ctx, t, "approve", run) })
		s.run(ctx, t, "approve", run)
		second.Wait()
		text = s.run(ctx, t, "resume", run)
	}
	return read(t, text)
}

func (s *ran) begin(ctx context.Context, t *trial) answer {
	return s.finish(ctx, t, s.run(ctx, t, "run", s.file(t)))
}

// goOn runs the same file, which has a key, again. If outcomes are unknown, it looks them up.
func (s *ran) goOn(ctx context.Context, t *trial, last answer) answer {
	conflict := gjson.Parse(last.text)
	if conflict.Get("error.code").Str != "resume_conflict" {
		return s.begin(ctx, t)
	}
	said := assume(t, conflict)
	args := []string{conflict.Get("resume").Str}
	for at, value := range said {
		if value.id != "" {
			args = append(args, "--assume", fmt.Sprintf(`%s={"id":%q}`, at, value.id))
		} else {
			args = append(args, "--assume", at+"=not_sent")
		}
	}
	a := s.finish(ctx, t, s.run(ctx, t, "resume", args...))
	a.asks = len(said)
	return a
}
