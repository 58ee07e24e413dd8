package commands

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// Bounds of what a result shows beside the whole output.
const (
	maxErrors    = 20  // lines that look like errors
	tailLines    = 10  // the last lines
	tailAbove    = 40  // lines of an output whose last lines are shown
	maxLineBytes = 500 // of a shown line

	briefErrors, briefLineBytes = 10, 150 // the same in the error of a failure
)

// outputSchema declares the members that chains refer to; a signature shows each of them. Further members are signal, omittedBytes,
// invalidUTF8 and format.
const outputSchema = `{"type":"object","required":["exit","lines","errorCount","stdout","stderr"],"properties":{` +
	`"exit":{"type":"integer"},` +
	`"lines":{"type":"integer","description":"of stdout"},` +
	`"errorCount":{"type":"integer","description":"lines that look like errors"},` +
	`"errors":{"type":"array","description":"the first of them: {stream, line, text}"},` +
	`"tail":{"type":"array","description":"the last lines of a long output"},` +
	`"stdout":{"description":"JSON if it is an object or a list, a list if it is lines of them, else a text"},"stderr":{"type":"string"}}}`

// answer returns the result of a program that ended, or the fault of one that failed or was stopped.
func (c *command) answer(ctx context.Context, e *ended) ([]byte, error) {
	r := c.result(e)
	f := c.failure(e, r)
	if f == nil {
		return r.json(), nil
	}
	if e.stopped != nil || r.signal != "" {
		f.Outcome = unknownOutcome(ctx, c.spec.Effect)
	}
	if f.Body = r.json(); len(f.Body) > maxBodyBytes {
		f.Body = r.brief(ctx, f.Body)
	}
	return nil, f
}

// unknownOutcome returns the outcome of a program that did not end by itself: what it wrote until then is not known. A read has none.
func unknownOutcome(ctx context.Context, declared steps.Effect) fault.Outcome {
	if steps.EffectOf(ctx, declared) == steps.Read {
		return ""
	}
	return fault.SentUnknown
}

// maxBodyBytes is the size of a result that the error of a failure has whole. Of a larger one it has all but the output, and the token that
// fetches the whole.
const maxBodyBytes = 4 << 10

// result is what the result of a program says.
type result struct {
	exit                   int
	signal                 string
	lines                  int64
	errorCount             int
	errors                 []errorLine
	tail                   []string
	long                   bool // the output is so long that tail is shown beside it
	omittedOut, omittedErr int64
	invalidUTF8            bool
	format                 string // of stdout: json, jsonLines, or "" for a text
	stderr                 string
	stdout                 []byte // JSON, as format says; nil: left out
	token                  string // fetches the whole result; "": this is it
}

// errorLine is a line that looks like an error.
type errorLine struct {
	stream, text string
	line         int // from 1; 0: unknown, for the end of an output that was cut
}

func (c *command) result(e *ended) *result {
	r := &result{exit: e.state.ExitCode(), signal: signalName(e.state)}
	out, err := e.stdout.kept(), e.stderr.kept()
	r.lines, r.omittedOut, r.omittedErr = out.lines, out.omitted, err.omitted
	if c.errors != nil {
		r.findErrors(c.errors, "stderr", &err)
		r.findErrors(c.errors, "stdout", &out)
	}
	last := &out
	if out.lines <= tailAbove && err.lines > tailAbove || out.lines == 0 {
		last = &err
	}
	r.long, r.tail = last.lines > tailAbove || last.omitted > 0, last.last(tailLines)
	r.invalidUTF8 = !utf8.Valid(out.head) || !utf8.Valid(err.head)
	r.stderr = string(err.head)
	r.format, r.stdout = formatOf(&out)
	return r
}

// findErrors adds the lines of a stream that look like errors.
func (r *result) findErrors(pattern *regexp.Regexp, stream string, k *kept) {
	number := 0
	for line := range bytes.Lines(k.head) {
		number++
		r.addError(pattern, stream, number, line)
	}
	for line := range bytes.Lines(k.tail) {
		r.addError(pattern, stream, 0, line)
	}
}

func (r *result) addError(pattern *regexp.Regexp, stream string, number int, line []byte) {
	line = bytes.TrimRight(line, "\r\n")
	if !pattern.Match(line[:min(len(line), maxMatched)]) {
		return
	}
	if r.errorCount++; len(r.errors) < maxErrors {
		r.errors = append(r.errors, errorLine{stream, fault.Clip(string(line), maxLineBytes), number})
	}
}

// maxMatched is how much of a line is looked at.
const maxMatched = 4 << 10

// formatOf returns the format of stdout, and stdout as JSON: an object or array as it is, lines of them as a list, else a text.
func formatOf(k *kept) (format string, stdout []byte) {
	text := bytes.TrimSpace(k.head)
	if k.omitted > 0 || len(text) == 0 || text[0] != '{' && text[0] != '[' {
		return "", quote(k.head)
	}
	const depth = schema.MaxResultDepth - 2 // the result is an object, and has lines in a list
	if compact, f := schema.CompactWithin(text, depth); f == nil {
		return "json", compact
	}
	list := []byte{'['}
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		compact, f := schema.CompactWithin(line, depth)
		if f != nil || compact[0] != '{' && compact[0] != '[' {
			return "", quote(k.head)
		}
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = append(list, compact...)
	}
	return "jsonLines", append(list, ']')
}

// quote returns a text as a JSON string. Most texts need few escapes.
func quote(text []byte) []byte {
	return rawjson.AppendQuote(make([]byte, 0, len(text)+len(text)/8+16), text)
}

// json writes the result: what is looked at first stands first.
func (r *result) json() []byte {
	w := rawjson.Writer{B: make([]byte, 0, len(r.stdout)+len(r.stderr)+512)}
	w.Open('{')
	w.Int("exit", int64(r.exit))
	if r.signal != "" {
		w.Text("signal", r.signal)
	}
	w.Int("lines", r.lines)
	w.Int("errorCount", int64(r.errorCount))
	if len(r.errors) > 0 {
		w.OpenMember("errors", '[')
		for _, line := range r.errors {
			w.Open('{')
			w.Text("stream", line.stream)
			if line.line > 0 {
				w.Int("line", int64(line.line))
			}
			w.Text("text", line.text)
			w.Close('}')
		}
		w.Close(']')
	}
	if r.long || r.stdout == nil {
		w.Texts("tail", r.tail)
	}
	if r.omittedOut+r.omittedErr > 0 {
		w.OpenMember("omittedBytes", '{')
		w.Int("stdout", r.omittedOut)
		w.Int("stderr", r.omittedErr)
		w.Close('}')
	}
	if r.invalidUTF8 {
		w.Bool("invalidUTF8", true)
	}
	if r.token != "" {
		w.Text("token", r.token)
	}
	if r.stdout != nil {
		if r.format != "" {
			w.Text("format", r.format)
		}
		w.Text("stderr", r.stderr)
		w.Raw("stdout", r.stdout)
	}
	w.Close('}')
	return w.B
}

// brief returns the result without the output, and with the token of the whole if there is a store.
func (r *result) brief(ctx context.Context, whole []byte) []byte {
	short := *r
	short.stdout, short.errors, short.tail = nil, slices.Clone(r.errors[:min(len(r.errors), briefErrors)]), slices.Clone(r.tail)
	for i := range short.errors {
		short.errors[i].text = fault.Clip(short.errors[i].text, briefLineBytes)
	}
	for i := range short.tail {
		short.tail[i] = fault.Clip(short.tail[i], briefLineBytes)
	}
	if keep := steps.CallbacksOf(ctx).Keep; keep != nil {
		if token, err := keep(context.WithoutCancel(ctx), whole); err == nil {
			short.token = token
		}
	}
	return short.json()
}

// failure returns the fault of a program that was stopped, was ended by a signal, or has an exit status that is a failure; else nil.
func (c *command) failure(e *ended, r *result) *fault.Error {
	if e.stopped != nil {
		return e.stopped
	}
	if r.exit >= 0 && r.exit < c.failsFrom {
		return nil
	}
	if usedUp(e.state) {
		return fault.New(fault.LimitExceeded, "the program of %s used up its processor time: give it less to do, or raise maxCpuTime (%v)",
			c.spec.Name, c.limits.cpu)
	}
	how := fmt.Sprintf("ended with exit status %d", r.exit)
	switch r.signal {
	case "":
	case "killed":
		how = fmt.Sprintf("was killed, perhaps for want of memory, or because it went on when its processor time was used up (maxCpuTime %v)",
			c.limits.cpu)
	default:
		how = "was ended by the signal " + r.signal
	}
	if words := r.lastWords(); words != "" {
		how += ": " + words
	}
	return fault.New(fault.FunctionFailed, "the program of %s %s", c.spec.Name, how)
}

// lastWords returns the line that most likely says why a program failed: the first that looks like an error, else the last of its output.
func (r *result) lastWords() string {
	words := strings.TrimSpace(r.stderr)
	switch {
	case len(r.errors) > 0:
		words = strings.TrimSpace(r.errors[0].text)
	case words == "" && r.format == "":
		words = strings.TrimSpace(strings.Join(r.tail, "\n"))
	}
	return fault.Short(words[strings.LastIndexByte(words, '\n')+1:])
}

// signalName returns the signal that ended a process; "": none did.
func signalName(state *os.ProcessState) string {
	if status, ok := state.Sys().(interface {
		Signaled() bool
	}); !ok || !status.Signaled() {
		return ""
	}
	_, name, _ := strings.Cut(state.String(), "signal: ")
	return name
}
