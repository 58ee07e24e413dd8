package chain

import (
	"context"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
)

// decode reads a request. The request has all that could be read, and the faults say what could not. It is nil, with one fault, if text is
// not a JSON object or has both a continuation token and steps. It is nil, without a fault, if s.cutOff says why: the context has ended, or
// the run to resume cannot be loaded.
func (s *requestState) decode(ctx context.Context, text []byte) (*request, *faultList) {
	if len(text) >= heavyRequest {
		var slot admit.Slot
		if err := slot.Acquire(ctx); err != nil {
			s.cutOff = abandonedFault(ctx, err, "read")
			return nil, &faultList{}
		}
		defer slot.Release()
	}
	if s.decision != nil {
		chain, f := s.loadDecided(ctx)
		if f != nil {
			s.cutOff = f
			return nil, &faultList{}
		}
		if s.single == nil {
			text = chain
		}
	}
	if s.single != nil {
		return decodeCall(s.single, s.o.MaxRequestBytes)
	}
	e := readEnvelope(text, s.line, &s.rules.requests)
	if e.warning != nil {
		s.warn(e.warning)
	}
	switch {
	case e.fetch != nil:
		return &request{fetch: e.fetch}, &e.faults
	case !e.chain.Exists():
		return nil, &e.faults
	}
	if s.decision == nil {
		var f *fault.Error
		if e.chain, f = s.mergeResumed(ctx, e.chain); f != nil {
			s.cutOff = f
			return nil, &faultList{}
		}
	}
	return e.decodeChain(e.chain), &e.faults
}
