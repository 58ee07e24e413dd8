// Package replay records the calls of a run and answers a later run from the recording, without calling anything. A
// recording is a text file of JSON lines, one for each call, which may also be written by hand:
//
//	{"fn":"…","args":{…},"result":…}
//	{"fn":"…","args":{…},"error":{"code":"…","message":"…"}}
//	{"state":{…}}, what $state has for the chain that follows
//
// A line may have `effect` (read, write, destroy) and `chain`: then only the chain of that name sees it. A recorder writes
// more: {"function":{…}} describes a function before a chain that may call it, {"secret":"…"} replaces a secret, keyed by
// the preceding line {"salt":"…","settings":{…}}, which also has settings of the configuration, and {"gap":n} marks n lines that could not
// be written.
package replay

import (
	"bytes"
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
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps"
)

// Recorder appends JSON lines to a writer: one for each call and each function. It is safe for concurrent use.
type Recorder struct {
	*recordWriter
	secrets  []string // the secrets of the configuration, longest first
	settings []byte   // of the configuration, a JSON object; nil: none
}

// recordWriter is shared by recorders with different secrets.
type recordWriter struct {
	maxLine int    // the maximum bytes of a line
	blocks  string // see RecorderOptions.Blocks
	salt    string
	seal    *secret.Seal
	report  func(err error)

	mu          sync.Mutex
	w           io.Writer
	saltWritten bool                         // the salt was written
	settings    []byte                       // the settings that were written last
	functions   map[string][sha256.Size]byte // the digest of the last line of each function, by name
	planned     map[string]*steps.Entry      // the entries that those lines describe
	gap         int                          // lines lost since the last one written
	total       int                          // lines lost in total
	failing     error                        // why the writer fails; nil: it works
	err         error                        // why the first line was lost
}

// RecorderOptions configure a Recorder. nil is the zero value.
type RecorderOptions struct {
	// Report is called with the cause when lines begin to be lost, and with nil when they are written again. It must return
	// soon and must not call the Recorder. May be nil.
	Report func(err error)

	// Blocks is the folder for the bytes of blocks, which is made when there are some; see BlocksFolder. "": they are not kept, and a
	// replay has their digests alone.
	Blocks string
}

// NewRecorder returns a recorder that writes to w, which the caller closes after the last call has ended. Each line is one
// Write; if w is a file, a partial line is removed. After a failure the next line is tried, preceded by a line that marks
// the gap.
func NewRecorder(w io.Writer, o *RecorderOptions) *Recorder {
	t := &recordWriter{w: w, maxLine: maxLine, salt: rand.Text(), functions: map[string][sha256.Size]byte{},
		planned: map[string]*steps.Entry{}, report: func(error) {}}
	t.seal = secret.NewSeal(t.salt)
	if o != nil && o.Report != nil {
		t.report = o.Report
	}
	if o != nil {
		t.blocks = o.Blocks
	}
	return &Recorder{recordWriter: t}
}

// WithSecrets returns a recorder with the same writer that also hides the secrets of a configuration, in place of those that r hides: in
// arguments, default arguments and input schemas.
func (r *Recorder) WithSecrets(secrets []string) *Recorder {
	return &Recorder{r.recordWriter, longestFirst(secrets), r.settings}
}

// WithSettings returns a recorder with the same writer and secrets whose lines stand behind the settings of a configuration, a compact JSON
// object of those that answers depend on. nil: none.
func (r *Recorder) WithSettings(settings []byte) *Recorder {
	return &Recorder{r.recordWriter, r.secrets, settings}
}

// Observe records a call when its caller gets the answer; it is for steps.Registry.Observe. Digests replace secret
// arguments and their repetitions in the answer. Errors are recorded as the caller gets them: a function that was abandoned
// at its deadline is recorded as a timeout, whatever it answers later. A call that the client cancelled is not recorded: it
// says nothing about the function, and would answer the same call in a replay.
func (r *Recorder) Observe(ctx context.Context, spec *steps.Spec, args, result []byte, err error) {
	if fault.CodeOf(err) == fault.Cancelled {
		return
	}
	blocks := steps.CallbacksOf(ctx).Blocks
	within := blocks.Within(result)
	args, result = blocks.Digests(args), blocks.Digests(result)
	var hidden []string
	shown := sealArguments(r.seal, redactionOf(spec), withoutKey(spec, args), r.secrets, &hidden)
	l := line{Fn: spec.Name, Args: shown, Cached: steps.AnsweredFromCache(ctx)}
	if err != nil {
		l.Error = r.failure(err, hidden)
	} else {
		l.Result, l.Status = r.seal.Hide(result, hidden), steps.AnsweredStatus(ctx)
	}
	if spec.EffectDeclared && spec.Effect != steps.Write {
		l.Effect = spec.Effect.String()
	}
	l.Chain, _ = ctx.Value(chainKey{}).(string)
	var lost error
	l.Blocks, lost = r.blocksOf(within, hidden)
	r.write(&l, l.Fn, lost)
}

// withoutKey returns arguments without the idempotency key, which is another one in each run.
func withoutKey(spec *steps.Spec, args []byte) []byte {
	if spec.Idempotency == nil || spec.Idempotency.Argument == "" {
		return args
	}
	kept := []byte{'{'}
	for name, value := range rawjson.Members(args) {
		if rawjson.Unquote(string(name)) == spec.Idempotency.Argument {
			continue
		}
		if len(kept) > 1 {
			kept = append(kept, ',')
		}
		kept = append(append(append(kept, name...), ':'), value...)
	}
	return append(kept, '}')
}

// isPlanned reports whether the function's last line describes this entry, and records that it will. It returns false while the writer
// fails, because the line may have been lost.
func (t *recordWriter) isPlanned(entry *steps.Entry) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := entry.Spec().Name
	known := t.planned[name] == entry && t.failing == nil
	t.planned[name] = entry
	return known
}

func (t *recordWriter) failure(err error, hidden []string) *failure {
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

// Functions records each function once, and again when it has changed; it is for chain.Options.Planned. Digests replace secret defaults.
func (r *Recorder) Functions(entries []*steps.Entry) {
	for _, entry := range entries {
		if r.isPlanned(entry) {
			continue
		}
		l := lineOf(entry.Spec())
		l.InputSchema = r.seal.HideConfigured(l.InputSchema, r.secrets, canonicalText)
		if len(l.Defaults) > 0 {
			l.Defaults = sealArguments(r.seal, redactionOf(entry.Spec()), l.Defaults, r.secrets, new([]string))
		}
		r.write(&line{Function: l}, l.Name, nil)
	}
}

// Failing returns why lines cannot be written; nil if they can. After a failure it tries to mark the gap itself, because a server that is
// not ready gets no calls whose lines would mark it.
func (t *recordWriter) Failing() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failing != nil {
		t.failing = t.append(t.settings, nil)
	}
	return t.failing
}

// End marks a final gap if it can. It is called after the last call.
func (t *recordWriter) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gap > 0 {
		t.err = cmp.Or(t.err, t.append(t.settings, nil))
	}
}

// Lost returns the number of lines that could not be written.
func (t *recordWriter) Lost() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}

// Err returns why the first line was lost, so that the recording has a gap; nil if none was lost. The answers of the calls are still
// valid: the recording failed, not the calls.
func (t *recordWriter) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// write writes a line about the function name, or counts it as lost: if lost is not nil, or if it cannot be written. A function's line that
// is the same as its last one is not written.
func (r *Recorder) write(l *line, name string, lost error) {
	t := r.recordWriter
	text, err := l.encode()
	err = cmp.Or(lost, err)
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
	begins := t.gap == 0 // a loss begins a gap: report it
	if err == nil {
		err = t.append(r.settings, text)
		begins = begins || t.failing == nil // or the writer begins to fail
		t.failing = err
	}
	if l.Function != nil && t.failing == nil { // also if the line is too long, so that it counts as lost only once
		t.functions[name] = sum
	}
	if err == nil {
		return
	}
	t.gap++
	t.total++
	t.err = cmp.Or(t.err, err)
	if begins {
		t.report(err)
	}
}

// append writes a line, preceded by the salt, the settings and the mark of a gap if they are needed. If text is nil, it writes only these.
func (t *recordWriter) append(settings, text []byte) error {
	var before line
	if !t.saltWritten {
		before.Salt, before.Settings = t.salt, settings
	} else if !bytes.Equal(settings, t.settings) {
		before.Settings = settings
		if settings == nil {
			before.Settings = json.RawMessage("{}")
		}
	}
	var head []byte
	for _, l := range []line{before, {Gap: t.gap}} {
		if l.Salt == "" && l.Settings == nil && l.Gap == 0 {
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
	if t.gap > 0 {
		t.report(nil)
	}
	t.saltWritten, t.settings, t.gap = true, settings, 0
	return nil
}

// undo removes what a failed write has written, if the writer is a regular file; else it does nothing. bytes is how much that is.
func (t *recordWriter) undo(bytes int) error {
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

// WithChain sets the chain of a context's calls: their lines have its name, "" for none.
func WithChain(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, chainKey{}, name)
}
