//go:build e2e && unix

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/polltest"
)

// TestKilledRunsOverServers kills `onecall run` at random points of a chain over the memory and filesystem servers from npm and an
// OpenAPI service, and resumes it until it is done. Each write must happen once, and answers must report writes correctly.
func TestKilledRunsOverServers(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, nil)
	kills := 0
	remaining := killCount(t, 1, 6)
	for run := 0; remaining > 0; run++ {
		p := s.provision(t, 0, fmt.Sprint("run", run))
		clitest.Write(t, s.folder, "chain.json", p.chain())
		args := []string{"run", "--config", s.config, filepath.Join(s.folder, "chain.json")}
		for try := 0; ; try++ {
			answer, killed := p.attempt(t, args, remaining > 0)
			if killed {
				remaining--
				kills++
			}
			p.check(t, answer)
			if answer.Get("ok").Bool() {
				break
			}
			if try > 100 {
				t.Fatalf("%s did not end after %d attempts: %s", p.name, try, answer.Raw)
			}
			args = []string{"run", "--config", s.config, filepath.Join(s.folder, "chain.json")}
			if answer.Get("error.code").Str == "resume_conflict" {
				args = []string{"resume", "--config", s.config, answer.Get("resume").Str}
				for position, outcome := range p.assume(t, answer) {
					args = append(args, "--assume", position+"="+outcome)
				}
			}
		}
		p.checkFinished(t)
	}
	t.Logf("%d kills", kills)
}

// attempt runs a command, and if kill is set kills it while it works. killed reports whether it was killed before it answered.
func (p *provisionRun) attempt(t *testing.T, args []string, kill bool) (answer gjson.Result, killed bool) {
	t.Helper()
	cmd := clitest.Self(t, p.folder, args...)
	var out strings.Builder
	cmd.Stdout = &out
	started, waitEnded := trackProcessTree(t, cmd)
	before := p.effects(t, 1)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	started()
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	if kill && p.waitUntilWorking(t, 1, before, ended) {
		time.Sleep(time.Duration(rand.IntN(100+20*p.answers)) * time.Millisecond) // increasingly late, so that the run ends
		killed = cmd.Process.Kill() == nil
	}
	<-ended
	waitEnded()
	return gjson.Parse(out.String()), killed && out.Len() == 0
}

// waitUntilWorking waits until calls arrive at the servers. It returns false if their sender has ended or makes no calls in time.
func (s *provisionSite) waitUntilWorking(t *testing.T, clients int, before int64, ended <-chan struct{}) bool {
	ctx, cancel := context.WithTimeout(t.Context(), clitest.TooLong)
	defer cancel()
	hasEnded := false
	arrived := polltest.Try(ctx, func() bool {
		select {
		case <-ended:
			hasEnded = true
		default:
		}
		return hasEnded || s.effects(t, clients) > before
	})
	if !arrived {
		t.Error("no call arrived in time")
	}
	return arrived && !hasEnded
}
