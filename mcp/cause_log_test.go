package mcp_test

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// causeWord is in every text that explains why a source is unavailable, and nowhere else. answerWord is in the answers of sources.
const causeWord, answerWord = "causeword", "answerword"

// sourceFault returns a failure of a source, with causeWord in its message, its body and its cause.
func sourceFault(code fault.Code, outcome fault.Outcome) *fault.Error {
	f := fault.New(code, "the program /opt/%s/bin at %s.internal:8080 ended with exit status 1", causeWord, causeWord)
	f.Outcome, f.Body = outcome, []byte(`{"why":"`+causeWord+`"}`)
	f.Err = &jsonrpc.Error{Code: -32603, Message: causeWord + " was refused"}
	return f
}

// failingSource is a source with a status, whose functions fail, each in its own way.
type failingSource struct {
	status steps.Status
	tools  []*matrixFunction
}

func (a *failingSource) Functions() []steps.Function { return markedSource(a.tools).Functions() }
func (a *failingSource) Close() error                { return nil }
func (a *failingSource) Watch(func())                {}
func (a *failingSource) Status() steps.Status        { return a.status }

// The failing sources: one never started, one is lost, one needs a login, and one is ready although its functions fail.
const neverSource, missingSource, loginSource, sickSource = "never", "gone", "login", "sick"

// sourceFaults returns the failures of calls that are about their source.
func sourceFaults() []*fault.Error {
	return []*fault.Error{
		sourceFault(fault.Unavailable, fault.NotSent), sourceFault(fault.Unavailable, fault.SentUnknown), sourceFault(fault.Unavailable, ""),
		sourceFault(fault.Timeout, fault.SentUnknown),
		sourceFault(fault.Denied, ""), sourceFault(fault.Denied, fault.NotSent), sourceFault(fault.BadRequest, fault.NotSent),
		sourceFault(fault.NotSupported, fault.NotSent), sourceFault(fault.FunctionFailed, fault.NotSent),
	}
}

// failingFunctions returns functions of missingSource and of sickSource, one for each source fault.
func failingFunctions() (removed, sick []*matrixFunction) {
	for i, f := range sourceFaults() {
		for j, source := range []string{missingSource, sickSource} {
			m := newMarked(320+2*i+j, source+".part", i%2 == 1, kindOfFunction{effect: steps.Read})
			m.Call = func(context.Context, []byte) ([]byte, error) { return nil, f }
			if j == 0 {
				removed = append(removed, m)
			} else {
				sick = append(sick, m)
			}
		}
	}
	return removed, sick
}

// unopenableUpstream is an MCP server with which no session can be opened.
type unopenableUpstream struct{ name string }

func (u unopenableUpstream) Name() string { return u.name }
func (u unopenableUpstream) Capabilities() *sdk.ServerCapabilities {
	return &sdk.ServerCapabilities{
		Resources: &sdk.ResourceCapabilities{Subscribe: true, ListChanged: true}, Prompts: &sdk.PromptCapabilities{ListChanged: true},
		Completions: &sdk.CompletionCapabilities{},
	}
}
func (u unopenableUpstream) OpenSession(context.Context, *mcpsource.DownstreamClient) (*mcpsource.UpstreamSession, error) {
	return nil, sourceFault(fault.Unavailable, fault.NotSent)
}

func (u unopenableUpstream) Within(ctx context.Context, _ json.RawMessage, _ func(context.Context) (*mcpsource.UpstreamSession,
	error)) context.Context {
	return ctx
}
