package stepstest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// textStore is a small source that satisfies all rules: it stores texts by name.
type textStore struct {
	mu     sync.Mutex
	texts  map[string]string
	closed atomic.Bool
}

func newTexts(*testing.T) steps.Source { return &textStore{texts: map[string]string{"a": "b"}} }

func (s *textStore) Close() error {
	s.closed.Store(true)
	return nil
}

func (s *textStore) Functions() []steps.Function {
	return []steps.Function{{
		Spec: steps.Spec{Name: "shelf.get", Description: "Gives the text under a name.", Effect: steps.Read, EffectDeclared: true,
			Input:  []byte(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":false}`),
			Output: []byte(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`)},
		Call: s.get,
	}, {
		Spec: steps.Spec{Name: "shelf.put", Description: "Puts a text under a name.", EffectDeclared: true, Idempotent: true,
			Input: []byte(`{"type":"object","properties":{"name":{"type":"string"},"text":{"type":"string"}},"required":["name","text"],"additionalProperties":false}`)},
		Call: s.put,
	}}
}

func (s *textStore) open(ctx context.Context) error {
	if s.closed.Load() {
		return fault.New(fault.Unavailable, "the shelf is closed")
	}
	return ctx.Err()
}

func (s *textStore) get(ctx context.Context, args []byte) ([]byte, error) {
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	text, ok := s.texts[gjson.GetBytes(args, "name").String()]
	if !ok {
		return nil, fault.New(fault.FunctionFailed, "there is nothing under this name")
	}
	return fmt.Appendf(nil, `{"text":%q}`, text), nil
}

func (s *textStore) put(ctx context.Context, args []byte) ([]byte, error) {
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts[gjson.GetBytes(args, "name").String()] = gjson.GetBytes(args, "text").String()
	return []byte(" true "), nil
}

func options() Options {
	return Options{
		New:   newTexts,
		Args:  map[string]string{"shelf.get": `{"name":"a"}`, "shelf.put": `{"name":"c","text":"d"}`},
		Fails: map[string][]string{"shelf.get": {`{"name":"none"}`}},
	}
}

func TestGoodSource(t *testing.T) {
	t.Parallel()
	Run(t, options())
}

// alteredSource is a source with functions that a test replaces.
type alteredSource struct {
	steps.Source
	functions func() []steps.Function
	close     func() error
}

func (a alteredSource) Functions() []steps.Function { return a.functions() }
func (a alteredSource) Close() error                { return a.close() }
