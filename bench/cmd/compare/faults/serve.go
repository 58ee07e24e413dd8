package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
	"github.com/onecall-mcp/onecall/bench/load"
)

func init() {
	add(arm{key: "serve", name: "onecall serve", open: openServed, ours: true})
}

// served is onecall as a gateway over HTTP.
type served struct {
	*place
	client
	gateways map[string]*gateway // by what waits for an approval
}

func openServed(_ context.Context, b *harness.Bench, u *upstream) system {
	s := &served{place: newPlace(b, "served", b.Onecall, u, nil), gateways: map[string]*gateway{}}
	for approve := range s.config {
		address := "127.0.0.1:0" // then the same one again
		s.gateways[approve] = &gateway{start: func(ctx context.Context) (process *proc.Process, url string) {
			process, url = harness.Listen(ctx, s.command(ctx, approve, "serve", "--http", address))
			address = strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp")
			return process, url
		}}
	}
	return s
}

func (s *served) hasGateway() bool { return true }

func (s *served) killGateway() {
	for _, g := range s.gateways {
		g.killGateway()
	}
}

func (s *served) close() {
	for _, g := range s.gateways {
		g.close()
	}
	s.place.close()
}

// post sends arguments to the tool chain as an MCP client without a session does, and returns the text of the answer.
func (s *served) post(ctx context.Context, t *trial, args any) (text string, err error) {
	url := s.gateways[approval(t)].url(ctx)
	ctx, vanish := s.live(ctx)
	defer vanish()
	body := harness.Must(json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{
		"name": "chain", "arguments": args, "_meta": map[string]any{
			"io.modelcontextprotocol/protocolVersion": load.WithoutSessions, "io.modelcontextprotocol/clientCapabilities": map[string]any{},
			"io.modelcontextprotocol/clientInfo": map[string]any{"name": "faults", "version": "1"}}}}))
	all, status, err := postJSON(ctx, url, body, map[string]string{"Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": load.WithoutSessions, "Mcp-Method": "tools/call", "Mcp-Name": "chain"})
	if err != nil {
		return "", err
	}
	if _, data, ok := bytes.Cut(all, []byte("data: ")); ok {
		all = bytes.TrimSpace(data)
	}
	if text = gjson.GetBytes(all, "result.content.0.text").Str; text == "" {
		return "", fmt.Errorf("%s: %.500s", status, all)
	}
	return text, nil
}

// postJSON sends a text over a connection of its own, and returns the body of the answer and its status.
func postJSON(ctx context.Context, url string, body []byte, headers map[string]string) (answer []byte, status string, err error) {
	request := harness.Must(http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body)))
	request.Header.Set("Content-Type", "application/json")
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{}).DialContext}}
	response, err := client.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return answer, response.Status, err
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
			t.waits()
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
