package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/internal/tally"
)

// The protocols that are measured: the first one without sessions, and the last one with them.
const (
	stateless    = "2026-07-28"
	withSessions = "2025-11-25"
)

// arm is one of the compared ways to make calls, ready to be measured.
type arm struct {
	peer
	process  *proc.Process        // nil: the client makes the calls itself
	sessions []*sdk.ClientSession // one for each client
	protocol string               // the version that the client and the arm negotiated
	list     string               // what a host shows a model first: the tools and the server's instructions
	fault    string               // why it was not measured, or what went wrong at its end; "": nothing
	results  map[string]*result   // the results, by the work's key
	used     proc.Usage           // what its processes had used after all measurements
}

// clients is the maximum number of clients of an arm.
const clients = 16

// startLimit is the time limit for an arm's first correct answer.
const startLimit = 30 * time.Second

// startProcess starts the arm in front of the upstream at url.
func (a *arm) startProcess(ctx context.Context, s *setup, url, protocol string) (err error) {
	if a.start != nil {
		if a.process, url, err = a.start(s, ctx, url); err != nil {
			return err
		}
	}
	if err := a.open(ctx, url, protocol); err != nil {
		return err
	}
	for i := range works {
		if a.can(&works[i]) {
			a.results[works[i].key] = &result{}
		}
	}
	return nil
}

// recordUsage records what the arm's processes have used, at the end.
func (a *arm) recordUsage() {
	if a.process == nil || a.fault != "" {
		return
	}
	used, err := a.process.Usage()
	if err != nil {
		a.fault = "at the end: " + err.Error()
	}
	a.used = used
}

// open connects the clients to url, and waits until the arm gives a correct answer.
func (a *arm) open(ctx context.Context, url, protocol string) error {
	for range clients {
		s, err := connect(ctx, url, protocol)
		if err != nil && protocol == stateless { // the arm speaks only the older protocol
			protocol = withSessions
			s, err = connect(ctx, url, protocol)
		}
		if err != nil {
			return fmt.Errorf("connecting: %w", err)
		}
		a.sessions = append(a.sessions, s)
	}
	a.protocol = a.sessions[0].InitializeResult().ProtocolVersion
	if err := a.ready(ctx); err != nil {
		return err
	}
	list, err := a.sessions[0].ListTools(ctx, nil)
	if err != nil {
		return err
	}
	tools, err := json.Marshal(map[string]any{"tools": list.Tools})
	a.list = string(tools) + a.sessions[0].InitializeResult().Instructions
	return err
}

// idleLimit is shorter than the time for which servers keep idle connections: a call must not use one that is just being closed.
const idleLimit = time.Second

// connect opens a client with connections of its own, so that many clients do not share one pool. All arms have the same settings.
func connect(ctx context.Context, url, protocol string) (*sdk.ClientSession, error) {
	client := sdk.NewClient(&sdk.Implementation{Name: "compare", Version: "1"}, nil)
	transport := &sdk.StreamableClientTransport{
		Endpoint: url, DisableStandaloneSSE: true,
		HTTPClient: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: idleLimit}, Timeout: time.Minute},
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return client.Connect(ctx, transport, &sdk.ClientSessionOptions{ProtocolVersion: protocol})
}

// ready waits until the arm can call its upstream.
func (a *arm) ready(ctx context.Context) error {
	w := workByKey("dependent3")
	for began := time.Now(); ; {
		_, err := a.do(ctx, w, 0)
		if err == nil || ctx.Err() != nil || time.Since(began) > startLimit {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// callLimit is how long one piece of work may take before the arm counts as hanging. Most take milliseconds.
const callLimit = 10 * time.Second

// do does w once, checks the answer, and returns how long it took.
func (a *arm) do(ctx context.Context, w *work, client int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	began := time.Now()
	got, err := a.answer(ctx, w, a.sessions[client])
	took := time.Since(began)
	if err == nil && got != w.want {
		err = fmt.Errorf("wrong answer: %.200s, not %s", got, w.want)
	}
	return took, err
}

// answer does w from a client, and returns the answer as compact JSON.
func (a *arm) answer(ctx context.Context, w *work, s *sdk.ClientSession) (string, error) {
	if a.language == oneByOne {
		value, err := w.bare(ctx, s)
		if err != nil {
			return "", err
		}
		text, err := json.Marshal(value)
		return string(text), err
	}
	text, err := callText(ctx, s, a.tool, a.arguments(w))
	if err != nil {
		return "", err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(text)); err != nil {
		return "", fmt.Errorf("answers %.200s: %w", text, err)
	}
	return compact.String(), nil
}

// can reports whether the arm has a way to do w.
func (a *arm) can(w *work) bool {
	if a.language == oneByOne {
		return w.bare != nil
	}
	return w.programs[a.language] != "" && !(w.builtin && a.noBuiltins)
}

// arguments returns the arguments that the client sends for w: for onecall the chain itself, else the program as a text.
func (a *arm) arguments(w *work) any {
	if a.language == chainJSON {
		return json.RawMessage(a.written(w))
	}
	return map[string]string{a.argument: a.written(w)}
}

// written returns what a model writes for w.
func (a *arm) written(w *work) string {
	if a.write != nil {
		return a.write(w.programs[a.language])
	}
	return w.programs[a.language]
}

// writtenCalls returns the calls that a model writes for w, each with its name.
func (a *arm) writtenCalls(w *work) []byte {
	switch a.language {
	case oneByOne:
		return []byte(a.written(w))
	case chainJSON:
		return tally.CallText(a.tool, []byte(a.written(w)))
	}
	args, _ := rawjson.Marshal(map[string]string{a.argument: a.written(w)}) // never fails for a text
	return tally.CallText(a.tool, args)
}

// close ends the sessions and then the arm's processes. An error of the processes becomes the arm's fault.
func (a *arm) close() {
	for _, s := range a.sessions {
		_ = s.Close() // the process ends anyway
	}
	a.sessions = nil
	if a.process == nil {
		return
	}
	if err := a.process.Close(); err != nil && !errors.Is(err, context.Canceled) && a.fault == "" {
		a.fault = "measured, but at its end: " + err.Error()
	}
}
