package plan

import (
	"bytes"
	"errors"
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
		e.Fault(fault.BadRequest, fault.Key(at, budget.TokenField),
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
	compact, f := decode.Compact(text)
	if f == nil {
		return compact, nil
	}
	var syntax *jsontext.SyntacticError
	if errors.As(f.Err, &syntax) {
		f.Line, f.Column = position(text, f.Offset)
		f.Message = lineAndColumn(f) + strings.TrimPrefix(f.Message, "not JSON: ")
		if len(bytes.TrimSpace(text)) == 0 {
			f.Message = "the request is empty: a chain is a JSON object with steps"
		}
		if rest := text[f.Offset:]; len(rest) > 0 && (rest[0] == ']' || rest[0] == '}') &&
			bytes.HasSuffix(bytes.TrimSpace(text[:f.Offset]), []byte(",")) {
			f.Message += ": remove the comma before it"
		}
		f.Offset = 0
	}
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
	decode.Reader
	hasShort bool // a step or an undo is written in the short form
}

// refuseWithoutJournal refuses a field of a chain that needs a journal, for an engine that has none.
func (d *decoder) refuseWithoutJournal(name string) {
	d.Fault(fault.NotSupported, "/"+name, "%s needs a journal: leave it out", name)
}
