package chain

import (
	"context"
	"encoding/base64"
	"slices"

	"github.com/tidwall/gjson"

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
			data := base64.StdEncoding.EncodeToString(b.Bytes)
			if err := s.form.Results.KeepAs(context.WithoutCancel(ctx), s.caller, b.Handle, b.JSON(`"`+data+`"`)); err != nil {
				f := *fault.From(err, "")
				f.Message = "the handle " + b.Handle + " cannot be fetched: " + f.Message
				s.warn(&f)
			}
		}
	}
}

// returnedBlocks returns the blocks of which a result consists: it is one, or a list of them; nil: it is anything else.
func returnedBlocks(blocks *steps.Blocks, result []byte) (list []*steps.KeptBlock) {
	within := blocks.Within(result)
	if len(within) == 0 {
		return nil
	}
	value := gjson.ParseBytes(result)
	elements := []gjson.Result{value}
	if value.IsArray() {
		elements = value.Array()
	}
	for _, element := range elements {
		i := slices.IndexFunc(within, func(b *steps.KeptBlock) bool { return isBlock(element, b) })
		if i < 0 {
			return nil
		}
		list = append(list, within[i])
	}
	return list
}

// isBlock reports whether a value is a block and nothing else. An expression may have changed the order of its members.
func isBlock(value gjson.Result, b *steps.KeptBlock) bool {
	if !value.IsObject() || value.Get("data").Str != b.Handle {
		return false
	}
	same := true
	whole := gjson.ParseBytes(b.JSON(`"` + b.Handle + `"`)).Map()
	value.ForEach(func(name, member gjson.Result) bool {
		same = same && whole[name.Str].Raw == member.Raw
		delete(whole, name.Str)
		return same
	})
	return same && len(whole) == 0
}
