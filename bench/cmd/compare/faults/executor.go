package faults

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
)

func init() {
	add(arm{key: "executor", name: "executor", open: openExecutor, most: 200,
		how: "`executor web`, with its data on a disk of its own, used over the API of its command line. A run that waits is resumed. " +
			"A run that failed, or that is not known any more, is run again from its beginning, as there is no log of its calls"})
}

// executed is executor: programs run in a process, in whose memory runs wait for approvals.
type executed struct {
	gateway
	client
	room   *disk
	folder string
	ready  bool // it knows the upstream
}

func openExecutor(ctx context.Context, b *harness.Bench, u *upstream) system {
	// Its program in Node.js only starts this one, which would be left to nobody if both are killed.
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	program := filepath.Join(b.NPM(ctx, "executor", "1.5.9")+"-"+runtime.GOOS+"-"+cmp.Or(arch, runtime.GOARCH), "bin", "executor")
	e := &executed{folder: filepath.Join(b.Temp, "executor")}
	e.room = newDisk(e.folder)
	e.start = func(ctx context.Context) (*proc.Process, string) {
		host, port := harness.FreePort()
		cmd := b.Cmd(program, "web", "--hostname", host, "--port", port)
		cmd.Dir, cmd.Env = e.folder, append(cmd.Env, "HOME="+e.folder)
		p := harness.Must(proc.Start(ctx, cmd))
		_, err := p.Await(regexp.MustCompile(`Executor is ready`), harness.StartLimit)
		harness.Check(err)
		url := "http://" + host + ":" + port + "/api"
		if !e.ready {
			e.connect(ctx, url, u)
			e.ready = true
		}
		return p, url
	}
	return e
}

func (e *executed) approves() bool   { return true }
func (e *executed) disk() *disk      { return e.room }
func (e *executed) database() string { return filepath.Join(e.folder, ".executor", "data.db") }

func (e *executed) close() {
	e.gateway.close()
	if e.room != nil {
		e.room.close()
	}
}

// connect tells executor of the upstream, twice: the writes of the second need an approval.
func (e *executed) connect(ctx context.Context, url string, u *upstream) {
	for _, name := range []string{"never", "write"} {
		none := map[string]any{"slug": "none", "kind": "none"}
		e.must(ctx, url+"/mcp/servers", map[string]any{"name": name, "slug": name, "endpoint": u.url(), "remoteTransport": "streamable-http",
			"authenticationTemplate": []any{none}})
		e.must(ctx, url+"/connections", map[string]any{"owner": "org", "name": "main", "integration": name, "template": "none", "value": ""})
	}
	for _, t := range tools {
		if t.writes {
			e.must(ctx, url+"/policies", map[string]any{"owner": "org", "pattern": "write.org.main." + t.name, "action": "require_approval"})
		}
	}
}

func (e *executed) must(ctx context.Context, url string, argument any) {
	_, err := e.post(ctx, url, argument)
	harness.Check(err)
}

func (*executed) post(ctx context.Context, url string, argument any) (gjson.Result, error) {
	body, status, err := postJSON(ctx, url, harness.Must(json.Marshal(argument)), nil)
	if err == nil && !strings.HasPrefix(status, "200") {
		err = fmt.Errorf("%s: %.500s", status, body)
	}
	return gjson.ParseBytes(body), err
}

var benchCall = regexp.MustCompile(`tools\.bench_(\w+)\(`)

// program returns the task as a program of executor, whose calls answer a failure as a value.
func (*executed) program(t *trial) string {
	call := fmt.Sprintf(`const call = async (name, args) => {
  const answer = await tools.%s.org.main[name](args)
  if (!answer.ok) throw new Error(name + ": " + JSON.stringify(answer.error))
  return answer.data.structuredContent
}
`, approval(t))
	return call + benchCall.ReplaceAllString(t.program(false, nil), `call("$1", `)
}

// begin runs the program, and resumes it each time that it waits, always twice.
func (e *executed) begin(ctx context.Context, t *trial) answer {
	url := e.url(ctx)
	ctx, vanish := e.live(ctx)
	defer vanish()
	run, err := e.post(ctx, url+"/executions", map[string]any{"code": e.program(t)})
	for err == nil && run.Get("status").Str == "paused" {
		t.waits()
		resume := e.url(ctx) + "/executions/" + run.Get("structured.executionId").Str + "/resume"
		decision := map[string]any{"action": "accept", "content": map[string]any{}}
		var other gjson.Result
		var failed error
		var second sync.WaitGroup
		second.Go(func() { other, failed = e.post(ctx, resume, decision) })
		run, err = e.post(ctx, resume, decision)
		if second.Wait(); err != nil && failed == nil { // one of them is refused
			run, err = other, nil
		}
	}
	switch {
	case err != nil:
		return answer{text: err.Error()}
	case run.Get("isError").Bool():
		return answer{text: run.Get("text").Str}
	}
	return answer{done: run.Get("status").Str == "completed", text: run.Raw}
}

func (e *executed) goOn(ctx context.Context, t *trial, _ answer) answer { return e.begin(ctx, t) }
