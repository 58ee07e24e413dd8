package steps

import (
	"context"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
)

// Scrubber takes secrets out of what leaves onecall. It may be used by many goroutines.
type Scrubber interface {
	// Text returns a text that is not JSON without the secrets.
	Text(text string) string
	// JSON returns a JSON value without the secrets: it stays JSON. It must not change value, and may return it.
	JSON(value []byte) []byte
}

// ScrubFault returns f without the secrets that s takes out; nil: f itself.
func ScrubFault(s Scrubber, f *fault.Error) *fault.Error {
	if s == nil || f == nil {
		return f
	}
	c := *f
	c.Message, c.Body, c.Source = s.Text(f.Message), s.JSON(f.Body), s.Text(f.Source)
	return &c
}

// scrubFunction returns what a source tells of a function without the secrets.
func scrubFunction(s Scrubber, fn Function) Function {
	if s != nil {
		fn.Description, fn.Input, fn.Output, fn.Listing = s.Text(fn.Description), s.JSON(fn.Input), s.JSON(fn.Output), s.JSON(fn.Listing)
	}
	return fn
}

// scrubCallbacks returns a context whose callbacks are given nothing of the secrets.
func scrubCallbacks(ctx context.Context, s Scrubber) context.Context {
	a := *CallbacksOf(ctx)
	if a.Progress == nil && a.Log == nil && a.Verbatim == nil {
		return ctx
	}
	if verbatim := a.Verbatim; verbatim != nil {
		a.Verbatim = func(result []byte) { verbatim(s.JSON(result)) }
	}
	if progress := a.Progress; progress != nil {
		a.Progress = func(ctx context.Context, done, total float64, message string) {
			progress(ctx, done, total, s.Text(message))
		}
	}
	if log := a.Log; log != nil {
		a.Log = func(ctx context.Context, level, logger string, data []byte) {
			log(ctx, level, s.Text(logger), s.JSON(data))
		}
	}
	return WithCallbacks(ctx, &a)
}

// scrubbed makes a call give nothing with the secrets that s takes out: results, errors, what a function tells while it runs.
func scrubbed(s Scrubber, call Call) Call {
	if s == nil {
		return call
	}
	return func(ctx context.Context, args []byte) ([]byte, error) {
		result, err := call(scrubCallbacks(ctx, s), args)
		if err == nil {
			return s.JSON(result), nil
		}
		if f, ok := fault.As(err); ok {
			return nil, ScrubFault(s, f)
		}
		return nil, err
	}
}

// Shown gives the arguments of a call as traces, recordings and logs may show them.
func (e *Entry) Shown(args []byte) []byte {
	if e.spec.Redact != nil {
		args = e.spec.Redact(args, func([]byte) []byte { return []byte(`"` + secret.Redacted + `"`) })
	}
	return e.scrubbed(args)
}

// Redacted gives the arguments of a call as a person may see them who did not send them: with what hide makes of each secret, a JSON value, in its
// place. Of a function that does not say which are secret, those are that have the name of one.
func (e *Entry) Redacted(args []byte, hide func(value []byte) []byte) []byte {
	redact := e.spec.Redact
	if redact == nil {
		redact = secret.Redaction(e.spec.Input)
	}
	return e.scrubbed(redact(args, hide))
}

func (e *Entry) scrubbed(text []byte) []byte {
	if e.scrubber == nil {
		return text
	}
	return e.scrubber.JSON(text)
}
