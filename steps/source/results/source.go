// Package results offers result.get, which gives a kept result to a chain.
package results

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Source offers result.get. Whose results it gives, the context of each call says (steps.Callbacks).
type Source struct{ closed atomic.Bool }

// New creates the source. It holds no resources; Close only makes later calls fail.
func New() *Source { return &Source{} }

// Close makes later calls fail with unavailable.
func (s *Source) Close() error {
	s.closed.Store(true)
	return nil
}

// Functions returns result.get, which only reads.
func (s *Source) Functions() []steps.Function {
	return []steps.Function{{
		Spec: steps.Spec{
			Name:        "result.get",
			Description: "The whole of an earlier large result, by its continuation_token: references see all of it.",
			Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["token"],"properties":{` +
				`"token":{"type":"string"}}}`),
			Output: json.RawMessage(`{}`),
			Effect: steps.Read, EffectDeclared: true, Local: true, ChainOnly: true,
		},
		Call: s.get,
	}}
}

func (s *Source) get(ctx context.Context, args []byte) ([]byte, error) {
	if s.closed.Load() {
		return nil, fault.New(fault.Unavailable, "the source of results is closed")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var a struct {
		Token *string `json:"token"`
	}
	if err := jsonv2.Unmarshal(args, &a, jsonv2.RejectUnknownMembers(true)); err != nil {
		return nil, &fault.Error{Code: fault.BadArguments, Message: "the arguments do not fit: " + err.Error(), Err: err}
	}
	if a.Token == nil {
		return nil, fault.New(fault.BadArguments, "the argument token is missing")
	}
	kept := steps.CallbacksOf(ctx).Kept
	if kept == nil {
		return nil, fault.New(fault.NotSupported, "there is no store of results here")
	}
	value, err := kept(ctx, *a.Token)
	if f, ok := fault.As(err); ok && f.Code == fault.TokenExpired {
		f.At, f.Message = "/token", "the token has expired, or is not one of this caller: call the function that gave it again"
	}
	if err == nil && strings.HasPrefix(*a.Token, steps.BlockHandle) {
		return keepAgain(ctx, value)
	}
	if err == nil {
		err = restoreBlocks(ctx, value)
	}
	return value, err
}

// restoreBlocks gives the run the blocks whose handles stand in a kept value, so that references to them have the bytes. References to
// those that are not kept any more, or for which the run has no room, are faults.
func restoreBlocks(ctx context.Context, value []byte) error {
	callbacks := steps.CallbacksOf(ctx)
	if callbacks.Blocks == nil {
		return nil
	}
	callbacks.Blocks.Lose(value)
	for _, handle := range steps.HandlesIn(value) {
		stored, err := callbacks.Kept(ctx, handle)
		if err == nil {
			var b *steps.Block
			if b, err = blockOf(stored); err == nil {
				err = callbacks.Blocks.Restore(&steps.KeptBlock{Handle: handle, Block: *b})
			}
		}
		switch fault.CodeOf(err) {
		case "", fault.TokenExpired:
		case fault.LimitExceeded:
			return nil
		default:
			return err
		}
	}
	return nil
}

// keepAgain returns the value of a kept block with a handle in this run.
func keepAgain(ctx context.Context, stored []byte) ([]byte, error) {
	b, err := blockOf(stored)
	if err != nil {
		return nil, err
	}
	return steps.KeepBlock(ctx, b)
}

// blockOf reads a kept block. The store has the bytes as base64 in its data.
func blockOf(stored []byte) (*steps.Block, error) {
	var b struct {
		Type, URI, MimeType string
		Data                []byte
	}
	if err := json.Unmarshal(stored, &b); err != nil {
		return nil, fault.New(fault.Internal, "the store of results has no block for this token: %s", err)
	}
	return &steps.Block{Type: b.Type, URI: b.URI, MIME: b.MimeType, Bytes: b.Data}, nil
}
