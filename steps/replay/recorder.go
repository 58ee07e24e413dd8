// Package replay records the calls that a run makes and answers a later run from such a recording, calling nothing. A
// recording is a text file of JSON lines, one call a line, which may also be written by hand:
//
//	{"fn":"…","args":{…},"result":…}
//	{"fn":"…","args":{…},"error":{"code":"…","message":"…"}}
//
// A line may carry `effect` (read, write, destroy) and `chain`: only the chain of that name sees it.
package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"sync"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// line is one call of a recording. Exactly one of Result and Error is set. Its encoding keeps the bytes of Args and
// Result but for white space between tokens.
type line struct {
	Fn     string          `json:"fn"`
	Args   json.RawMessage `json:"args"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *failure        `json:"error,omitempty"`
	Effect string          `json:"effect,omitempty"`
	Chain  string          `json:"chain,omitempty"`
}

type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Recorder appends one JSON line a call to a writer. It is safe for concurrent use.
type Recorder struct {
	maxLine int // in bytes

	mu  sync.Mutex
	w   io.Writer
	err error
}

// NewRecorder records to w, which the caller closes after the last call has ended. Each line is one Write.
func NewRecorder(w io.Writer) *Recorder { return &Recorder{w: w, maxLine: maxLine} }

// Observe is for steps.Registry.Observe: it records a call when its caller gets the answer. Arguments are recorded as
// spec.Redact shows them, results as spec.RedactResult does, errors as the caller gets them: a function that was abandoned
// at its deadline is recorded as that timeout, whatever it answers later. A call that the client cancelled is not
// recorded: it says nothing of the function, and would answer a replay in the place of the same call made again.
func (r *Recorder) Observe(ctx context.Context, spec *steps.Spec, args, result []byte, err error) {
	if fault.CodeOf(err) == fault.Cancelled {
		return
	}
	if spec.RedactResult != nil && err == nil {
		result = spec.RedactResult(args, result)
	}
	if spec.Redact != nil {
		args = spec.Redact(args)
	}
	l := line{Fn: spec.Name, Args: args, Result: result}
	if err != nil {
		l.Result, l.Error = nil, &failure{Code: string(fault.CodeOf(err)), Message: err.Error()}
		if f, ok := fault.As(err); ok {
			l.Error.Message = f.Message
		}
	}
	if spec.EffectDeclared && spec.Effect != steps.Write {
		l.Effect = spec.Effect.String()
	}
	l.Chain, _ = ctx.Value(chainKey{}).(string)
	r.write(&l)
}

// Err is the first error of writing. The answer of a call stands though its line could not be written: the recording is
// what failed, not the call. After an error nothing more is written, so that at most the last line is cut.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *Recorder) write(l *line) {
	text, err := l.encode()
	if err == nil && len(text) > r.maxLine {
		err = fault.New(fault.LimitExceeded, "a call of %s is too long to be recorded: %d bytes, the limit is %d", l.Fn, len(text), r.maxLine)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return
	}
	if err == nil {
		_, err = r.w.Write(text)
	}
	r.err = err
}

// encode gives the line with its line break.
func (l *line) encode() ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(l); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

type chainKey struct{}

// WithChain says which chain the calls of a context belong to: their lines carry its name, "" for none.
func WithChain(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, chainKey{}, name)
}
