package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
	"github.com/onecall-mcp/onecall/bench/load"
)

// place is where onecall is run: its configuration, and its journal on a disk of its own.
type place struct {
	bench  *harness.Bench
	folder string
	room   *disk
	config map[string]string // the paths of the configurations, by what waits for an approval: never, write
}

func newPlace(b *harness.Bench, name string, u *upstream) *place {
	p := &place{bench: b, folder: filepath.Join(b.Temp, name), config: map[string]string{}}
	p.room = newDisk(p.folder)
	for _, approve := range []string{"never", "write"} {
		path := filepath.Join(b.Temp, name+"-"+approve+".json")
		harness.WriteFile(path, harness.Must(json.Marshal(harness.Config{
			"mcpServers": map[string]any{"shop": map[string]any{"url": u.url()}},
			"functions":  map[string]any{"shop.*": map[string]any{"timeoutMs": deadline.Milliseconds()}},
			"journal":    map[string]any{"store": "sqlite"},
			"approve":    approve,
			"access":     map[string]any{"http": "read_write"},
		})))
		p.config[approve] = path
	}
	return p
}

// command returns the command of onecall with the configuration for a trial.
func (p *place) command(ctx context.Context, approve, verb string, args ...string) *exec.Cmd {
	cmd := p.bench.Cmd(p.bench.Onecall(ctx), append([]string{verb, "--config", p.config[approve]}, args...)...)
	cmd.Env = append(cmd.Environ(), "HOME="+p.folder, "XDG_STATE_HOME="+p.folder, "XDG_CACHE_HOME="+p.folder)
	return cmd
}

func (p *place) database() string  { return filepath.Join(p.folder, "onecall", "journal.db") }
func (p *place) disk() *disk       { return p.room }
func (p *place) approves() bool    { return true }
func (p *place) hasDeadline() bool { return true }

func (p *place) close() {
	if p.room != nil {
		p.room.close()
	}
}

// approval says what waits for an approval in a trial.
func approval(t *trial) string {
	if t.fault.kind.name == "approval answered twice" {
		return "write"
	}
	return "never"
}

// read turns an answer of onecall into what it says.
func read(t *trial, text string) answer {
	a := answer{text: text, told: map[string]outcome{}}
	json := gjson.Parse(text)
	if a.done = json.Get("ok").Bool(); a.done {
		return a
	}
	for _, w := range json.Get("writes").Array() {
		for _, ref := range t.refsAt(int(w.Get("step").Int()), w.Get("elements").Str) {
			switch w.Get("outcome").Str {
			case "applied":
				a.told[ref] = applied
			case "failed", "not_sent":
				a.told[ref] = undone
			default:
				a.told[ref] = unknown
			}
		}
	}
	return a
}

// refsAt returns the refs of a step's elements, such as "0-2,5"; "": all.
func (t *trial) refsAt(step int, elements string) (refs []string) {
	if elements == "" {
		for item := range max(1, t.task.steps[step].items) {
			refs = append(refs, t.ref(step, item))
		}
		return refs
	}
	for part := range strings.SplitSeq(elements, ",") {
		from, to, several := strings.Cut(part, "-")
		if !several {
			to = from
		}
		for item := harness.Must(strconv.Atoi(from)); item <= harness.Must(strconv.Atoi(to)); item++ {
			refs = append(refs, t.ref(step, item))
		}
	}
	return refs
}

// assumed is what is to be assumed of a write: the id that it answered; "": it was not sent.
type assumed struct{ id string }

// MarshalJSON implements json.Marshaler, as the field assume has it.
func (a assumed) MarshalJSON() ([]byte, error) {
	if a.id == "" {
		return []byte(`"not_sent"`), nil
	}
	return json.Marshal(map[string]any{"result": map[string]string{"id": a.id}})
}

// assume looks up the writes whose outcome onecall asks for, by their places.
func assume(t *trial, conflict gjson.Result) map[string]assumed {
	said := map[string]assumed{}
	for _, at := range conflict.Get("error.available").Array() {
		step, item := 0, 0
		if n, _ := fmt.Sscanf(at.Str, "%d[%d]", &step, &item); n == 0 {
			harness.Fail("onecall asks for the outcome of %q", at.Str)
		}
		said[at.Str] = assumed{t.lookUp(t.ref(step, item))}
	}
	return said
}

// served is onecall as a gateway over HTTP.
type served struct {
	*place
	mu       sync.Mutex
	gateways map[string]*gateway // by what waits for an approval
	vanish   context.CancelFunc  // closes the connections of the client
}

// gateway is a process of onecall, which is started again at the same port.
type gateway struct {
	address string
	process *proc.Process
	killed  bool
}

func openServed(_ context.Context, b *harness.Bench, u *upstream) system {
	return &served{place: newPlace(b, "served", u), gateways: map[string]*gateway{}}
}

func (s *served) hasGateway() bool { return true }

// url returns the address of the gateway for a trial, which is started if it does not run.
func (s *served) url(ctx context.Context, t *trial) string {
	approve := approval(t)
	s.mu.Lock()
	g := s.gateways[approve]
	killed := g != nil && g.killed
	s.mu.Unlock()
	if g != nil && !killed {
		return g.address
	}
	address := "127.0.0.1:0"
	if killed {
		<-g.process.Done()
		address = strings.TrimSuffix(strings.TrimPrefix(g.address, "http://"), "/mcp")
	}
	process, url := harness.Listen(context.WithoutCancel(ctx), s.command(ctx, approve, "serve", "--http", address))
	g = &gateway{address: url, process: process}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gateways[approve] = g
	return url
}

func (s *served) killGateway() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.gateways {
		g.process.Kill()
		g.killed = true
	}
}

func (s *served) killClient() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vanish()
}

func (s *served) close() {
	for _, g := range s.gateways {
		_ = g.process.Close()
	}
	s.place.close()
}

// post sends arguments to the tool chain as an MCP client without a session does, and returns the text of the answer.
func (s *served) post(ctx context.Context, t *trial, args any) (text string, err error) {
	url := s.url(ctx, t)
	ctx, vanish := context.WithCancel(ctx)
	defer vanish()
	s.mu.Lock()
	s.vanish = vanish
	s.mu.Unlock()
	body := harness.Must(json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{
		"name": "chain", "arguments": args, "_meta": map[string]any{
			"io.modelcontextprotocol/protocolVersion": load.WithoutSessions, "io.modelcontextprotocol/clientCapabilities": map[string]any{},
			"io.modelcontextprotocol/clientInfo": map[string]any{"name": "faults", "version": "1"}}}}))
	request := harness.Must(http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body)))
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": load.WithoutSessions, "Mcp-Method": "tools/call", "Mcp-Name": "chain"} {
		request.Header.Set(name, value)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{}).DialContext}}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if _, data, ok := bytes.Cut(all, []byte("data: ")); ok {
		all = bytes.TrimSpace(data)
	}
	if text = gjson.GetBytes(all, "result.content.0.text").Str; text == "" {
		return "", fmt.Errorf("%s: %.500s", response.Status, all)
	}
	return text, nil
}

// send sends a chain, and approves what waits for it, each time twice.
func (s *served) send(ctx context.Context, t *trial, args any) answer {
	for {
		text, err := s.post(ctx, t, args)
		if err != nil {
			return answer{text: err.Error()}
		}
		json := gjson.Parse(text)
		switch json.Get("error.code").Str {
		case "busy": // the run that the client has left goes on, or its lease has not ended
			select {
			case <-time.After(20 * time.Millisecond):
				continue
			case <-ctx.Done():
				return read(t, text)
			}
		case "approval_required":
			decision := map[string]any{"resume": json.Get("resume").Str, "approve": json.Get("approve").Str}
			var second sync.WaitGroup
			second.Go(func() { _, _ = s.post(ctx, t, decision) })
			_, _ = s.post(ctx, t, decision)
			second.Wait()
			args = map[string]any{"resume": json.Get("resume").Str}
			continue
		}
		return read(t, text)
	}
}

func (t *trial) keyed() json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"key":%q,"steps":[%s]}`, t.name, t.chain()))
}

func (s *served) begin(ctx context.Context, t *trial) answer { return s.send(ctx, t, t.keyed()) }

// goOn sends the same chain with the same key again. If outcomes are unknown, it looks them up.
func (s *served) goOn(ctx context.Context, t *trial, last answer) answer {
	json := gjson.Parse(last.text)
	if json.Get("error.code").Str != "resume_conflict" {
		return s.send(ctx, t, t.keyed())
	}
	said := assume(t, json)
	a := s.send(ctx, t, map[string]any{"resume": json.Get("resume").Str, "assume": said})
	a.asks = len(said)
	return a
}

// ran is onecall as a program that runs a file.
type ran struct {
	*place
	mu   sync.Mutex
	kill func()
}

func openRan(_ context.Context, b *harness.Bench, u *upstream) system {
	return &ran{place: newPlace(b, "ran", u)}
}

func (s *ran) hasGateway() bool { return false }
func (s *ran) killGateway()     {}

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
	s.mu.Unlock()
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
