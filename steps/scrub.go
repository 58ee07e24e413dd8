package steps

import (
	"context"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/internal/secret"
)

// Scrubber removes secrets from data that leaves onecall. Many goroutines may use it.
type Scrubber interface {
	// Text returns a text, which is not JSON, without its secrets.
	Text(text string) string
	// JSON returns a JSON value without its secrets; the result is valid JSON. It must not change value, and may return it.
	JSON(value []byte) []byte
}

// ScrubFault returns f without the secrets that s removes. A nil s removes none.
func ScrubFault(s Scrubber, f *fault.Error) *fault.Error {
	if s == nil || f == nil {
		return f
	}
	scrubbed := *f
	scrubbed.Message, scrubbed.Body, scrubbed.Source = s.Text(f.Message), s.JSON(f.Body), s.Text(f.Source)
	return &scrubbed
}

// scrubFunction removes secrets from a source's description of a function.
func scrubFunction(s Scrubber, fn Function) Function {
	if s != nil {
		fn.Description, fn.Input, fn.Output, fn.Listing = s.Text(fn.Description), s.JSON(fn.Input), s.JSON(fn.Output), s.JSON(fn.Listing)
	}
	return fn
}

// scrubCallbacks returns a context whose callbacks Progress, Log, Verbatim, Keep and Blocks receive no secrets. The other callbacks are
// unchanged.
func scrubCallbacks(ctx context.Context, s Scrubber) context.Context {
	callbacks := *CallbacksOf(ctx)
	if callbacks.Progress == nil && callbacks.Log == nil && callbacks.Verbatim == nil && callbacks.Keep == nil &&
		callbacks.Blocks == nil {
		return ctx
	}
	callbacks.scrubber = s
	if keep := callbacks.Keep; keep != nil {
		callbacks.Keep = func(ctx context.Context, value []byte) (string, error) { return keep(ctx, s.JSON(value)) }
	}
	if verbatim := callbacks.Verbatim; verbatim != nil {
		callbacks.Verbatim = func(result []byte) { verbatim(s.JSON(result)) }
	}
	if progress := callbacks.Progress; progress != nil {
		callbacks.Progress = func(ctx context.Context, done, total float64, message string) {
			progress(ctx, done, total, s.Text(message))
		}
	}
	if log := callbacks.Log; log != nil {
		callbacks.Log = func(ctx context.Context, level, logger string, data []byte) {
			log(ctx, level, s.Text(logger), s.JSON(data))
		}
	}
	return WithCallbacks(ctx, &callbacks)
}

// scrubBlock removes secrets from a block: from its bytes where they stand there as they are, or encoded as in a text. Compression hides
// them.
func scrubBlock(s Scrubber, b *Block) *Block {
	if s == nil {
		return b
	}
	scrubbed := *b
	scrubbed.URI, scrubbed.MIME = s.Text(b.URI), s.Text(b.MIME)
	text := rawjson.View(b.Bytes)
	if shown := s.Text(text); shown != text {
		scrubbed.Bytes = []byte(shown)
	}
	return &scrubbed
}

// scrubCall removes secrets from a call's result, errors and callbacks.
func scrubCall(s Scrubber, call Call) Call {
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

// Shown returns the arguments of a call as traces, recordings and logs may show them.
func (e *Entry) Shown(args []byte) []byte {
	if e.spec.Redact != nil {
		args = e.spec.Redact(args, func([]byte) []byte { return []byte(`"` + secret.Redacted + `"`) })
	}
	return e.scrub(args)
}

// Redacted returns the arguments of a call as someone other than the caller may see them. hide receives each secret as a JSON value
// and returns its replacement. If the function does not declare its secrets, the names of the arguments decide.
func (e *Entry) Redacted(args []byte, hide func(value []byte) []byte) []byte {
	redact := e.spec.Redact
	if redact == nil {
		redact = secret.Redaction(e.spec.Input)
	}
	return e.scrub(redact(args, hide))
}

func (e *Entry) scrub(text []byte) []byte {
	if e.scrubber == nil {
		return text
	}
	return e.scrubber.JSON(text)
}
