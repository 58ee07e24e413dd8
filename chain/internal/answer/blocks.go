package answer

import (
	"bytes"
	"fmt"
	"image"
	_ "image/gif"  // an image has a known size
	_ "image/jpeg" // in these forms
	_ "image/png"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// An image costs its reader a token for each pixelsPerToken pixels; unsizedImage is what one costs whose size is not known. What sounds and
// files cost depends on the client, and counts nothing.
const pixelsPerToken, unsizedImage = 750, 1600

// blockTokens returns what a block costs its reader.
func blockTokens(b *steps.KeptBlock) int {
	if b.Type != "image" {
		return 0
	}
	config, _, err := image.DecodeConfig(bytes.NewReader(b.Bytes))
	if err != nil {
		return unsizedImage
	}
	return (config.Width*config.Height + pixelsPerToken - 1) / pixelsPerToken
}

// handOut chooses the blocks that go with the answer: of those that the answer shows the ones that fit, in order. What they cost is no
// longer there for the text, which comes first: it has at least what an answer with the whole result needs.
func (b *builder) handOut() {
	if b.Cause.Err != nil || b.MaxBlockBytes == 0 {
		return
	}
	list := b.shownBlocks()
	if len(list) == 0 || b.wantsProbe() {
		return
	}
	limit, left := b.Meter.Limit(), b.MaxBlockBytes
	room := limit
	if limit > 0 {
		room = max(0, limit-b.Counter.Count(b.shownResult(), -1)-budget.MinTokensFor(b.Counter))
	}
	costly := 0 // those left out for their tokens
	for _, block := range list {
		size, tokens := int64(len(block.Bytes)), blockTokens(block)
		switch {
		case size > left:
			b.handed.left++
			continue
		case limit > 0 && tokens > room-b.handed.tokens:
			b.handed.left++
			costly++
			continue
		}
		left -= size
		b.handed.blocks = append(b.handed.blocks, block)
		b.handed.bytes += size
		b.handed.tokens += tokens
	}
	if b.handed.left > 0 {
		b.Warnings = append(slices.Clip(b.Warnings), b.leftOut(costly))
	}
	if limit > 0 && b.handed.tokens > 0 {
		form := *b.Form
		form.Meter = budget.NewMeter(b.Counter, limit-b.handed.tokens)
		b.Form = &form
	}
}

// shownBlocks returns the blocks of which the result, as it is shown, consists: it is one, or a list of them; nil: it is anything else.
func (b *builder) shownBlocks() (list []*steps.KeptBlock) {
	if !b.Blocks.Any() {
		return nil
	}
	value := gjson.ParseBytes(b.Result)
	elements := []gjson.Result{value}
	if value.IsArray() {
		elements = value.Array()
	}
	for _, element := range elements {
		block := b.Blocks.Find(element.Get("data").Str)
		if block == nil || !block.Is(element, block.Handle) {
			return nil
		}
		list = append(list, block)
	}
	return list
}

// leftOut is the warning about blocks that do not go with the answer. costly are those that have too many tokens, not too many bytes.
func (b *builder) leftOut(costly int) *fault.Error {
	why := fmt.Sprintf("the blocks of an answer have at most %d bytes together (results.maxBlockBytes)", b.MaxBlockBytes)
	switch {
	case costly == b.handed.left:
		why = "images count as tokens, and the budget has no room (budget.maxTotalTokens)"
	case costly > 0:
		why += ", and images count as tokens, for which the budget has no room (budget.maxTotalTokens)"
	}
	return fault.New(fault.LimitExceeded, "%d of the %d blocks of the result do not go with the answer, but their handles stand in it: %s",
		b.handed.left, len(b.handed.blocks)+b.handed.left, why)
}

// handed are the blocks that go with an answer.
type handed struct {
	blocks []*steps.KeptBlock
	bytes  int64
	tokens int
	left   int // blocks of the result that do not go with the answer
}

// write writes the member of usage.
func (h *handed) write(w *rawjson.Writer) {
	if len(h.blocks)+h.left == 0 {
		return
	}
	w.OpenMember("blocks", '{')
	w.Int("count", int64(len(h.blocks)))
	w.Int("bytes", h.bytes)
	w.Int("tokens", int64(h.tokens))
	if h.left > 0 {
		w.Int("left", int64(h.left))
	}
	w.Close('}')
}
