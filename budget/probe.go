package budget

import (
	"context"
	"sort"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// maxPreview is the most characters of a probe's preview.
const maxPreview = 200

// maxProbeTokens is what a probe may cost without its preview; its shape gives way first.
const maxProbeTokens = 90

// exactBytes is the size up to which the tokens of a kept value are counted; those of a larger one are estimated.
const exactBytes = 2 << 20

// probe is the answer in place of a result that is too large, in the order of its fields on the wire.
type probe struct {
	Preview     string   `json:"preview"`      // the first characters of the result's JSON
	TotalSize   int      `json:"total_size"`   // bytes
	TotalTokens int      `json:"total_tokens"` // above 2 MiB estimated
	Shape       string   `json:"shape"`
	Count       int      `json:"count"` // elements, keys or lines; 1 for any other value
	Modes       []string `json:"available_modes"`
	Token       string   `json:"continuation_token"`
	ExpiresIn   int      `json:"expires_in"` // seconds

	value []byte
}

// Probe keeps a value for its owner and returns the JSON that describes it. The preview holds at most previewRunes
// characters of the value, and never more than 200; with 0 it is the empty string. Without the preview a probe costs at
// most 90 tokens (with a counter's factor of 1). Errors are those of Keep.
func (r *Results) Probe(ctx context.Context, owner string, value []byte, previewRunes int) (result []byte, err error) {
	return r.probed(ctx, owner, value, func(w *work) (*probe, []byte, error) {
		p, err := r.describe(w, value)
		if err != nil {
			return nil, nil, err
		}
		return p, p.json(previewRunes), nil
	})
}

// ProbeWithin is Probe with the longest preview that there is room for. Where the probe does not fit even with an empty
// preview nothing is kept, and the error is budget_too_small.
func (r *Results) ProbeWithin(ctx context.Context, owner string, value []byte, room *Room) ([]byte, error) {
	return r.probed(ctx, owner, value, func(w *work) (*probe, []byte, error) { return r.describeWithin(w, value, room) })
}

// probed describes a value and keeps it.
func (r *Results) probed(ctx context.Context, owner string, value []byte, describe func(*work) (*probe, []byte, error)) (result []byte, err error) {
	var p *probe
	if err := working(ctx, len(value), func(w *work) (err error) {
		p, result, err = describe(w)
		return err
	}); err != nil {
		return nil, err
	}
	if err := r.keep(ctx, owner, p.Token, value); err != nil {
		return nil, err
	}
	return result, nil
}

// describeWithin makes the probe of a value that is not kept yet, and its longest JSON that fits.
func (r *Results) describeWithin(w *work, value []byte, room *Room) (*probe, []byte, error) {
	p, err := r.describe(w, value)
	if err != nil {
		return nil, nil, err
	}
	result := p.within(room.Fits)
	if result == nil {
		return nil, nil, budgetTooSmall()
	}
	return p, result, nil
}

// describe makes the probe of a value that is not kept yet.
func (r *Results) describe(w *work, value []byte) (*probe, error) {
	token, err := newToken()
	if err != nil {
		return nil, err
	}
	o := r.outline(w, value)
	p := &probe{
		TotalSize:   len(value),
		TotalTokens: r.tokens(value),
		Count:       o.count,
		Modes:       o.modes(),
		Token:       token,
		ExpiresIn:   int(r.o.TTL / time.Second),
		value:       value,
	}
	// Keys may cost more than their length tells (emoji, rare scripts): show fewer of them then.
	for width := maxShape; width > 0; width -= 20 {
		p.Shape = o.shape(width)
		if r.o.Counter.Count(p.json(0), maxProbeTokens) <= maxProbeTokens {
			break
		}
	}
	return p, w.over()
}

// tokens is what a value costs, estimated where counting would take long.
func (r *Results) tokens(value []byte) int {
	if len(value) <= exactBytes {
		return r.o.Counter.Count(value, -1)
	}
	return r.o.Counter.Estimate(value)
}

// json is the probe on the wire with a preview of the given length.
func (p *probe) json(previewRunes int) []byte {
	preview, _ := cutText(p.value, min(max(previewRunes, 0), maxPreview))
	p.Preview = string(preview)
	return encode(p)
}

// within is the probe with the longest preview that fits, nil if none does.
func (p *probe) within(fits func([]byte) bool) []byte {
	if whole := p.json(maxPreview); fits(whole) {
		return whole
	}
	tooLong := sort.Search(maxPreview, func(n int) bool { return !fits(p.json(n)) })
	if tooLong == 0 {
		return nil
	}
	return p.json(tooLong - 1)
}

func budgetTooSmall() error {
	return fault.New(fault.BudgetTooSmall, "The budget is too small even for a description of the result. Raise budget.maxTotalTokens.")
}

// encode is compact JSON without the escapes that only HTML needs, for values that always can be encoded.
func encode(v any) []byte {
	encoded, _ := rawjson.Marshal(v)
	return encoded
}
