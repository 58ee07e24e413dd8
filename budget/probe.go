package budget

import (
	"context"
	"sort"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// maxPreview is the maximum number of characters of a probe's preview.
const maxPreview = 200

// maxProbeTokens is the maximum cost of a probe without its preview. The shape is shortened to fit.
const maxProbeTokens = 90

// exactBytes is the size up to which the tokens of a stored value are counted exactly. Above it they are estimated.
const exactBytes = 2 << 20

// probe is the answer in place of a result that is too large. Fields are in the order of the JSON.
type probe struct {
	Preview     string   `json:"preview"`      // the first characters of the result's JSON
	TotalSize   int      `json:"total_size"`   // bytes
	TotalTokens int      `json:"total_tokens"` // an estimate above 2 MiB
	Shape       string   `json:"shape"`
	Count       int      `json:"count"` // elements, keys or lines; 1 for any other value
	Modes       []string `json:"available_modes"`
	Token       string   `json:"continuation_token"`
	ExpiresIn   int      `json:"expires_in"` // seconds

	value []byte
	text  []byte // what the preview shows; nil: value
}

// Probe stores a value for its owner and returns JSON that describes it. The preview has at most previewRunes characters of the value,
// and never more than 200. With 0 it is empty. Without the preview a probe costs at most 90 tokens (with a counter's factor of 1). Errors
// are those of Keep.
func (r *Results) Probe(ctx context.Context, owner string, value []byte, previewRunes int) (result []byte, err error) {
	return r.storeProbe(ctx, owner, value, func(w *work) (*probe, []byte, error) {
		p, err := r.describe(w, value)
		if err != nil {
			return nil, nil, err
		}
		return p, p.json(previewRunes), nil
	})
}

// ProbeWithin is Probe with the longest preview that fits. If the probe does not fit even without a preview, nothing is stored and the
// error is budget_too_small.
func (r *Results) ProbeWithin(ctx context.Context, owner string, value []byte, envelope *Envelope) ([]byte, error) {
	return r.storeProbe(ctx, owner, value, func(w *work) (*probe, []byte, error) { return r.describeWithin(w, value, envelope) })
}

// storeProbe describes a value and stores it.
func (r *Results) storeProbe(ctx context.Context, owner string, value []byte,
	describe func(*work) (*probe, []byte, error)) (result []byte, err error) {
	var p *probe
	if err := doWork(ctx, len(value), func(w *work) (err error) {
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

// describeWithin returns the probe of a value that is not stored yet, and its longest JSON that fits.
func (r *Results) describeWithin(w *work, value []byte, envelope *Envelope) (*probe, []byte, error) {
	p, err := r.describe(w, value)
	if err != nil {
		return nil, nil, err
	}
	_, p.text = envelope.write(value)
	result := p.longest(envelope.Allows)
	if result == nil {
		return nil, nil, budgetTooSmall()
	}
	return p, result, nil
}

// describe returns the probe of a value that is not stored yet.
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
	// Keys may cost more than their length suggests (emoji, rare scripts): show fewer of them then.
	for width := maxShape; width > 0; width -= 20 {
		p.Shape = o.shape(width)
		if r.o.Counter.Count(p.json(0), maxProbeTokens) <= maxProbeTokens {
			break
		}
	}
	return p, w.interrupted()
}

// tokens returns what a value costs; an estimate if counting would take long.
func (r *Results) tokens(value []byte) int {
	if len(value) <= exactBytes {
		return r.o.Counter.Count(value, -1)
	}
	return r.o.Counter.Estimate(value)
}

// json returns the probe's JSON with a preview of the given length.
func (p *probe) json(previewRunes int) []byte {
	shown := p.value
	if p.text != nil {
		shown = p.text
	}
	preview, _ := cutText(shown, min(max(previewRunes, 0), maxPreview))
	p.Preview = string(preview)
	return encode(p)
}

// longest returns the probe with the longest preview that fits, or nil if none does.
func (p *probe) longest(within func([]byte) bool) []byte {
	if whole := p.json(maxPreview); within(whole) {
		return whole
	}
	tooLong := sort.Search(maxPreview, func(n int) bool { return !within(p.json(n)) })
	if tooLong == 0 {
		return nil
	}
	return p.json(tooLong - 1)
}

func budgetTooSmall() error {
	return fault.New(fault.BudgetTooSmall, "The budget is too small even for a description of the result. Raise budget.maxTotalTokens.")
}

// encode returns compact JSON without HTML escapes, for values that can always be encoded.
func encode(v any) []byte {
	encoded, _ := rawjson.Marshal(v)
	return encoded
}
