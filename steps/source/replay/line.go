package replay

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/schema"
)

// line is one line of a recording: a call, a function, the salt of the following digests with the settings of the configuration, or a gap.
// A call has either Result or Error. Encoding keeps the bytes of Args and Result, except for white space between tokens.
type line struct {
	Salt     string          `json:"salt,omitempty"`
	Settings json.RawMessage `json:"settings,omitempty"` // see Recorder.WithSettings
	Gap      int             `json:"gap,omitempty"`      // lines that could not be written here
	Function *functionLine   `json:"function,omitempty"`
	State    json.RawMessage `json:"state,omitempty"` // the values of $state that the chain reads; see Recorder.State

	Fn     string          `json:"fn,omitempty"`
	Args   json.RawMessage `json:"args,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *failure        `json:"error,omitempty"`
	Status int             `json:"status,omitempty"` // the HTTP status of a success
	Cached bool            `json:"cached,omitempty"` // the call cache answered
	Effect string          `json:"effect,omitempty"`
	Chain  string          `json:"chain,omitempty"`

	Blocks []json.RawMessage `json:"blocks,omitempty"` // those of Result, where their digests stand for their handles
	blocks []recordedBlock   // Blocks as they were read
}

type failure struct {
	Code      string          `json:"code"`
	Message   string          `json:"message"`
	At        string          `json:"at,omitempty"`
	Status    int             `json:"status,omitempty"`
	Outcome   string          `json:"outcome,omitempty"`
	Body      json.RawMessage `json:"body,omitempty"`
	Available []string        `json:"available,omitempty"`
	Nearest   []string        `json:"nearest,omitempty"`
}

// functionLine describes a function, so that a replay needs no source.
type functionLine struct {
	Name         string            `json:"name"`
	Effect       string            `json:"effect,omitempty"`
	Declared     bool              `json:"declared,omitempty"`
	Idempotent   bool              `json:"idempotent,omitempty"`
	Deletes      bool              `json:"deletes,omitempty"`
	Heavy        string            `json:"heavy,omitempty"`
	TimeoutMs    int64             `json:"timeoutMs,omitempty"`
	Redacted     bool              `json:"redacted,omitempty"` // the function has a Redact, so faults do not show argument values
	InputSchema  json.RawMessage   `json:"inputSchema,omitempty"`
	OutputSchema json.RawMessage   `json:"outputSchema,omitempty"`
	Aliases      map[string]string `json:"aliases,omitempty"`
	Defaults     json.RawMessage   `json:"defaults,omitempty"`
	Undo         *undoCall         `json:"undo,omitempty"`
	Idempotency  *idempotency      `json:"idempotencyKey,omitempty"`
	Result       string            `json:"result,omitempty"` // the form of the result that the configuration chose
	Output       string            `json:"output,omitempty"` // "ignore": it left the output schema out
	Answer       *steps.Excerpt    `json:"answer,omitempty"`
	Fields       string            `json:"fields,omitempty"`
	Gives        json.RawMessage   `json:"gives,omitempty"` // as steps.ParseGives reads it
	Takes        json.RawMessage   `json:"takes,omitempty"` // as steps.ParseTakes reads it
}

type undoCall struct {
	Fn   string          `json:"fn"`
	Args json.RawMessage `json:"args,omitempty"`
}

type idempotency struct {
	Header   string `json:"header,omitempty"`
	Argument string `json:"arg,omitempty"`
	TTLMs    int64  `json:"ttlMs,omitempty"`
}

func lineOf(spec *steps.Spec) *functionLine {
	l := &functionLine{
		Name: spec.Name, Effect: spec.Effect.String(), Declared: spec.EffectDeclared, Idempotent: spec.Idempotent, Deletes: spec.Deletes,
		Heavy: spec.Heavy, TimeoutMs: spec.Timeout.Milliseconds(), Redacted: spec.Redact != nil,
		InputSchema: spec.Input, OutputSchema: spec.Output, Aliases: spec.Aliases, Defaults: spec.Defaults, Result: spec.Result,
		Answer: spec.Answer, Fields: spec.Fields, Gives: steps.GivesJSON(spec.Gives), Takes: steps.TakesJSON(spec.Takes),
	}
	if u := spec.Undo; u != nil {
		l.Undo = &undoCall{u.Function, u.Args}
	}
	if i := spec.Idempotency; i != nil {
		l.Idempotency = &idempotency{i.Header, i.Argument, i.TTL.Milliseconds()}
	}
	if spec.OutputIgnored {
		l.Output = outputIgnored
	}
	return l
}

// spec returns the function as a replay without its source offers it.
func (l *functionLine) spec() steps.Spec {
	s := steps.Spec{Name: l.Name, Idempotent: l.Idempotent, Deletes: l.Deletes, Input: l.InputSchema, Output: l.OutputSchema}
	l.configure(&s)
	return s
}

// configure sets in a function's spec what the line has of that which a configuration may set. Marks in the defaults become strings, which
// a schema that requires a string accepts.
func (l *functionLine) configure(s *steps.Spec) {
	if l.Effect != "" {
		s.Effect, _ = steps.ParseEffect(l.Effect) // checked when the line was read
		s.EffectDeclared = l.Declared
	}
	s.Heavy, s.Fields = cmp.Or(l.Heavy, s.Heavy), cmp.Or(l.Fields, s.Fields)
	s.Timeout = cmp.Or(time.Duration(l.TimeoutMs)*time.Millisecond, s.Timeout)
	if l.Aliases != nil {
		s.Aliases = l.Aliases
	}
	if l.Defaults != nil {
		s.Defaults = quoteMarks(l.Defaults)
	}
	if l.Answer != nil {
		s.Answer = l.Answer
	}
	if l.Gives != nil {
		s.Gives, _ = steps.ParseGives(l.Gives) // checked when the line was read
	}
	if l.Takes != nil {
		s.Takes, _ = steps.ParseTakes(l.Takes)
	}
	if u := l.Undo; u != nil {
		s.Undo = &steps.Undo{Function: u.Fn, Args: u.Args}
	}
	if i := l.Idempotency; i != nil {
		s.Idempotency = &steps.Idempotency{Header: i.Header, Argument: i.Argument, TTL: time.Duration(i.TTLMs) * time.Millisecond}
	}
	if ignored := l.Output == outputIgnored; l.Result != s.Result || ignored != s.OutputIgnored {
		s.Result, s.OutputIgnored, s.Output = l.Result, ignored, l.OutputSchema // the recorded results have that form
	}
}

// encode returns the line with its line break.
func (l *line) encode() ([]byte, error) {
	encoded, err := rawjson.Marshal(l)
	return append(encoded, '\n'), err
}

// The fields of a line, its error and its function.
var (
	lineFields = []string{"fn", "args", "result", "error", "status", "cached", "effect", "chain", "blocks", "function", "salt",
		"settings", "gap", "state"}
	errorFields    = []string{"code", "message", "at", "status", "outcome", "body", "available", "nearest"}
	functionFields = []string{"name", "effect", "declared", "idempotent", "deletes", "heavy", "timeoutMs", "redacted", "inputSchema",
		"outputSchema", "aliases", "defaults", "undo", "idempotencyKey", "result", "output", "answer", "fields", "gives", "takes"}
)

// outputIgnored is the value of output in a configuration and in a line.
const outputIgnored = "ignore"

// parseLine parses one line strictly. The result shares no memory with text.
func parseLine(text []byte) (l line, err error) {
	compact, err := schema.Compact(text)
	if err != nil {
		return l, err
	}
	fields, err := members(gjson.ParseBytes(compact), "", lineFields)
	if err != nil {
		return l, err
	}
	if salt, settings := fields["salt"], fields["settings"]; salt.Exists() && settings.Exists() && len(fields) == 2 {
		err := l.parseOther("salt", salt)
		if err == nil {
			err = l.parseOther("settings", settings)
		}
		return l, err
	}
	if state, ok := fields["state"]; ok {
		if l.Chain, err = textField(fields, "chain", "", false); err != nil {
			return l, err
		}
		delete(fields, "chain")
		if l.State = json.RawMessage(state.Raw); !state.IsObject() {
			return l, at(fault.New(fault.BadRequest, "this must be an object"), "/state")
		}
	}
	for _, key := range []string{"function", "salt", "settings", "gap", "state"} {
		if _, ok := fields[key]; ok && len(fields) > 1 {
			return l, fault.New(fault.BadRequest, "a line with %s must have no other members", key)
		} else if ok {
			return l, l.parseOther(key, fields[key])
		}
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
	if status := fields["status"]; status.Exists() {
		if err := json.Unmarshal([]byte(status.Raw), &l.Status); err != nil {
			return l, at(fault.New(fault.BadRequest, "status must be a whole number"), "/status")
		}
	}
	l.Cached = fields["cached"].Bool()
	if l.blocks, err = parseBlocks(fields["blocks"]); err != nil {
		return l, err
	}
	if answered {
		l.Result = json.RawMessage(result.Raw)
		return l, nil
	}
	l.Error, err = parseFailure(failed)
	return l, err
}

// parseOther parses a member of a line that is not a call.
func (l *line) parseOther(kind string, value gjson.Result) error {
	if kind == "settings" && !value.IsObject() {
		return at(fault.New(fault.BadRequest, "this must be an object"), "/settings")
	}
	if kind == "function" {
		fields, err := members(value, "/function", functionFields)
		if err == nil {
			_, err = textField(fields, "name", "/function", true)
		}
		if err == nil {
			err = checkLabels(fields)
		}
		if err == nil && fields["effect"].Exists() {
			if _, err = steps.ParseEffect(fields["effect"].Str); err != nil {
				err = at(err, "/function/effect")
			}
		}
		if err != nil {
			return err
		}
	}
	if err := json.Unmarshal([]byte(`{"`+kind+`":`+value.Raw+`}`), l); err != nil {
		return at(fault.New(fault.BadRequest, "this is not what a recorder writes: %v", err), "/"+kind)
	}
	return nil
}

// checkLabels checks the labels and roles of a function.
func checkLabels(fields map[string]gjson.Result) error {
	var faults []*fault.Error
	place := ""
	if gives := fields["gives"]; gives.Exists() {
		_, faults = steps.ParseGives([]byte(gives.Raw))
		place = "/function/gives"
	}
	if takes := fields["takes"]; takes.Exists() && len(faults) == 0 {
		_, faults = steps.ParseTakes([]byte(takes.Raw))
		place = "/function/takes"
	}
	if len(faults) == 0 {
		return nil
	}
	return at(faults[0], place+faults[0].At)
}

func parseFailure(value gjson.Result) (f *failure, err error) {
	fields, err := members(value, "/error", errorFields)
	if err != nil {
		return nil, err
	}
	if _, err = textField(fields, "code", "/error", true); err != nil {
		return nil, err
	}
	if _, err = textField(fields, "message", "/error", false); err != nil {
		return nil, err
	}
	f = &failure{}
	if err := json.Unmarshal([]byte(value.Raw), f); err != nil {
		return nil, at(fault.New(fault.BadRequest, "this is not what a recorder writes: %v", err), "/error")
	}
	return f, nil
}

// members returns the members of an object, all of which must be known.
func members(object gjson.Result, pointer string, known []string) (map[string]gjson.Result, error) {
	if !object.IsObject() {
		return nil, at(fault.New(fault.BadRequest, "this must be an object"), pointer)
	}
	fields := map[string]gjson.Result{}
	var err error
	object.ForEach(func(key, value gjson.Result) bool {
		if _, twice := fields[key.Str]; twice {
			err = at(fault.New(fault.BadJSON, "the key %s occurs twice", fault.Short(key.Raw)), fault.Key(pointer, key.Str))
		} else if !slices.Contains(known, key.Str) {
			err = at(decode.Unknown("field", key.Str, "", known), pointer)
		}
		fields[key.Str] = value
		return err == nil
	})
	return fields, err
}

// textField returns the string member with this name; "" if it is missing and not required. A required one must not be empty.
func textField(fields map[string]gjson.Result, name, pointer string, required bool) (string, error) {
	value, ok := fields[name]
	switch {
	case !ok && !required:
		return "", nil
	case !ok:
		return "", at(fault.New(fault.BadRequest, "the field %s is missing", name), pointer)
	case value.Type != gjson.String || required && value.Str == "":
		return "", at(fault.New(fault.BadRequest, "%s must be a string that is not empty", name), fault.Key(pointer, name))
	}
	return strings.Clone(value.Str), nil
}

// at sets the position of a coded error.
func at(err error, pointer string) error {
	if f, ok := fault.As(err); ok {
		return f.Under(pointer)
	}
	return err
}
