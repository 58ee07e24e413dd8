package mcp_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
)

// plainAnswer returns the message in a response, which is an event or the message alone.
func plainAnswer(text string) string {
	for line := range strings.Lines(text) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			return strings.TrimSpace(data)
		}
	}
	return strings.TrimSpace(text)
}

// TestDirectAnswersAsTheSDK: a call answered without the SDK gets the same bytes as from the SDK, and the SDK answers all calls that have
// anything unusual. Each call is sent twice: with the types of its Accept header in the other order, it goes to the SDK.
func TestDirectAnswersAsTheSDK(t *testing.T) {
	t.Parallel()
	const (
		echo    = `"name":"chain","arguments":{"steps":[{"fn":"shop.echo","args":{"text":"<&é\u2028\"\\\n\t\u0001 > 🙂"}}]}`
		meta    = mcptest.StatelessMeta
		version = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
		client  = `"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}`
		caps    = `"io.modelcontextprotocol/clientCapabilities":`
	)
	type headers = mcptest.Header
	for name, c := range map[string]struct {
		params  string
		session bool
		headers headers
		direct  bool
	}{
		"a result":                   {echo + meta, false, nil, true},
		"a result, session":          {echo, true, nil, true},
		"a failure":                  {`"name":"chain","arguments":{"steps":[]}` + meta, false, nil, true},
		"a failure, session":         {`"name":"chain","arguments":{"steps":[]}`, true, nil, true},
		"another tool":               {`"name":"search","arguments":{"query":"item"}` + meta, false, headers{"Mcp-Name": "search"}, true},
		"another tool, session":      {`"name":"info","arguments":{}`, true, nil, true},
		"no arguments":               {`"name":"info"` + meta, false, headers{"Mcp-Name": "info"}, true},
		"no arguments, session":      {`"name":"info"`, true, nil, true},
		"null":                       {`"name":"info","arguments":null`, true, nil, true},
		"a list":                     {`"name":"chain","arguments":[]`, true, nil, true},
		"a text":                     {`"name":"chain","arguments":"x"` + meta, false, nil, true},
		"invalid UTF-8":              {"\"name\":\"chain\",\"arguments\":{\"steps\":[{\"fn\":\"shop.echo\",\"args\":{\"text\":\"\xff\"}}]}", true, nil, true},
		"_meta of others":            {echo + `,"_meta":{"mine":{"progressToken":1}}`, true, nil, true},
		"a trace":                    {echo + `,"_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":5}`, true, nil, true},
		"an unknown tool":            {`"name":"chains","arguments":{}` + meta, false, headers{"Mcp-Name": "chains"}, false},
		"an unknown tool, session":   {`"name":"chains","arguments":{}`, true, nil, false},
		"no name":                    {`"arguments":{}`, true, nil, false},
		"a name of the wrong type":   {`"name":5,"arguments":{}`, true, nil, false},
		"more params":                {echo + `,"more":1`, true, nil, false},
		"a requestState":             {echo + `,"requestState":"x"` + meta, false, nil, false},
		"a duplicate key":            {echo + `,"name":"info"`, true, nil, false},
		"progress":                   {`"name":"chain","arguments":{"steps":[]},"_meta":{"progressToken":1}`, true, nil, false},
		"logs":                       {`"name":"chain","arguments":{"steps":[]},"_meta":{` + version + `,` + client + `,` + caps + `{},"io.modelcontextprotocol/logLevel":"info"}`, false, nil, false},
		"_meta of the wrong type":    {echo + `,"_meta":1`, true, nil, false},
		"no _meta":                   {echo, false, nil, false},
		"no version":                 {echo + `,"_meta":{` + client + `,` + caps + `{}}`, false, nil, false},
		"another version":            {echo + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-29",` + caps + `{}}`, false, nil, false},
		"no capabilities":            {echo + `,"_meta":{` + version + `,` + client + `}`, false, nil, false},
		"no client":                  {echo + `,"_meta":{` + version + `,` + caps + `{}}`, false, nil, true},
		"a client of the wrong type": {echo + `,"_meta":{` + version + `,"io.modelcontextprotocol/clientInfo":5,` + caps + `{}}`, false, nil, false},
		"a client that can be asked": {echo + `,"_meta":{` + version + `,` + client + `,` + caps + `{"elicitation":{}}}`, false, nil, false},
		"another name":               {echo + meta, false, headers{"Mcp-Name": "info"}, false},
		"another method":             {echo + meta, false, headers{"Mcp-Method": "tools/list"}, false},
		"no method":                  {echo + meta, false, headers{"Mcp-Method": ""}, false},
		"arguments in headers":       {echo + meta, false, headers{"Mcp-Param-A": "b"}, false},
		"a future version":           {echo + meta, false, headers{"Mcp-Protocol-Version": "2027-01-01"}, false},
		"a session, stateless _meta": {echo + meta, true, nil, false},
		"an invalid version":         {echo, true, headers{"Mcp-Protocol-Version": "5"}, false},
		"an old version":             {echo, true, headers{"Mcp-Protocol-Version": "2024-11-05"}, true},
		"a stream to resume":         {echo, true, headers{"Last-Event-Id": "1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil)
			url := s.http(t, writer)
			h := headers{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "chain"}
			if c.session {
				r, _ := mcptest.Send(t, "POST", url, mcptest.Hello, nil)
				h = headers{"Mcp-Protocol-Version": "2025-11-25", "Mcp-Session-Id": r.Header.Get("Mcp-Session-Id")}
			}
			for key, value := range c.headers {
				if h[key] = value; value == "" {
					delete(h, key)
				}
			}
			send := func(accept string) (*http.Response, string) {
				h["Accept"] = accept
				r, text := mcptest.Send(t, "POST", url, `{"jsonrpc":"2.0","id":"a<b","method":"tools/call","params":{`+c.params+`}}`, h)
				return r, withoutVolatile(plainAnswer(text))
			}
			ours, got := send("application/json, text/event-stream")
			theirs, want := send("text/event-stream, application/json")
			// A direct answer has a length; the SDK sends successful answers as streams of events.
			if direct := ours.Header.Get("Content-Length") != "" && ours.StatusCode == 200; direct != c.direct {
				t.Errorf("answered directly: %t, want %t", direct, c.direct)
			}
			if ours.StatusCode != theirs.StatusCode || got != want ||
				(ours.Header.Get("Onecall-Chain") == "") != (theirs.Header.Get("Onecall-Chain") == "") {
				t.Errorf("got %d %s (Onecall-Chain %q)\nwant, as from the SDK: %d %s (Onecall-Chain %q)", ours.StatusCode, got,
					ours.Header.Get("Onecall-Chain"), theirs.StatusCode, want, theirs.Header.Get("Onecall-Chain"))
			}
		})
	}
}

// TestDirectDefersToSDK: the SDK serves clients that can ask their user, read log messages, or use another surface, because the server may
// send them other messages before the answer.
func TestDirectDefersToSDK(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	url := s.http(t, writer)
	for name, c := range map[string]struct {
		hello, query, before string
		direct               bool
	}{
		"plain":       {mcptest.Hello, "", "", true},
		"asks":        {strings.Replace(mcptest.Hello, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1), "", "", false},
		"reads logs":  {mcptest.Hello, "", `{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"info"}}`, false},
		"flat":        {mcptest.Hello, "?surface=flat", "", false},
		"the default": {mcptest.Hello, "?surface=chain", "", true},
	} {
		r, _ := mcptest.Send(t, "POST", url+c.query, c.hello, nil)
		h := mcptest.Header{"Mcp-Protocol-Version": "2025-11-25", "Mcp-Session-Id": r.Header.Get("Mcp-Session-Id")}
		if c.before != "" {
			mcptest.Send(t, "POST", url+c.query, c.before, h)
		}
		// The URL of a call does not change the surface that its session has begun with.
		r, text := mcptest.Send(t, "POST", url, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"info"}}`, h)
		// The SDK answers with a stream of events.
		if direct := r.Header.Get("Content-Type") == "application/json"; direct != c.direct || !strings.Contains(text, "1.2.3") {
			t.Errorf("%s: answered directly: %t, want %t, and an answer with the server's version 1.2.3: %s", name, direct, c.direct, text)
		}
	}
}

// TestCancelDirect: a direct call ends when its client cancels it, ends its session, or, without a session, disconnects.
func TestCancelDirect(t *testing.T) {
	t.Parallel()
	for name, version := range map[string]string{"cancels": "2025-11-25", "ends its session": "2025-11-25", "disconnects": "2026-07-28"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil)
			url := s.http(t, writer)
			client := mcptest.Connect(t, &sdk.StreamableClientTransport{Endpoint: url}, nil, version)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				_, _ = client.CallTool(ctx, &sdk.CallToolParams{Name: "chain",
					Arguments: map[string]any{"steps": []any{map[string]any{"fn": "shop.slow"}}}})
			}()
			<-s.shop.started
			if name == "ends its session" {
				mcptest.Send(t, "DELETE", url, "", mcptest.Header{"Mcp-Session-Id": client.ID()}) // the SDK's Close waits for the call
			} else {
				cancel() // the SDK's client sends a notification, or ends the request
			}
			if err := <-s.shop.ended; err == nil {
				t.Error("the call was not canceled")
			}
		})
	}
}
