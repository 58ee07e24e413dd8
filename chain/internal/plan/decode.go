package plan

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// maxJSONDepth bounds the levels of nesting in a request; results may be deeper.
const maxJSONDepth = 200

// Envelope is a request whose kind is known, and not yet its fields.
type Envelope struct {
	decoder
	Chain   gjson.Result  // a chain; it does not exist if the request is a fetch, or nothing could be read
	Fetch   *FetchRequest // nil: no fetch
	Warning *fault.Error  // nil: none
}

// ReadEnvelope reads a request that begins at this line of a file.
func ReadEnvelope(text []byte, line int, q *RequestRules) *Envelope {
	e := &Envelope{decoder: decoder{RequestRules: q}}
	compact, f := CompactJSON(text, q.MaxBytes)
	if f != nil {
		e.Faults.Add(fromLine(f, line))
		return e
	}
	if q.TextAsJSON {
		t := textReader{maxBytes: q.MaxBytes}
		compact = t.request(compact)
		e.Warning = t.warning()
		e.Faults.Add(t.faults.List...)
	}
	root := gjson.ParseBytes(compact)
	if !root.IsObject() {
		e.Faults.Add(notAChain(root))
		return e
	}
	at, fetch, ok := findToken(root)
	switch {
	case !ok:
		e.Chain = root
	case root.Get("steps").Exists():
		e.fault(fault.BadRequest, fault.Key(at, budget.TokenField),
			"continuation_token is sent together with steps: send it alone to fetch, or drop it to run the steps")
	default:
		e.Fetch = e.decodeFetch(fetch, at)
	}
	return e
}

// CompactJSON checks that text is one JSON value within the limits and without duplicate keys, and removes white space between tokens.
// Numbers and strings keep their spelling.
func CompactJSON(text []byte, maxBytes int64) ([]byte, *fault.Error) {
	if int64(len(text)) > maxBytes {
		return nil, fault.New(fault.LimitExceeded, "the request has more than %d bytes (limits.maxRequestBytes)", maxBytes)
	}
	if _, deep := rawjson.Outline(text, maxJSONDepth); deep >= 0 {
		f := fault.New(fault.BadJSON, "nested deeper than %d levels", maxJSONDepth)
		f.Line, f.Column = position(text, deep)
		return nil, f
	}
	compact, err := jsontext.AppendFormat(make([]byte, 0, len(text)), text, jsontext.PreserveRawStrings(true),
		jsontext.AllowInvalidUTF8(false))
	if err == nil {
		return compact, nil
	}
	f := fault.New(fault.BadJSON, "not JSON: %v", err)
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		f.Line, f.Column = position(text, int(syntax.ByteOffset))
		f.At = string(syntax.JSONPointer)
		f.Message = lineAndColumn(f) + syntax.Err.Error()
		if len(bytes.TrimSpace(text)) == 0 {
			f.Message = "the request is empty: a chain is a JSON object with steps"
		}
		if rest := text[syntax.ByteOffset:]; len(rest) > 0 && (rest[0] == ']' || rest[0] == '}') &&
			bytes.HasSuffix(bytes.TrimSpace(text[:syntax.ByteOffset]), []byte(",")) {
			f.Message += ": remove the comma before it"
		}
		if errors.Is(err, jsontext.ErrDuplicateName) {
			f.Message += " \"" + syntax.JSONPointer.LastToken() + "\": a key may occur only once in an object"
		}
	}
	f.Err = err
	return nil, f
}

// fromLine shifts the line of a JSON fault, for text that begins at line first of a file. 0 and 1 are the file's first line.
func fromLine(f *fault.Error, first int) *fault.Error {
	rest, placed := strings.CutPrefix(f.Message, lineAndColumn(f)) // placed: the message names the line, and must be changed as well
	if f.Line += max(first, 1) - 1; placed {
		f.Message = lineAndColumn(f) + rest
	}
	return f
}

func lineAndColumn(f *fault.Error) string {
	return "line " + strconv.Itoa(f.Line) + ", column " + strconv.Itoa(f.Column) + ": "
}

// findToken looks for a continuation token at the top of the arguments or in `params`. It returns the object that holds the token, and the
// JSON Pointer of that object.
func findToken(root gjson.Result) (at string, holder gjson.Result, ok bool) {
	if !strings.Contains(root.Raw, budget.TokenField) && !strings.Contains(root.Raw, `\u`) { // the key may be escaped
		return "", root, false
	}
	if token := root.Get(budget.TokenField); token.Exists() && token.Type != gjson.Null {
		return "", root, true
	}
	params := root.Get("params")
	token := params.Get(budget.TokenField) // in a chain, this may be the schema of a param with that name
	return "/params", params, token.Type == gjson.String && strings.HasPrefix(token.Str, budget.TokenPrefix)
}

// decoder reads the fields of a request.
type decoder struct {
	*RequestRules
	Faults Faults
}

func (d *decoder) fault(code fault.Code, at, format string, args ...any) {
	d.Faults.Add(fault.New(code, format, args...).Under(at))
}

func (d *decoder) wrongType(at, want string, got gjson.Result) {
	if got.Type == gjson.String && d.Faults.pointers[at] { // a text whose JSON cannot be read
		return
	}
	d.fault(fault.BadRequest, at, "must be %s%s", want, decode.InsteadOf(want, got))
}

// refuseWithoutJournal refuses a field of a chain that needs a journal, for an engine that has none.
func (d *decoder) refuseWithoutJournal(name string) {
	d.fault(fault.NotSupported, "/"+name, "%s needs a journal: leave it out", name)
}

func (d *decoder) text(f *field, v gjson.Result, at string) string {
	if v.Type != gjson.String {
		d.wrongType(fault.Key(at, f.name), "a string", v)
	}
	return v.Str
}

// optionalText reads a text. It returns nil for a value that is not a text, which is a fault, so that nil differs from an empty text. For
// an expression, `true` and `false` need no quotes.
func (d *decoder) optionalText(f *field, v gjson.Result, at string) *string {
	switch {
	case v.IsBool() && f.kind == "expression":
		word := v.Raw
		return &word
	case v.Type != gjson.String && f.name == "forEach":
		d.fault(fault.BadRequest, fault.Key(at, f.name),
			`must be a string, not %s: a reference such as "$0.items", or an expression that gives an array, such as "[1, 2]"`, decode.Describe(v))
		list := "[]" // the other fields of the step may use $item
		return &list
	}
	if text := d.text(f, v, at); v.Type == gjson.String {
		return &text
	}
	return nil
}

func (d *decoder) boolean(f *field, v gjson.Result, at string) *bool {
	if !v.IsBool() {
		d.wrongType(fault.Key(at, f.name), "true or false", v)
		return nil
	}
	b := v.Bool()
	return &b
}

// maxInteger is greater than any limit.
const maxInteger = math.MaxInt32

// integer reads a whole number that fits an int32; 1e3 and 1.0 are whole. For any other value it adds a fault and returns nil. The fault of
// a page or page_size, which must also be at least 1, is bad_page.
func (d *decoder) integer(f *field, v gjson.Result, at string) *int {
	n := int(v.Num)
	high := v.Type == gjson.Number && v.Num > maxInteger
	whole := v.Type == gjson.Number && float64(n) == v.Num && n >= math.MinInt32
	switch {
	case f.kind == "page" && (high || !whole || n < 1):
		want := "a whole number from 1"
		if high {
			want += " to " + strconv.Itoa(maxInteger)
		}
		d.fault(fault.BadPage, fault.Key(at, f.name), "must be %s, not %s", want, decode.Describe(v))
	case high:
		d.wrongType(fault.Key(at, f.name), "at most "+strconv.Itoa(maxInteger), v)
	case !whole:
		d.wrongType(fault.Key(at, f.name), "a whole number", v)
	default:
		return &n
	}
	return nil
}

// raw returns a value as it is written; nil: it must be an object and is not, which is a fault.
func (d *decoder) raw(f *field, v gjson.Result, at string) []byte {
	if f.kind != "any" && !v.IsObject() {
		d.wrongType(fault.Key(at, f.name), "an object", v)
		return nil
	}
	return []byte(v.Raw)
}

func (d *decoder) texts(v gjson.Result, at string) []string {
	if !v.IsArray() {
		d.wrongType(at, "an array of strings", v)
		return nil
	}
	var texts []string
	v.ForEach(func(_, element gjson.Result) bool {
		if element.Type != gjson.String {
			d.wrongType(fault.Index(at, len(texts)), "a string", element)
		}
		texts = append(texts, element.Str)
		return true
	})
	return texts
}
