package chain

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"

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
	list := r.Blocks().Within(result)
	for i := range done.Steps {
		if s.form.Trace == "full" {
			list = append(list, r.Blocks().Within(done.Steps[i].Raw)...)
		}
	}
	seen, lost := map[*steps.KeptBlock]bool{}, []string(nil)
	var why error // of the first that is lost
	for _, b := range list {
		if seen[b] {
			continue
		}
		seen[b] = true
		err := why
		if ctx.Err() == nil && fault.CodeOf(why) != fault.Unavailable { // else each of them would wait for its end
			err = s.keepBlock(ctx, b)
		}
		if err = cmp.Or(err, context.Cause(ctx)); err != nil {
			lost, why = append(lost, b.Handle), cmp.Or(why, err)
		}
	}
	if lost != nil {
		f := *fault.From(why, "")
		what := "the handle " + lost[0]
		if len(lost) > 1 {
			what = fmt.Sprintf("%d handles of blocks, first %s,", len(lost), lost[0])
		}
		f.Message = what + " cannot be fetched: " + f.Message
		s.warn(&f)
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
