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

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/tools/txtar"

	"github.com/onecall-mcp/onecall/chain"
)

var update = flag.Bool("update", false, "rewrite the answers and calls of the transcripts")

// TestTranscripts runs the chains of ../testdata/chain: `name/chain` is a request, `name/answer` what it must be
// answered, `name/calls` the calls that must have reached the functions, in order. `name/options` holds chain.Options as
// JSON. Every answer is held against the published schema, every request that compiles against the other.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	schemas := compileSchemas(t)
	eachArchive(t, "../testdata/chain/*.txtar", func(t *testing.T, archive *txtar.Archive) {
		for _, name := range chainsOf(archive) {
			t.Run(name, func(t *testing.T) { transcript(t, archive, name, schemas) })
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
	var o chain.Options
	decode(t, archive, name+"/options", &o)
	w := &world{}
	request := section(archive, name+"/chain").Data
	answer := engine(t, w, o).Run(context.Background(), request, nil)
	check(t, archive, name+"/answer", normalise(answer.JSON))
	if calls := section(archive, name+"/calls"); calls != nil {
		check(t, archive, name+"/calls", []byte(strings.Join(w.seen(), "\n")+"\n"))
	}
	if !json.Valid(answer.JSON) {
		t.Errorf("the answer is not JSON: %s", answer.JSON)
	}
	if !answer.OK || bytes.HasPrefix(answer.JSON, []byte(`{"ok":true`)) {
		validate(t, schemas[1], answer.JSON)
	}
	if answer.OK {
		validate(t, schemas[0], request)
	}
}

func section(archive *txtar.Archive, name string) *txtar.File {
	for i := range archive.Files {
		if archive.Files[i].Name == name {
			return &archive.Files[i]
		}
	}
	return nil
}

// chainsOf are the names of an archive's requests.
func chainsOf(archive *txtar.Archive) (names []string) {
	for _, f := range archive.Files {
		if name, isChain := strings.CutSuffix(f.Name, "/chain"); isChain {
			names = append(names, name)
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

var (
	times  = regexp.MustCompile(`"ms":\d+`)
	tokens = regexp.MustCompile(`oc1_\w+`)
)

// normalise takes out of an answer what differs from run to run.
func normalise(answer []byte) []byte {
	answer = times.ReplaceAll(answer, []byte(`"ms":0`))
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
