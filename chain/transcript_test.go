package chain_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"
	"golang.org/x/tools/txtar"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/transcript"
	"github.com/onecall-mcp/onecall/steps"
)

// TestTranscripts runs the chains of ../testdata/chain in fake time: `NAME/chain` is a request, `NAME/chains` are several to one engine,
// one a line, and `NAME/call` are calls of one function, as chain.Call in JSON. `NAME/answer` has the answers that they must get, a line
// each, and `NAME/calls` the calls that must have reached the functions, in order. In a request, oc1_TOKEN stands for the last token of an
// answer, FILLER and "OBJECTS n" for long values, and a word before it for the ID of its caller.
//
// A name, or the archive for all of its names, may also have: `options`, chain.Options as JSON; `caller`, the chain.Caller as JSON;
// `hidden`, functions that the caller may not use; `cancel`, when the caller leaves; `functions`, which of kinds to use; and `store`, what
// is wrong with the result store.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	schemas := append(compileSchemas(t), compileSchema(t, chain.AnswerSchema(), "#/$defs/lean"), compileSchema(t, chain.AnswerSchema(), "#/$defs/change"))
	transcript.Each(t, "../testdata/chain/*.txtar", func(t *testing.T, archive *txtar.Archive) {
		for _, name := range namesOf(archive, "/chain", "/chains", "/call") {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					(&transcriptRun{t: t, archive: archive, name: name, schemas: schemas}).run()
				})
			})
		}
	})
}

// transcriptRun is the requests of one name of an archive, to an engine of their own.
type transcriptRun struct {
	t       *testing.T
	archive *txtar.Archive
	name    string
	schemas []*jsonschema.Schema // the schemas of a request, an answer, a lean form, and a change
	options chain.Options
	caller  chain.Caller
	engine  *chain.Engine
	world   world
}

// setting returns a setting of the name, or else of the archive; nil: neither has it.
func (r *transcriptRun) setting(what string) *txtar.File {
	if f := section(r.archive, r.name+"/"+what); f != nil {
		return f
	}
	return section(r.archive, what)
}

// word returns a setting of one word, or otherwise if there is none.
func (r *transcriptRun) word(what, otherwise string) string {
	if f := r.setting(what); f != nil {
		return strings.TrimSpace(string(f.Data))
	}
	return otherwise
}

// open makes the engine that the settings describe.
func (r *transcriptRun) open() {
	decode(r.t, r.setting("options"), &r.options)
	decode(r.t, r.setting("caller"), &r.caller)
	kind := kinds[r.word("functions", "test")]
	registry, err := steps.NewRegistry(r.world.recorded(kind.functions(&r.world)), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if kind.registry != nil {
		registry = kind.registry(registry)
	}
	if f := r.setting("hidden"); f != nil {
		hidden := lines(f.Data)
		r.caller.Functions = registry.View(func(s *steps.Spec) bool { return !slices.Contains(hidden, s.Name) })
	}
	o := r.options
	o.Rung = kind.rung
	store := r.word("store", "")
	if failure, fails := failures[store]; fails {
		if o.Results, err = budget.NewResults(failingStore{failure}, nil); err != nil {
			r.t.Fatal(err)
		}
	}
	r.engine = engineOn(r.t, registry, o, store == "")
}

func (r *transcriptRun) run() {
	defer time.Sleep(2 * time.Hour) // functions that ignore their context end, so that the bubble can end
	r.open()
	var all []byte
	token := ""
	for _, request := range r.requests() {
		caller := r.caller
		if id, rest, hasID := strings.Cut(request, " "); hasID && !strings.ContainsAny(id, "{[\"") {
			caller.ID, request = id, rest
		}
		request = strings.ReplaceAll(writeOut(request), "oc1_TOKEN", token)
		answer := r.send(request, &caller)
		if text := tokens.Find(answer.JSON); text != nil {
			token = string(text)
		}
		all = append(all, abbreviate(normalise(answer.JSON))...)
		r.confirm(request, answer)
		r.confirmLean(answer, &caller)
	}
	check(r.t, r.archive, r.name+"/answer", all)
	if calls := section(r.archive, r.name+"/calls"); calls != nil {
		check(r.t, r.archive, r.name+"/calls", []byte(strings.Join(r.world.seen(), "\n")+"\n"))
	}
}

// confirm validates an answer and its faults against the published schema, and a correct request against the other schema.
func (r *transcriptRun) confirm(request string, answer *chain.Answer) {
	if !answer.Text && !json.Valid(answer.JSON) {
		r.t.Errorf("the answer is not JSON: %s", answer.JSON)
	}
	if !answer.OK || bytes.HasPrefix(answer.JSON, []byte(`{"ok":true`)) {
		validate(r.t, r.schemas[1], answer.JSON)
	}
	report := gjson.GetBytes(answer.JSON, "error")
	reported := len(report.Get("faults").Array()) + int(report.Get("more").Int())
	if report.Get("code").Str != string(codeOf(answer)) || reported > len(answer.Faults) {
		r.t.Errorf("code %s with %d faults, but the answer is %s", codeOf(answer), len(answer.Faults), answer.JSON)
	}
	fetches := strings.Contains(request, "continuation_token")
	if answer.OK && section(r.archive, r.name+"/call") == nil && r.options.Hoist == nil && !r.caller.TextAsJSON && !fetches {
		validate(r.t, r.schemas[0], []byte(request))
	}
}

// confirmLean fetches the whole result of an answer in the lean form, or with what has changed.
func (r *transcriptRun) confirmLean(answer *chain.Answer, caller *chain.Caller) {
	got := gjson.ParseBytes(answer.JSON)
	if left := got.Get("left_out.continuation_token"); left.Exists() {
		r.confirmExcerpt(got.Get("result"), left.Raw, caller)
		return
	}
	if got.Get("ok").Exists() {
		got = got.Get("result")
	}
	token := got.Get("continuation_token")
	if !strings.HasPrefix(token.Str, "oc1_") || got.Get("preview").Exists() {
		return
	}
	if got.Get("since").Exists() {
		validate(r.t, r.schemas[3], []byte(got.Raw))
	} else {
		validate(r.t, r.schemas[2], []byte(got.Raw))
	}
	whole := r.engine.Run(r.t.Context(), []byte(`{"lite":true,"mode":"full","continuation_token":`+token.Raw+`}`), caller)
	if size := got.Get("data_size"); !whole.OK || size.Exists() && int(size.Int()) != len(whole.JSON) {
		r.t.Errorf("the full result of %s has %d bytes, want its data_size: %.200s", got.Raw, len(whole.JSON), whole.JSON)
	}
}

// confirmExcerpt fetches the whole result of an answer that shows a part, which must hold at the same paths what is shown.
func (r *transcriptRun) confirmExcerpt(shown gjson.Result, token string, caller *chain.Caller) {
	whole := r.engine.Run(r.t.Context(), []byte(`{"lite":true,"mode":"full","continuation_token":`+token+`}`), caller)
	if !whole.OK || len(whole.JSON) <= len(shown.Raw) {
		r.t.Errorf("the whole result is %.200s, and the answer shows %.200s", whole.JSON, shown.Raw)
	}
	confirmPaths(r.t, "result", shown, gjson.ParseBytes(whole.JSON))
}

// confirmPaths reports what is shown and is not the same in the whole value.
func confirmPaths(t *testing.T, at string, shown, whole gjson.Result) {
	switch {
	case shown.IsObject():
		shown.ForEach(func(key, value gjson.Result) bool {
			confirmPaths(t, at+"."+key.Str, value, whole.Map()[key.Str])
			return true
		})
	case shown.IsArray():
		for i, value := range shown.Array() {
			confirmPaths(t, fmt.Sprintf("%s[%d]", at, i), value, whole.Get(strconv.Itoa(i)))
		}
	case shown.Raw != whole.Raw:
		t.Errorf("%s is %s, and shown as %s", at, whole.Raw, shown.Raw)
	}
}

func (r *transcriptRun) requests() []string {
	if f := section(r.archive, r.name+"/chain"); f != nil {
		return []string{string(f.Data)}
	}
	if f := section(r.archive, r.name+"/chains"); f != nil {
		return lines(f.Data)
	}
	return lines(section(r.archive, r.name+"/call").Data)
}

// send runs a chain or makes a call. The caller leaves when the transcript says so.
func (r *transcriptRun) send(request string, caller *chain.Caller) *chain.Answer {
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	if text := r.word("cancel", ""); text != "" {
		after, err := time.ParseDuration(text)
		if err != nil {
			r.t.Fatal(err)
		}
		time.AfterFunc(after, cancel)
	}
	if section(r.archive, r.name+"/call") == nil {
		return r.engine.Run(ctx, []byte(request), caller)
	}
	var call struct {
		chain.Call
		Args json.RawMessage
		Text string // the text to send in place of Args, if it is not JSON
	}
	if err := json.Unmarshal([]byte(request), &call); err != nil {
		r.t.Fatal(err)
	}
	call.Call.Args = call.Args
	if call.Text != "" {
		call.Call.Args = []byte(call.Text)
	}
	return r.engine.Call(ctx, &call.Call, caller)
}

func section(archive *txtar.Archive, name string) *txtar.File {
	for i := range archive.Files {
		if archive.Files[i].Name == name {
			return &archive.Files[i]
		}
	}
	return nil
}

// namesOf returns the names of an archive's sections with one of these endings.
func namesOf(archive *txtar.Archive, endings ...string) (names []string) {
	for _, f := range archive.Files {
		for _, ending := range endings {
			if name, ok := strings.CutSuffix(f.Name, ending); ok {
				names = append(names, name)
			}
		}
	}
	return names
}

// decode decodes a section, if it exists, into a value.
func decode(t *testing.T, f *txtar.File, value any) {
	t.Helper()
	if f == nil {
		return
	}
	if err := json.Unmarshal(f.Data, value); err != nil {
		t.Fatal(f.Name, err)
	}
}

// lines returns the lines of a section; an empty section has none.
func lines(text []byte) []string {
	if len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// check compares a section with got. With -update, it writes the section next to the others of its name.
func check(t *testing.T, archive *txtar.Archive, name string, got []byte) {
	t.Helper()
	want := section(archive, name)
	if want == nil {
		if !transcript.Updating() {
			t.Fatalf("the transcript lacks %s; got:\n%s", name, got)
		}
		group, _, _ := strings.Cut(name, "/")
		at := len(archive.Files)
		for i := range archive.Files {
			if strings.HasPrefix(archive.Files[i].Name, group+"/") {
				at = i + 1
			}
		}
		archive.Files = slices.Insert(archive.Files, at, txtar.File{Name: name, Data: got})
		return
	}
	if transcript.Updating() {
		want.Data = got
	}
	if !bytes.Equal(want.Data, got) {
		t.Errorf("%s:\ngot  %s\nwant %s", name, got, want.Data)
	}
}

var tokens = regexp.MustCompile(`oc1_\w+`)

// normalise removes from an answer what differs from run to run.
func normalise(answer []byte) []byte {
	return append(tokens.ReplaceAll(answer, []byte("oc1_TOKEN")), '\n')
}

// filler is a text of more than 100 tokens.
var filler = strings.Repeat("a word and another, ", 60)

var long = regexp.MustCompile(`"OBJECTS (\d+)"`)

// writeOut expands the long values of a request.
func writeOut(request string) string {
	request = long.ReplaceAllStringFunc(request, func(text string) string {
		n, _ := strconv.Atoi(long.FindStringSubmatch(text)[1])
		return objects(n)
	})
	return strings.ReplaceAll(request, "FILLER", filler)
}

// abbreviate replaces the long values of an answer.
func abbreviate(answer []byte) []byte {
	answer = bytes.ReplaceAll(answer, []byte(filler), []byte("FILLER"))
	for _, n := range []int{60, 20, 9, 4, 3} {
		answer = bytes.ReplaceAll(answer, []byte(objects(n)), fmt.Appendf(nil, `"OBJECTS %d"`, n))
	}
	return answer
}

// compileSchemas compiles the published schemas of a request and of an answer.
func compileSchemas(t *testing.T) []*jsonschema.Schema {
	t.Helper()
	return []*jsonschema.Schema{compileSchema(t, chain.ChainSchema(), ""), compileSchema(t, chain.AnswerSchema(), "")}
}

// compileSchema compiles a schema, or the part of it at a fragment.
func compileSchema(t *testing.T, text []byte, fragment string) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	must(t, err)
	c := jsonschema.NewCompiler()
	must(t, c.AddResource("schema.json", document))
	compiled, err := c.Compile("schema.json" + fragment)
	must(t, err)
	return compiled
}

func validate(t *testing.T, s *jsonschema.Schema, text []byte) {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err == nil {
		err = s.Validate(value)
	}
	if err != nil {
		t.Errorf("%s does not match the published schema: %v", text, err)
	}
}
