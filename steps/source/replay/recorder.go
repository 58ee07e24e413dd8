// Package replay records the calls that a run makes and answers a later run from such a recording, calling nothing. A
// recording is a text file of JSON lines, one call a line, which may also be written by hand:
//
//	{"fn":"…","args":{…},"result":…}
//	{"fn":"…","args":{…},"error":{"code":"…","message":"…"}}
//
// A line may carry `effect` (read, write, destroy) and `chain`: only the chain of that name sees it. What a recorder writes
// has more: {"function":{…}} tells of a function before a chain that may call it, {"secret":"…"} stands in the place of a
// secret, keyed by the line {"salt":"…"} before it, and {"gap":n} is where n lines could not be written.
package replay

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps"
)

// Recorder appends JSON lines to a writer: one a call, and one a function. It is safe for concurrent use.
type Recorder struct {
	*tape
	secrets []string // of the configuration, the longest first
}

// tape is what recorders with different secrets have in common.
type tape struct {
	maxLine int // in bytes
	salt    string
	seal    *secret.Seal
	report  func(err error)

	mu        sync.Mutex
	w         io.Writer
	begun     bool                         // the salt is written
	functions map[string][sha256.Size]byte // of the last line of each function, by name
	planned   map[string]*steps.Entry      // of which that line is
	lost      int                          // lines since the last one that was written
	total     int                          // lines lost ever
	failing   error                        // why the writer fails; nil: it does not
	err       error                        // why the first line was lost
}

// RecorderOptions configure a Recorder. nil is the zero value.
type RecorderOptions struct {
	// Report is told when lines begin to be lost, with the cause, and with nil when they are written again. It must return
	// soon, and may not call the Recorder. nil: nobody listens.
	Report func(err error)
}

// NewRecorder records to w, which the caller closes after the last call has ended. Each line is one Write; of one that fails
// half-way nothing stays if w is a file. After a failure the next line is tried again, behind a line that marks the gap.
func NewRecorder(w io.Writer, o *RecorderOptions) *Recorder {
	t := &tape{w: w, maxLine: maxLine, salt: rand.Text(), functions: map[string][sha256.Size]byte{}, planned: map[string]*steps.Entry{}, report: func(error) {}}
	t.seal = secret.NewSeal(t.salt)
	if o != nil && o.Report != nil {
		t.report = o.Report
	}
	return &Recorder{tape: t}
}

// Hiding returns a recorder to the same writer that also hides these secrets, those of a configuration, in arguments.
func (r *Recorder) Hiding(secrets []string) *Recorder {
	return &Recorder{r.tape, longestFirst(secrets)}
}

// Observe is for steps.Registry.Observe: it records a call when its caller gets the answer. Digests stand in the place of
// secret arguments, and of what the answer repeats of them; errors are recorded as the caller gets them: a function that was
// abandoned at its deadline is recorded as that timeout, whatever it answers later. A call that the client cancelled is not
// recorded: it says nothing of the function, and would answer a replay in the place of the same call made again.
func (r *Recorder) Observe(ctx context.Context, spec *steps.Spec, args, result []byte, err error) {
	if fault.CodeOf(err) == fault.Cancelled {
		return
	}
	var hidden []string
	shown := sealed(r.seal, redactionOf(spec), args, r.secrets, &hidden)
	l := line{Fn: spec.Name, Args: shown}
	if err != nil {
		l.Error = r.failure(err, hidden)
	} else {
		l.Result, l.Status = r.seal.Hide(result, hidden), steps.AnsweredStatus(ctx)
	}
	if spec.EffectDeclared && spec.Effect != steps.Write {
		l.Effect = spec.Effect.String()
	}
	l.Chain, _ = ctx.Value(chainKey{}).(string)
	r.write(&l, l.Fn)
}

// isPlanned reports whether a function's line is that of this entry, and notes it.
func (t *tape) isPlanned(entry *steps.Entry) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := entry.Spec().Name
	known := t.planned[name] == entry && t.failing == nil
	t.planned[name] = entry
	return known
}

func (t *tape) failure(err error, hidden []string) *failure {
	f, ok := fault.As(err)
	if !ok || f == nil {
		return &failure{Code: string(fault.CodeOf(err)), Message: t.seal.HideText(err.Error(), hidden)}
	}
	l := &failure{Code: string(f.Code), Message: t.seal.HideText(f.Message, hidden), At: f.At, Status: f.Status, Outcome: string(f.Outcome),
		Available: f.Available, Nearest: f.Nearest}
	if json.Valid(f.Body) {
		l.Body = t.seal.Hide(f.Body, hidden)
	}
	return l
}

// Functions records what is known of functions, of each once as long as it does not change. Digests stand in the place of
// defaults that are secret. It is for chain.Options.Planned.
func (r *Recorder) Functions(entries []*steps.Entry) {
	for _, entry := range entries {
		if r.isPlanned(entry) {
			continue
		}
		l := lineOf(entry.Spec())
		l.InputSchema = r.seal.Configured(l.InputSchema, r.secrets, spelling)
		if len(l.Defaults) > 0 {
			l.Defaults = sealed(r.seal, redactionOf(entry.Spec()), l.Defaults, r.secrets, new([]string))
		}
		r.write(&line{Function: l}, l.Name)
	}
}

// Failing returns why lines cannot be written, nil if they can. After a failure it tries to mark the gap: a server that is
// not ready gets no call that would try.
func (t *tape) Failing() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failing != nil {
		t.failing = t.append(nil)
	}
	return t.failing
}

// End marks a gap at the end, if it can. It is called after the last call.
func (t *tape) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost > 0 {
		t.err = cmp.Or(t.err, t.append(nil))
	}
}

// Lost is how many lines could not be written, ever.
func (t *tape) Lost() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}

// Err is the first error of writing: the recording has a gap. The answer of a call stands though its line could not be
// written: the recording is what failed, not the call.
func (t *tape) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

func (t *tape) write(l *line, name string) {
	text, err := l.encode()
	if err == nil && len(text) > t.maxLine {
		err = fault.New(fault.LimitExceeded, "a call of %s is too long to be recorded: %d bytes, the limit is %d", name, len(text), t.maxLine)
	}
	var sum [sha256.Size]byte
	if l.Function != nil {
		sum = sha256.Sum256(text)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.Function != nil && t.functions[name] == sum {
		return
	}
	begins := t.lost == 0
	if err == nil {
		err = t.append(text)
		begins = begins || t.failing == nil
		t.failing = err
	}
	if l.Function != nil && t.failing == nil { // one that is too long is lost once
		t.functions[name] = sum
	}
	if err == nil {
		return
	}
	t.lost++
	t.total++
	t.err = cmp.Or(t.err, err)
	if begins {
		t.report(err)
	}
}

// append writes a line, and before it the salt where it is missing, and the mark of a gap.
func (t *tape) append(text []byte) error {
	var head []byte
	for _, l := range []line{{Salt: t.salt}, {Gap: t.lost}} {
		if l.Salt != "" && t.begun || l.Salt == "" && l.Gap == 0 {
			continue
		}
		more, err := l.encode()
		if err != nil {
			return err
		}
		head = append(head, more...)
	}
	n, err := t.w.Write(append(head, text...))
	if err != nil {
		return errors.Join(err, t.undo(n))
	}
	if t.lost > 0 {
		t.report(nil)
	}
	t.begun, t.lost = true, 0
	return nil
}

// undo takes back what was written of a line, where it can.
func (t *tape) undo(bytes int) error {
	file, ok := t.w.(interface {
		Stat() (os.FileInfo, error)
		Truncate(size int64) error
	})
	if !ok || bytes == 0 {
		return nil
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	return file.Truncate(info.Size() - int64(bytes))
}

type chainKey struct{}

// WithChain says which chain the calls of a context belong to: their lines carry its name, "" for none.
func WithChain(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, chainKey{}, name)
}
