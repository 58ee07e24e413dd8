package chain

import (
	"context"
	"encoding/base64"

	"github.com/onecall-mcp/onecall/chain/internal/facts"
	"github.com/onecall-mcp/onecall/chain/internal/run"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// keepBlocks keeps the blocks whose handles the answer of a run may show, so that these are continuation tokens. Other blocks never get to
// the store of results.
func (s *request) keepBlocks(ctx context.Context, r *run.Run, result []byte, done *facts.Run) {
	if s.form.Results == nil || !r.Blocks().Any() {
		return
	}
	shown := [][]byte{result}
	for i := range done.Steps {
		if s.form.Trace == "full" {
			shown = append(shown, done.Steps[i].Raw)
		}
	}
	kept := map[string]bool{}
	for _, value := range shown {
		for _, b := range r.Blocks().Within(value) {
			if kept[b.Handle] {
				continue
			}
			kept[b.Handle] = true
			if err := s.keepBlock(context.WithoutCancel(ctx), b); err != nil {
				f := *fault.From(err, "")
				f.Message = "the handle " + b.Handle + " cannot be fetched: " + f.Message
				s.warn(&f)
			}
		}
	}
}

// keepBlock keeps a block as its handle fetches it. The memory for that counts until the store has it.
func (s *request) keepBlock(ctx context.Context, b *steps.KeptBlock) error {
	size := base64.StdEncoding.EncodedLen(len(b.Bytes))
	if err := s.memory.Reserve(size); err != nil {
		return err
	}
	defer s.memory.Release(size)
	return s.form.Results.KeepAs(ctx, s.caller, b.Handle, b.Whole())
}
