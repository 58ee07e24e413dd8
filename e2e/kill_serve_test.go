//go:build e2e && unix

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/internal/sqldb/postgrestest"
)

// replicaPair is two replicas over one PostgreSQL. Clients use one at a time.
type replicaPair struct {
	*provisionSite
	store     string // the URL of the journal's database
	servers   [2]*httpServer
	waitEnded [2]func() // wait until all processes of a replica have ended
	current   atomic.Pointer[httpServer]
	runs      atomic.Int64
	failures  atomic.Int64 // failed requests
}

const pairClients = 2

func newPair(t *testing.T, postgres *postgrestest.Server) *replicaPair {
	t.Helper()
	p := &replicaPair{provisionSite: newSite(t, pairClients, map[string]string{"store": "${JOURNAL_STORE}", "key": "${JOURNAL_KEY}"}),
		store: postgres.Database(t)}
	for i := range p.servers {
		p.start(t, i)
	}
	p.current.Store(p.servers[0])
	return p
}

// start starts a replica in its own process.
func (p *replicaPair) start(t *testing.T, i int) {
	t.Helper()
	s := &httpServer{stderr: new(logTail), ended: make(chan error, 1)}
	s.cmd = clitest.Self(t, t.TempDir(), "serve", "--http", "127.0.0.1:0", "--config", p.config, "--replica", fmt.Sprint("r", i))
	s.cmd.Env = append(s.cmd.Env, "JOURNAL_STORE="+p.store, "JOURNAL_KEY=a key that both of the replicas have got")
	var started func()
	started, p.waitEnded[i] = trackProcessTree(t, s.cmd)
	s.listen(t)
	started()
	p.servers[i] = s
}

// kill kills the replica in use while it works, lets clients continue with the other, and starts the killed one again.
func (p *replicaPair) kill(t *testing.T, round int) {
	t.Helper()
	i := round % 2
	p.waitUntilWorking(t, pairClients, p.effects(t, pairClients), nil)
	time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond)
	_ = p.servers[i].cmd.Process.Kill()
	<-p.servers[i].ended
	p.waitEnded[i]() // until then, a call that was sent may arrive
	p.current.Store(p.servers[1-i])
	p.start(t, i)
}

// work makes the runs of a client, one after another, until stop is closed. It finishes the last run.
func (p *replicaPair) work(t *testing.T, client int, stop <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		run := p.provision(t, client, fmt.Sprintf("c%dn%d", client, n))
		if !p.finishRun(t, run) {
			return
		}
		run.checkFinished(t)
		p.runs.Add(1)
	}
}

// finishRun sends a run to the current replica until it is done.
func (p *replicaPair) finishRun(t *testing.T, run *provisionRun) bool {
	request, last := run.chain(), ""
	ctx, cancel := context.WithTimeout(t.Context(), 4*clitest.TooLong)
	defer cancel()
	done := polltest.Try(ctx, func() bool {
		text, err := post(t, p.current.Load().url, request)
		answer := gjson.Parse(text)
		if err == nil && answer.Get("ok").Bool() {
			return true
		}
		p.failures.Add(1)
		last = fmt.Sprint(text, err)
		request = run.chain()
		if err == nil {
			run.check(t, answer)
		}
		if answer.Get("error.code").Str == "resume_conflict" {
			request = fmt.Sprintf(`{"resume":%q,"assume":%s}`, answer.Get("resume").Str, assumeJSON(t, run.assume(t, answer)))
		}
		return false
	})
	if !done {
		t.Errorf("%s did not end: %s", run.name, last)
	}
	return done
}

// post sends a chain as an MCP client without a session does. An error means that there was no answer.
func post(t *testing.T, url, chain string) (text string, err error) {
	w := &rawClient{url: url, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: clitest.TooLong},
		version: statelessVersion}
	r, err := w.try(t, http.MethodPost, w.message(t, "1", "tools/call",
		map[string]any{"name": "chain", "arguments": json.RawMessage(chain)}), nil)
	if err != nil {
		return "", err
	}
	if text = r.answer().Get("result.content.0.text").Str; text == "" {
		return "", fmt.Errorf("%d %s", r.status, r.body)
	}
	return text, nil
}

// killRepeatedly calls kill n times while clients work.
func (p *replicaPair) killRepeatedly(t *testing.T, n int, kill func(round int)) {
	t.Helper()
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for client := range pairClients {
		clients.Go(func() { p.work(t, client, stop) })
	}
	for round := 0; round < n && !t.Failed(); round++ {
		kill(round)
	}
	close(stop)
	clients.Wait()
	t.Logf("%d runs, %d failed requests", p.runs.Load(), p.failures.Load())
}

// TestKilledReplicas kills the replica in use at random points of chains. The other must continue them, and each write must happen once.
func TestKilledReplicas(t *testing.T) {
	t.Parallel()
	n := killCount(t, 1, 4)
	p := newPair(t, postgrestest.Start(t))
	p.killRepeatedly(t, n, func(round int) { p.kill(t, round) })
}

// TestKilledPostgres kills PostgreSQL during runs and starts it again. Each write must happen once, answers must report
// writes correctly, and all runs must end.
func TestKilledPostgres(t *testing.T) {
	t.Parallel()
	n := killCount(t, 1, 3)
	postgres := postgrestest.Start(t)
	p := newPair(t, postgres)
	p.killRepeatedly(t, n, func(round int) {
		p.waitUntilWorking(t, pairClients, p.effects(t, pairClients), nil)
		time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond)
		postgres.Stop([]syscall.Signal{syscall.SIGQUIT, syscall.SIGKILL}[round%2])
		time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond)
		if err := postgres.Restart(); err != nil {
			t.Fatal(err)
		}
	})
}
