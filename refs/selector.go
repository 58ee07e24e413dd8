package refs

import (
	"context"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// Selector is the value of forEach, select or query: a reference if the text parses as one, else an expression. A bare name
// of its references has only letters, digits, _ and characters beyond ASCII, as the others are operators of expressions:
// keys with spaces or -():/@ are quoted.
type Selector struct {
	ref  *boundReference
	expr *Expression
	at   string
	text string
}

// CompileSelector compiles text; the faults are bad_reference, bad_expression or not_supported.
func CompileSelector(text string, p CompileScope) (*Selector, []*fault.Error) {
	r, malformed := parseWhole(text, true)
	if malformed == nil {
		b, err := p.bind(r)
		if err != nil {
			if f := p.foreignFault(text); f != nil {
				err = f
			}
			err.At = p.At
			return nil, []*fault.Error{atOffset(err, text, 0)}
		}
		return &Selector{ref: b, at: p.At, text: text}, nil
	}
	e, faults := CompileExpression(text, p)
	if len(faults) > 0 {
		isCall := strings.HasPrefix(malformed.Source[malformed.Offset:], "(")
		if strings.HasPrefix(text, "$") && p.foreignFault(text) == nil && malformed.Offset > faults[0].Offset && !isCall {
			// As a reference it parses further than as an expression.
			malformed.At = p.At
			return nil, []*fault.Error{malformed}
		}
		return nil, faults
	}
	return &Selector{expr: e, at: p.At, text: text}, nil
}

// String returns the text that was compiled.
func (s *Selector) String() string { return s.text }

// Uses lists the references.
func (s *Selector) Uses() []Use {
	if s.expr != nil {
		return s.expr.Uses()
	}
	return []Use{s.ref.use(s.at, true)}
}

// Resolve returns the value as newly allocated compact JSON. A reference keeps the bytes of its value.
func (s *Selector) Resolve(ctx context.Context, sc *Scope) ([]byte, error) {
	if s.expr != nil {
		return s.expr.Eval(ctx, sc)
	}
	w := workMeter{ctx: ctx, inputText: true}
	defer w.slot.Release()
	raw, err := s.ref.resolve(&w, nil, sc, s.at)
	if err != nil {
		return nil, err
	}
	return raw, nil
}
