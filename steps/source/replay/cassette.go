package replay

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps"
)

// maxLine bounds one line of a recording, in bytes with its line break: the longest result, arguments of the same length, and 1 MiB for the
// rest.
const maxLine = 2*steps.DefaultMaxResultBytes + 1<<20

// Cassette is a recording that was read: each function's calls and their answers. It does not change, and many goroutines
// may use it.
type Cassette struct {
	// Configure applies the settings of the replay's own configuration to a recorded function, over what the recording says of it; nil: there
	// are none. It must be set before Registry is called.
	Configure func(steps.Function) steps.Function

	// Secrets are the configuration's secrets, which a recording contains as digests. It must be set before Registry is
	// called.
	Secrets []string

	name           string
	functions      []*recordedFunction // in the order of their first lines
	states         []stateLine
	seals          []*secret.Seal  // one for each salt
	unsalted       *secret.Seal    // for lines before the first salt (by hand, or with [redacted] for every secret); nil: no such lines
	missingDigests map[string]bool // digests in defaults whose secrets may no longer be configured
	gaps           int             // lines that could not be recorded
	settings       json.RawMessage // the last settings of a configuration; nil: none
	hasSettings    bool            // a line could have had settings
	warnings       []*fault.Error
}

// Settings returns the settings of the configuration that the answers depended on, as Recorder.WithSettings got them; nil: there were none.
func (c *Cassette) Settings() json.RawMessage { return c.settings }

// Warnings returns the problems of the recording that do not prevent a replay: functions that changed while they were recorded, and calls
// that could not be recorded.
func (c *Cassette) Warnings() []*fault.Error {
	warnings := c.warnings
	if c.gaps > 0 {
		warnings = append(slices.Clip(warnings), fault.New(fault.BadRequest, "%s has gaps: %d calls could not be written to it", c.name, c.gaps))
	}
	return warnings
}

// recordedFunction holds the calls of one function, under one spelling of its name.
type recordedFunction struct {
	name     string
	effect   steps.Effect
	declared bool // a line has an effect
	calls    []call
	line     *functionLine // nil: there is none
}

// call is one line of the file.
type call struct {
	number   int          // the number of the line, from 1
	chain    string       // the only chain that sees the call; "": every chain sees it
	seal     *secret.Seal // by the salt that precedes the line
	args     []byte
	hasMarks bool // args contain a mark
	digest   digest
	status   int      // the HTTP status of a success; 0: not known
	cached   bool     // the call cache answered
	hashes   []uint64 // the hashes of the members of args; nil before the first comparison
	result   []byte
	blocks   []recordedBlock // of result
	err      *fault.Error    // the failure, if result is nil
}

// digest identifies arguments: equal JSON values have equal digests.
type digest [sha256.Size]byte

// maxPooled bounds the buffers that are reused, in bytes.
const maxPooled = 64 << 10

// canonicals pools buffers for texts of which only the digest is kept.
var canonicals = sync.Pool{New: func() any { return new([]byte) }}

func digestOf(args []byte) (d digest, err error) {
	buffer := canonicals.Get().(*[]byte)
	defer canonicals.Put(buffer)
	text, err := appendCanonical((*buffer)[:0], args)
	if err != nil {
		return d, err
	}
	if cap(text) <= maxPooled {
		*buffer = text
	}
	return sha256.Sum256(text), nil
}

// Open reads the recording at path. It fails with bad_request if the file cannot be read, else like Read.
func Open(path string) (*Cassette, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer func() { _ = file.Close() }()
	return Read(file, path)
}

func unreadable(name string, err error) *fault.Error {
	reason := err
	var path *os.PathError
	if errors.As(err, &path) {
		reason = path.Err
	}
	return &fault.Error{Code: fault.BadRequest, Message: "the recording " + name + " cannot be read: " + reason.Error(), Err: err}
}

// Read reads a recording line by line; errors call it name. Empty lines are skipped, and the last line may lack its line
// break. The first malformed line is an error with its number in Line: bad_json, bad_request, unknown_field, or
// limit_exceeded if it is longer than 129 MiB.
func Read(r io.Reader, name string) (*Cassette, error) {
	c := &Cassette{name: name, missingDigests: map[string]bool{}}
	byName := map[string]*recordedFunction{}
	lines := lineReader{in: bufio.NewReaderSize(r, 64<<10), maxLine: maxLine}
	for number, begun := 1, false; ; number++ {
		text, whole, err := lines.next()
		if errors.Is(err, io.EOF) {
			return c, nil
		}
		if err == nil && number == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff"))
		}
		if err == nil && len(bytes.TrimSpace(text)) > 0 {
			var l line
			if l, err = parseLine(text); err == nil {
				err = c.add(byName, l, number)
			}
		}
		if err == nil {
			begun = begun || len(bytes.TrimSpace(text)) > 0
			continue
		}
		f, ok := fault.As(err)
		switch isObject := bytes.HasPrefix(text, []byte("{")); {
		case !ok:
			f = unreadable(name, err)
		case !begun && f.Code != fault.LimitExceeded && (whole || !isObject) && !gjson.GetBytes(text, "fn").Exists():
			f.Message += "; the file holds no recording: onecall run CHAIN --record FILE makes one"
		case f.Code == fault.BadJSON && !whole:
			f.Message = "the last line was not written to its end: delete it or record again (" + f.Message + ")"
		}
		f.Message, f.Line = fmt.Sprintf("%s line %d: %s", name, number, f.Message), number
		return nil, f
	}
}

// lineReader reads lines into a reused buffer.
type lineReader struct {
	in      *bufio.Reader
	maxLine int // the maximum bytes of a line
	buffer  []byte
}

// next returns a line without its line break, and whether it had one; io.EOF after the last line. The bytes are valid until the next
// call.
func (r *lineReader) next() (text []byte, whole bool, err error) {
	r.buffer = r.buffer[:0]
	for {
		piece, err := r.in.ReadSlice('\n')
		r.buffer = append(r.buffer, piece...)
		switch {
		case len(r.buffer) > r.maxLine:
			return nil, true, fault.New(fault.LimitExceeded, "the line is longer than %d bytes", r.maxLine)
		case err == nil:
			return r.buffer[:len(r.buffer)-1], true, nil
		case errors.Is(err, io.EOF) && len(r.buffer) > 0:
			return r.buffer, false, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, true, err
		}
	}
}

// add adds the line with this number to the recording.
func (c *Cassette) add(byName map[string]*recordedFunction, l line, number int) error {
	switch {
	case l.Salt != "" || l.Settings != nil:
		if l.Salt != "" {
			c.seals = append(c.seals, secret.NewSeal(l.Salt))
		}
		c.setSettings(l.Settings)
		return nil
	case l.Gap > 0:
		c.gaps += l.Gap
		return nil
	case l.Function != nil:
		c.addFunction(byName, l.Function)
		return nil
	case l.State != nil:
		c.states = append(c.states, stateLine{l.Chain, l.State})
		return nil
	}
	fn := c.recorded(byName, l.Fn)
	if effect, err := steps.ParseEffect(l.Effect); err == nil {
		fn.declare(effect)
	}
	if len(c.seals) == 0 {
		c.unsalted = secret.NewSeal(rand.Text())
		c.seals = append(c.seals, c.unsalted)
	}
	one := call{number: number, chain: l.Chain, seal: c.seals[len(c.seals)-1], args: l.Args, result: l.Result, status: l.Status,
		cached: l.Cached, blocks: l.blocks}
	one.hasMarks = markPattern.Match(l.Args) || one.seal == c.unsalted && bytes.Contains(l.Args, []byte(secret.Redacted))
	if l.Error != nil {
		one.err = l.Error.fault()
	}
	var err error
	if one.digest, err = digestOf(l.Args); err != nil {
		return at(err, "/args")
	}
	fn.calls = append(fn.calls, one)
	return nil
}

// recorded returns the function with exactly this name; it adds the function if the name is new.
func (c *Cassette) recorded(byName map[string]*recordedFunction, name string) *recordedFunction {
	fn := byName[name]
	if fn == nil {
		fn = &recordedFunction{name: name}
		byName[name] = fn
		c.functions = append(c.functions, fn)
	}
	return fn
}

// setSettings takes the settings of a line; nil: the line begins a part without settings.
func (c *Cassette) setSettings(settings json.RawMessage) {
	if c.hasSettings && !bytes.Equal(settings, c.settings) {
		c.warnings = append(c.warnings, fault.New(fault.BadRequest,
			"%s: the settings of the configuration changed while it was recorded; the replay takes the last ones", c.name))
	}
	c.settings, c.hasSettings = settings, true
}

func (c *Cassette) addFunction(byName map[string]*recordedFunction, l *functionLine) {
	fn := c.recorded(byName, l.Name)
	if fn.line != nil && !reflect.DeepEqual(fn.line, l) {
		c.warnings = append(c.warnings, fault.New(fault.BadRequest,
			"%s: the function %s changed while it was recorded; the replay takes it as it was last", c.name, l.Name))
	}
	fn.line = l
	for _, match := range markPattern.FindAllSubmatch(l.Defaults, -1) {
		c.missingDigests[string(match[1])] = true
	}
}

// declare records the effect of a line; if lines differ, the most severe counts.
func (fn *recordedFunction) declare(effect steps.Effect) {
	severity := map[steps.Effect]int{steps.Read: 0, steps.Write: 1, steps.Destroy: 2}
	if !fn.declared || severity[effect] > severity[fn.effect] {
		fn.effect = effect
	}
	fn.declared = true
}
