package chain_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"
	"golang.org/x/tools/txtar"

	"github.com/onecall-mcp/onecall/chain"
)

var update = flag.Bool("update", false, "rewrite the answers and calls of the transcripts")

// TestTranscripts runs the chains of ../testdata/chain in fake time: `NAME/chain` is a request, `NAME/chains` are several to one engine, one
// a line, and `NAME/call` are calls of one function, as chain.Call in JSON. `NAME/answer` is what they must be answered, a line each, and
// `NAME/calls` the calls that must have reached the functions, in order. In a request, oc1_TOKEN stands for the last token of an answer, and
// a word before it for the ID of its caller. `NAME/options` holds chain.Options, and `NAME/caller` the chain.Caller as JSON; `NAME/hidden`
// names functions that the caller may not use, `NAME/cancel` is when it goes, and `NAME/functions` says which of functionsOf there are.
// Every answer is held against the published schema, every request that compiles against the other.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	schemas := compileSchemas(t)
	eachArchive(t, "../testdata/chain/*.txtar", func(t *testing.T, archive *txtar.Archive) {
		for _, name := range namesOf(archive, "/chain", "/chains", "/call") {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { transcript(t, archive, name, schemas) })
			})
		}
	})
}

// eachArchive runs a test for each archive, side by side, and writes it again with -update.
func eachArchive(t *testing.T, pattern string, run func(*testing.T, *txtar.Archive)) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("nothing is %s: %v", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			run(t, archive)
			if *update {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func transcript(t *testing.T, archive *txtar.Archive, name string, schemas [2]*jsonschema.Schema) {
	defer time.Sleep(2 * time.Hour) // what ignores its context ends, and with it the bubble
	var o chain.Options
	decode(t, archive, name+"/options", &o)
	var caller chain.Caller
	decode(t, archive, name+"/caller", &caller)
	w := &world{}
	functions := w.recorded(functionsOf["test"](w))
	if f := section(archive, name+"/functions"); f != nil {
		functions = w.recorded(functionsOf[strings.TrimSpace(string(f.Data))](w))
	}
	e := engineOf(t, functions, o, true)
	if hidden := section(archive, name+"/hidden"); hidden != nil {
		caller.Functions = viewWithout(t, functions, lines(hidden.Data)...)
	}
	var all []byte
	token := ""
	for _, request := range requestsOf(archive, name) {
		who := caller
		if id, rest, hasID := strings.Cut(request, " "); hasID && !strings.ContainsAny(id, "{[\"") {
			who.ID, request = id, rest
		}
		request = strings.ReplaceAll(request, "oc1_TOKEN", token)
		answer := send(t, archive, name, e, request, &who)
		if text := tokens.Find(answer.JSON); text != nil {
			token = string(text)
		}
		all = append(all, normalise(answer.JSON)...)
		if !answer.OK || bytes.HasPrefix(answer.JSON, []byte(`{"ok":true`)) {
			validate(t, schemas[1], answer.JSON)
		}
		if !json.Valid(answer.JSON) {
			t.Errorf("the answer is not JSON: %s", answer.JSON)
		}
		report := gjson.GetBytes(answer.JSON, "error")
		if report.Get("code").Str != string(codeOf(answer)) || len(report.Get("faults").Array())+int(report.Get("more").Int()) > len(answer.Faults) {
			t.Errorf("%s and %d faults, and the answer is %s", codeOf(answer), len(answer.Faults), answer.JSON)
		}
		if answer.OK && section(archive, name+"/call") == nil && o.Hoist == nil && !strings.Contains(request, "continuation_token") {
			validate(t, schemas[0], []byte(request))
		}
	}
	check(t, archive, name+"/answer", all)
	if calls := section(archive, name+"/calls"); calls != nil {
		check(t, archive, name+"/calls", []byte(strings.Join(w.seen(), "\n")+"\n"))
	}
}

// requestsOf are the requests of a name.
func requestsOf(archive *txtar.Archive, name string) []string {
	if f := section(archive, name+"/chain"); f != nil {
		return []string{string(f.Data)}
	}
	if f := section(archive, name+"/chains"); f != nil {
		return lines(f.Data)
	}
	return lines(section(archive, name+"/call").Data)
}

// send runs a chain or makes a call. The client goes when the transcript says so.
func send(t *testing.T, archive *txtar.Archive, name string, e *chain.Engine, request string, who *chain.Caller) *chain.Answer {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if f := section(archive, name+"/cancel"); f != nil {
		after, err := time.ParseDuration(strings.TrimSpace(string(f.Data)))
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(after, cancel)
	}
	if section(archive, name+"/call") == nil {
		return e.Run(ctx, []byte(request), who)
	}
	var call struct {
		chain.Call
		Args json.RawMessage
		Text string // instead of Args: what is not JSON
	}
	if err := json.Unmarshal([]byte(request), &call); err != nil {
		t.Fatal(err)
	}
	call.Call.Args = call.Args
	if call.Text != "" {
		call.Call.Args = []byte(call.Text)
	}
	return e.Call(ctx, &call.Call, who)
}

func section(archive *txtar.Archive, name string) *txtar.File {
	for i := range archive.Files {
		if archive.Files[i].Name == name {
			return &archive.Files[i]
		}
	}
	return nil
}

// namesOf are the names of an archive's sections with one of these endings.
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

// decode puts a section, if there is one, into a value.
func decode(t *testing.T, archive *txtar.Archive, name string, value any) {
	t.Helper()
	if f := section(archive, name); f != nil {
		if err := json.Unmarshal(f.Data, value); err != nil {
			t.Fatal(name, err)
		}
	}
}

// lines are those of a section; an empty one has none.
func lines(text []byte) []string {
	if len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// check compares a section with what there is. With -update, it is written, beside the others of its name.
func check(t *testing.T, archive *txtar.Archive, name string, got []byte) {
	t.Helper()
	want := section(archive, name)
	if want == nil {
		if !*update {
			t.Fatalf("the transcript has no %s; got:\n%s", name, got)
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
	if *update {
		want.Data = got
	}
	if !bytes.Equal(want.Data, got) {
		t.Errorf("%s:\ngot  %s\nwant %s", name, got, want.Data)
	}
}

var tokens = regexp.MustCompile(`oc1_\w+`)

// normalise takes out of an answer what differs from run to run.
func normalise(answer []byte) []byte {
	return append(tokens.ReplaceAll(answer, []byte("oc1_TOKEN")), '\n')
}

// compileSchemas compiles the published schemas of a request and of an answer.
func compileSchemas(t *testing.T) [2]*jsonschema.Schema {
	t.Helper()
	return [2]*jsonschema.Schema{compileSchema(t, chain.ChainSchema(), ""), compileSchema(t, chain.AnswerSchema(), "")}
}

// compileSchema compiles a schema, or the part of it at a fragment.
func compileSchema(t *testing.T, text []byte, fragment string) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("schema.json" + fragment)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

func validate(t *testing.T, s *jsonschema.Schema, text []byte) {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err == nil {
		err = s.Validate(value)
	}
	if err != nil {
		t.Errorf("the published schema refuses %s: %v", text, err)
	}
}
