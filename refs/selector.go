package refs

import (
	"context"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// Selector is what forEach, select and query hold: a reference if the text parses as one, else an expression. In it a
// bare name of a reference has letters, digits, _ and characters beyond ASCII only, as the others are operators of
// expressions: keys with spaces or -():/@ are quoted.
type Selector struct {
	ref  *bound
	expr *Expression
	at   string
	text string
}

// CompileSelector compiles text; the faults are bad_reference, bad_expression or not_supported.
func CompileSelector(text string, p Place) (*Selector, []*fault.Error) {
	r, malformed := parseWhole(text, true)
	if malformed == nil {
		b, err := p.bind(r)
		if err != nil {
			err.At = p.At
			return nil, []*fault.Error{atOffset(err, text, 0)}
		}
		return &Selector{ref: b, at: p.At, text: text}, nil
	}
	e, faults := CompileExpression(text, p)
	if len(faults) > 0 {
		isCall := strings.HasPrefix(malformed.Source[malformed.Offset:], "(")
		if strings.HasPrefix(text, "$") && malformed.Offset > faults[0].Offset && !isCall {
			// It goes on longer as a reference than as an expression.
			malformed.At = p.At
			return nil, []*fault.Error{malformed}
		}
		return nil, faults
	}
	return &Selector{expr: e, at: p.At, text: text}, nil
}

// String is the text that was compiled.
func (s *Selector) String() string { return s.text }

// Uses lists the references.
func (s *Selector) Uses() []Use {
	if s.expr != nil {
		return s.expr.Uses()
	}
	return []Use{s.ref.use(s.at, true)}
}

// Resolve gives the value as compact JSON of its own. A reference keeps the bytes of what it takes.
func (s *Selector) Resolve(ctx context.Context, sc *Scope) ([]byte, error) {
	if s.expr != nil {
		return s.expr.Eval(ctx, sc)
	}
	w := work{ctx: ctx}
	defer w.slot.Release()
	raw, err := s.ref.resolve(&w, nil, sc, s.at)
	if err != nil {
		return nil, err
	}
	return raw, nil
}
