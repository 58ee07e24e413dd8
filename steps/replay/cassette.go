package replay

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// maxLine bounds one line of a recording, in bytes with its line break: the longest result, arguments as long, and a bit.
const maxLine = 2*steps.DefaultMaxResultBytes + 1<<20

// Cassette is a recording that was read: what each function was called with and answered. It does not change, and many
// goroutines may use it.
type Cassette struct {
	// Unknown gives what is taken in the place of a function that only the recording knows, such as one with default
	// arguments; nil: the function as it is. It must be set before Registry is called.
	Unknown func(steps.Function) steps.Function

	name      string
	functions []*recorded // in the order in which the file names them first
}

// recorded holds the calls of one function, under the one spelling of its name.
type recorded struct {
	name     string
	effect   steps.Effect
	declared bool // a line said the effect
	calls    []call
}

// call is one line of the file.
type call struct {
	number int // of the line, from 1
	chain  string
	args   []byte
	digest digest
	hashes []uint64 // of the members of args; nil before they were compared
	result []byte
	err    *fault.Error // when result is nil
}

// digest stands for arguments: equal JSON values have equal digests.
type digest [sha256.Size]byte

func digestOf(args []byte) (d digest, err error) {
	text, err := appendCanonical(make([]byte, 0, 256), args)
	if err != nil {
		return d, err
	}
	return sha256.Sum256(text), nil
}

// Open reads the recording of that path. Codes: bad_request for a file that cannot be read, else those of Read.
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

// Read reads a recording line by line; name is what errors call it. Empty lines are skipped, and the last line may lack
// its line break. The first malformed line is an error with its number in Line: bad_json, bad_request, unknown_field, or
// limit_exceeded for one above 129 MiB.
func Read(r io.Reader, name string) (*Cassette, error) {
	c := &Cassette{name: name}
	byName := map[string]*recorded{}
	lines := lineReader{in: bufio.NewReaderSize(r, 64<<10), maxLine: maxLine}
	for number := 1; ; number++ {
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
			continue
		}
		f, ok := fault.As(err)
		if !ok {
			f = unreadable(name, err)
		}
		if f.Code == fault.BadJSON && !whole {
			f.Message = "the last line was not written to its end: delete it or record again (" + f.Message + ")"
		}
		f.Message, f.Line = fmt.Sprintf("%s line %d: %s", name, number, f.Message), number
		return nil, f
	}
}

// lineReader reads lines into a buffer that it uses again.
type lineReader struct {
	in      *bufio.Reader
	maxLine int // in bytes
	buffer  []byte
}

// next returns a line without its line break, and whether it had one. The bytes are good until the next call.
func (r *lineReader) next() (text []byte, whole bool, err error) {
	r.buffer = r.buffer[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		r.buffer = append(r.buffer, part...)
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

// fields of a line and of its error.
var (
	lineFields  = []string{"fn", "args", "result", "error", "effect", "chain"}
	errorFields = []string{"code", "message"}
)

// parseLine reads one line strictly. The line that it returns shares nothing with text.
func parseLine(text []byte) (l line, err error) {
	compact, err := steps.Compact(text)
	if err != nil {
		return l, err
	}
	fields, err := members(gjson.ParseBytes(compact), "", lineFields)
	if err != nil {
		return l, err
	}
	if l.Fn, err = textField(fields, "fn", "", true); err != nil {
		return l, err
	}
	if l.Chain, err = textField(fields, "chain", "", false); err != nil {
		return l, err
	}
	if l.Effect, err = textField(fields, "effect", "", false); err != nil {
		return l, err
	}
	if l.Effect != "" {
		if _, err := steps.ParseEffect(l.Effect); err != nil {
			return l, at(err, "/effect")
		}
	}
	l.Args = json.RawMessage("{}")
	if args, ok := fields["args"]; ok {
		if !args.IsObject() {
			return l, at(fault.New(fault.BadRequest, "args must be an object"), "/args")
		}
		l.Args = json.RawMessage(args.Raw)
	}
	result, answered := fields["result"]
	failed, failing := fields["error"]
	if answered == failing {
		return l, fault.New(fault.BadRequest, "a line holds either result or error")
	}
	if answered {
		l.Result = json.RawMessage(result.Raw)
		return l, nil
	}
	l.Error, err = parseFailure(failed)
	return l, err
}

func parseFailure(value gjson.Result) (f *failure, err error) {
	fields, err := members(value, "/error", errorFields)
	if err != nil {
		return nil, err
	}
	f = &failure{}
	if f.Code, err = textField(fields, "code", "/error", true); err != nil {
		return nil, err
	}
	if f.Message, err = textField(fields, "message", "/error", false); err != nil {
		return nil, err
	}
	return f, nil
}

// members gives the members of an object, all of which must be known.
func members(object gjson.Result, place string, known []string) (map[string]gjson.Result, error) {
	if !object.IsObject() {
		return nil, at(fault.New(fault.BadRequest, "this must be an object"), place)
	}
	fields := map[string]gjson.Result{}
	var err error
	object.ForEach(func(key, value gjson.Result) bool {
		if _, twice := fields[key.Str]; twice {
			err = at(fault.New(fault.BadJSON, "the key %s stands twice", shorten(key.Raw)), fault.Key(place, key.Str))
		} else if !slices.Contains(known, key.Str) {
			f := fault.New(fault.UnknownField, "there is no field %s here: the fields are %s", shorten(key.Raw), strings.Join(known, ", "))
			f.Available, f.Nearest = known, fault.Nearest(key.Str, known, 1)
			err = at(f, fault.Key(place, key.Str))
		}
		fields[key.Str] = value
		return err == nil
	})
	return fields, err
}

func textField(fields map[string]gjson.Result, name, place string, required bool) (string, error) {
	value, ok := fields[name]
	switch {
	case !ok && !required:
		return "", nil
	case !ok:
		return "", at(fault.New(fault.BadRequest, "the field %s is missing", name), place)
	case value.Type != gjson.String || required && value.Str == "":
		return "", at(fault.New(fault.BadRequest, "%s must be a string that is not empty", name), fault.Key(place, name))
	}
	return strings.Clone(value.Str), nil
}

// at puts a place to a coded error.
func at(err error, place string) error {
	if f, ok := fault.As(err); ok {
		return f.Under(place)
	}
	return err
}

func (c *Cassette) add(byName map[string]*recorded, l line, number int) error {
	fn := byName[l.Fn]
	if fn == nil {
		fn = &recorded{name: l.Fn}
		byName[l.Fn] = fn
		c.functions = append(c.functions, fn)
	}
	if effect, err := steps.ParseEffect(l.Effect); err == nil {
		fn.declare(effect)
	}
	one := call{number: number, chain: l.Chain, args: l.Args, result: l.Result}
	if l.Error != nil {
		one.err = &fault.Error{Code: fault.Code(l.Error.Code), Message: l.Error.Message}
		if !slices.Contains(fault.Codes(), one.err.Code) {
			one.err.Code = fault.FunctionFailed
		}
	}
	var err error
	if one.digest, err = digestOf(l.Args); err != nil {
		return at(err, "/args")
	}
	fn.calls = append(fn.calls, one)
	return nil
}

// declare notes the effect that a line says; where lines differ, the gravest counts.
func (fn *recorded) declare(effect steps.Effect) {
	gravity := map[steps.Effect]int{steps.Read: 0, steps.Write: 1, steps.Destroy: 2}
	if !fn.declared || gravity[effect] > gravity[fn.effect] {
		fn.effect = effect
	}
	fn.declared = true
}

// shorten cuts a text for a message, between characters.
func shorten(text string) string {
	const limit = 200
	if len(text) <= limit {
		return text
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
