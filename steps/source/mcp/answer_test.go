package mcp_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// script is what a scripted server answers to methods. THIS stands for the id of the request.
type script map[string]string

// answer returns the answer to a message; "": none.
func (s script) answer(message []byte) string {
	method, id := gjson.GetBytes(message, "method").Str, gjson.GetBytes(message, "id").Raw
	if id == "" {
		return ""
	}
	text, ok := s[method]
	if !ok {
		switch method {
		case "initialize":
			text = `{"jsonrpc":"2.0","id":THIS,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`
		case "tools/list":
			text = `{"jsonrpc":"2.0","id":THIS,"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}}`
		default:
			text = `{"jsonrpc":"2.0","id":THIS,"error":{"code":-32601,"message":"what?"}}`
		}
	}
	return strings.ReplaceAll(text, "THIS", id)
}

// playScript plays the scripted server of the variable SCRIPT over stdio.
func playScript() {
	var s script
	if err := json.Unmarshal([]byte(os.Getenv("SCRIPT")), &s); err != nil {
		os.Exit(6)
	}
	serveRaw(func(string, gjson.Result, gjson.Result) {
		if text := s.answer([]byte(answerText)); text != "" {
			printLine("%s", text)
		}
	})
}

// ServeHTTP answers with JSON, or with a stream if the path ends so.
func (s script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	text := s.answer(body)
	switch {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case text == "":
		w.WriteHeader(http.StatusAccepted)
	case strings.HasSuffix(r.URL.Path, "/stream"):
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\n", text)
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, text)
	}
}

// eachScript runs a test on a source with the scripted server over each transport. transport is stdio, json or stream.
func eachScript(t *testing.T, s script, test func(t *testing.T, transport string, s *mcpsource.Source)) {
	t.Helper()
	for _, transport := range []string{"stdio", "json", "stream"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			o := &mcpsource.Options{Name: "shelf", Protocol: protocol.Stateful}
			if transport == "stdio" {
				o = childOptions(t, "scripted")
				text, err := json.Marshal(s)
				if err != nil {
					t.Fatal(err)
				}
				o.Env["SCRIPT"] = string(text)
			} else {
				o.URL = listen(t, s) + "/" + transport
			}
			test(t, transport, openSource(t, o))
		})
	}
}

// An answer ends its call at once, however it is written, and what it says is shown.
func TestMalformedAnswers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		answer string // without jsonrpc
		code   fault.Code
		want   string // of the message, or the result
	}{
		{`"id":THIS,"error":{"code":"E_DECLINED","message":"declined"}`, fault.FunctionFailed, "shelf.a: declined (error E_DECLINED)"},
		{`"id":THIS,"error":{"code":-32000.0,"message":"declined"}`, fault.FunctionFailed, "shelf.a: declined (error -32000)"},
		{`"id":THIS,"error":{"code":-3.5,"message":"declined"}`, fault.FunctionFailed, "shelf.a: declined (error -3.5)"},
		{`"id":THIS,"error":{"code":"-32602","message":"declined"}`, fault.BadArguments, "shelf.a: declined"},
		{`"id":THIS,"error":{"message":"declined"}`, fault.FunctionFailed, "shelf.a: declined"},
		{`"id":THIS,"error":{"code":7}`, fault.FunctionFailed, "shelf.a: it failed without saying why (error 7)"},
		{`"id":THIS,"error":"declined"`, fault.FunctionFailed, "shelf.a: declined"},
		{`"id":THIS,"error":["declined"]`, fault.FunctionFailed, `shelf.a: ["declined"]`},
		{`"id":THIS,"error":{"reason":"declined"}`, fault.FunctionFailed, `shelf.a: {"reason":"declined"}`},
		{`"id":THIS,"error":{}`, fault.FunctionFailed, "shelf.a: it failed without saying why"},
		{`"id":"THIS","error":{"code":-32000,"message":"declined"}`, fault.FunctionFailed, "shelf.a: declined (error -32000)"},
		{`"id":THIS,"result":"fine"`, fault.FunctionFailed, "it is not an object"},
		{`"id":THIS`, fault.FunctionFailed, "it is not an object"},
		{`"id":"THIS","result":` + okResult, "", `"ok"`},
		{`"id":THIS.0,"result":` + okResult, "", `"ok"`},
		{`"id":THIS,"error":null,"result":` + okResult, "", `"ok"`},
		{`"id":THIS,"error":false,"result":` + okResult, "", `"ok"`},
		{`"id":THIS,"error":"","result":` + okResult, "", `"ok"`},
		{`"id":null,"error":{"code":-32603,"message":"declined"}`, "http", "shelf.a: declined (error -32603)"},
		{`"id":"xxx","error":{"code":-32603,"message":"declined"}`, "http", "shelf.a: declined (error -32603)"},
		{`"error":"declined"`, "http", "shelf.a: declined"},
	} {
		for _, version := range []string{`"jsonrpc":"2.0",`, ``} {
			eachScript(t, script{"tools/call": "{" + version + test.answer + "}"}, func(t *testing.T, transport string, s *mcpsource.Source) {
				code := test.code
				if code == "http" {
					if transport == "stdio" {
						return // over stdio, nothing says which request is answered
					}
					code = fault.FunctionFailed
				}
				await(t, s, steps.StateReady)
				result, err := function(t, s, "shelf.a").Call(t.Context(), []byte(`{}`))
				f, _ := fault.As(err)
				switch {
				case code == "" && (err != nil || string(result) != test.want):
					t.Errorf("%s: got %s, %v, want %s", test.answer, result, err, test.want)
				case code != "" && (f == nil || f.Code != code || !strings.Contains(f.Message, test.want)):
					t.Errorf("%s: got %s, %v, want %s with %q", test.answer, result, err, code, test.want)
				}
				if version != "" && s.Status().State != steps.StateReady {
					t.Errorf("%s: the session was lost", test.answer)
				}
			})
		}
	}
}

// Answers to the greeting and to lists are read as those to calls are.
func TestMalformedStarts(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"initialize", "tools/list"} {
		for answer, want := range map[string]string{
			`"id":THIS,"error":{"code":"E_CLOSED","message":"we are closed"}`: "we are closed (error E_CLOSED)",
			`"id":"THIS","error":"we are closed"`:                             "we are closed",
			`"id":THIS,"error":{"message":"we are closed"}`:                   "we are closed",
			`"id":null,"error":{"code":-32603,"message":"we are closed"}`:     "we are closed",
		} {
			eachScript(t, script{method: `{"jsonrpc":"2.0",` + answer + `}`}, func(t *testing.T, transport string, s *mcpsource.Source) {
				if transport == "stdio" && strings.Contains(answer, "null") {
					return // over stdio, nothing says which request is answered
				}
				if status := await(t, s, steps.StateRetrying); !strings.Contains(status.Error.Message, want) {
					t.Errorf("%s of %s: got %v, want %q", answer, method, status.Error, want)
				}
			})
		}
	}
}

// An error of no known request is reported over stdio.
func TestErrorOfNoRequest(t *testing.T) {
	t.Parallel()
	warned := make(chan string, 10)
	o := childOptions(t, "scripted")
	o.Env["SCRIPT"] = `{"tools/list":"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"cannot read this\"}}\n` +
		`{\"jsonrpc\":\"2.0\",\"id\":THIS,\"result\":{\"tools\":[]}}"}`
	o.Warn = func(f *fault.Error) { warned <- f.Message }
	openReady(t, o)
	if got := <-warned; !strings.Contains(got, "cannot read this") {
		t.Errorf("got the warning %q, want the text of the error", got)
	}
}

// An error over HTTP is the answer to its own request, even if it names another one, which goes on.
func TestErrorNamesAnotherRequest(t *testing.T) {
	t.Parallel()
	first, began, refused := make(chan string, 1), make(chan struct{}), make(chan struct{})
	server := &rawServer{}
	server.call = func(w http.ResponseWriter, _ *http.Request, id string) {
		select {
		case first <- id:
			close(began)
			<-refused
			answerJSON(w, id, okResult)
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"declined"}}`, <-first)
		}
	}
	s := openRaw(t, server, mcpsource.Options{}, toolList("a", "b"))
	answered := make(chan string)
	go func() {
		value, err := function(t, s, "net.a").Call(t.Context(), []byte(`{}`))
		answered <- fmt.Sprint(string(value), err)
	}()
	<-began
	f := mustFail(t.Context(), t, s, "net.b", `{}`, fault.FunctionFailed)
	close(refused)
	if !strings.Contains(f.Message, "declined") {
		t.Errorf("the refused call: got %v, want what its answer says", f)
	}
	if got := <-answered; got != `"ok"<nil>` {
		t.Errorf("the other call: got %s, want ok", got)
	}
}
