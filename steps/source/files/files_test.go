package files_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/files"
	"github.com/onecall-mcp/onecall/steps/stepstest"
)

// The results of the functions; the members have the names of the fields.
type (
	catResult struct {
		Path, Encoding, Type           string
		Size                           int64
		Lines, From, To                *int
		InvalidUTF8, Binary, Truncated bool
		Next                           int
		Text                           *string
	}
	listResult struct {
		Path        string
		Count, Next int
		Truncated   bool
		Entries     []struct {
			Name, Path, Type string
			Size             *int64
		}
	}
	findResult struct {
		Count, Next int
		Truncated   bool
		Files       []string
		Folders     []folderCount
		Skipped     []skip
	}
	folderCount struct {
		Path  string
		Count int
	}
	grepResult struct {
		Count, FileCount, Next int
		Truncated              bool
		Hot                    *folderCount
		Files                  []struct {
			Path        string
			Count       int
			InvalidUTF8 bool
			Matches     []struct {
				Line          int
				Text          string
				Cut           bool
				Before, After []string
			}
		}
		Skipped []skip
	}
	skip struct {
		Reason  string
		Count   int
		Example string
	}
)

// writeTree makes files below a folder; a name that ends in "/" is an empty folder.
func writeTree(t testing.TB, root string, tree map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		at := filepath.Join(root, filepath.FromSlash(name))
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(at, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		must(t, os.WriteFile(at, []byte(tree[name]), 0o644))
	}
}

func must(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open makes a source on a tree in a new folder.
func open(t testing.TB, tree map[string]string) (*files.Source, string) {
	t.Helper()
	root := t.TempDir()
	writeTree(t, root, tree)
	return openAt(t, &files.Options{Root: root}), root
}

func openAt(t testing.TB, o *files.Options) *files.Source {
	t.Helper()
	s, err := files.New(o)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// outputs are the compiled output schemas by function name.
var outputs = sync.OnceValue(func() map[string]*jsonschema.Schema {
	c, all := jsonschema.NewCompiler(), map[string]*jsonschema.Schema{}
	s, err := files.New(&files.Options{Write: []string{"."}})
	if err != nil {
		panic(err)
	}
	defer s.Close()
	for _, f := range s.Functions() {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(f.Output))
		if err == nil {
			err = c.AddResource(f.Name, doc)
		}
		if err != nil {
			panic(err)
		}
		all[f.Name] = c.MustCompile(f.Name)
	}
	return all
})

// tester is the common part of testing.TB and rapid.T.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// do calls a function and decodes its result, which must match the function's output schema. args are JSON.
func do[R any](t tester, s *files.Source, fn, args string) R {
	t.Helper()
	raw, err := rawCall(t, s, fn, args)
	if err != nil {
		t.Fatalf("%s %s: %v", fn, args, err)
	}
	var result R
	must(t, json.Unmarshal(raw, &result))
	return result
}

// rawCall calls a function. In place of the bytes of blocks the result has their digest.
func rawCall(t tester, s *files.Source, fn, args string) ([]byte, error) {
	t.Helper()
	blocks := &steps.Blocks{}
	raw, err := function(s, fn).Call(steps.WithCallbacks(context.Background(), &steps.Callbacks{Blocks: blocks}), []byte(args))
	raw = blocks.Digests(raw)
	if err != nil {
		if _, coded := fault.As(err); !coded {
			t.Fatalf("%s %s: the error has no code: %v", fn, args, err)
		}
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	must(t, err)
	if err := outputs()[fn].Validate(doc); err != nil {
		t.Fatalf("%s %s: the result violates the output schema: %v\n%s", fn, args, err, raw)
	}
	return raw, nil
}

func function(s *files.Source, name string) steps.Function {
	all := s.Functions()
	return all[slices.IndexFunc(all, func(f steps.Function) bool { return f.Name == name })]
}

// mustFail calls a function that must fail with a code.
func mustFail(t tester, s *files.Source, fn, args string, code fault.Code) {
	t.Helper()
	_ = mustFailWith(t, s, fn, args, code)
}

// mustFailWith is mustFail, and returns the error.
func mustFailWith(t tester, s *files.Source, fn, args string, code fault.Code) *fault.Error {
	t.Helper()
	raw, err := rawCall(t, s, fn, args)
	if fault.CodeOf(err) != code {
		t.Fatalf("%s %s: got %s, %v, want the code %s", fn, args, raw, err, code)
	}
	f, _ := fault.As(err)
	return f
}

func args(t tester, pairs ...any) string {
	t.Helper()
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	b, err := json.Marshal(m)
	must(t, err)
	return string(b)
}

func TestNew(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o644))
	for _, o := range []*files.Options{{Root: file}, {Root: file + "/nowhere"}, {MaxFileBytes: 1}, {MaxFileBytes: -1}, {MaxResultBytes: 5}} {
		if s, err := files.New(o); fault.CodeOf(err) != fault.BadRequest {
			t.Errorf("New(%+v) = %v, %v, want bad_request", o, s, err)
		}
	}
	s, err := files.New(nil)
	must(t, err)
	must(t, s.Close())
	must(t, s.Close())
	for fn, args := range map[string]string{"fs.list": `{}`, "fs.find": `{"pattern":"*"}`, "fs.grep": `{"pattern":"x"}`,
		"fs.cat": `{"path":"files.go"}`, "fs.tree": `{}`, "fs.stat": `{"path":"."}`} {
		mustFail(t, s, fn, args, fault.Unavailable)
	}
}

// TestSpecs: all functions read, and their schemas are closed objects, which agents read best. TestConformance checks the rest.
func TestSpecs(t *testing.T) {
	t.Parallel()
	s, _ := open(t, nil)
	var names []string
	for _, f := range s.Functions() {
		names = append(names, f.Name)
		if f.Effect != steps.Read {
			t.Errorf("%s has the effect %v, want read", f.Name, f.Effect)
		}
		for _, schema := range [][]byte{f.Input, f.Output} {
			var root struct {
				Type                 string
				AdditionalProperties *bool
			}
			must(t, json.Unmarshal(schema, &root))
			if root.Type != "object" || root.AdditionalProperties == nil || *root.AdditionalProperties {
				t.Errorf("%s: the schema is not a closed object: %s", f.Name, schema)
			}
		}
	}
	if want := []string{"fs.list", "fs.find", "fs.tree", "fs.stat", "fs.grep", "fs.cat"}; !slices.Equal(names, want) {
		t.Errorf("functions %v, want %v", names, want)
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	writeTree(t, root, map[string]string{"a/file.txt": "text\n", "top.txt": "text\n"})
	stepstest.Run(t, stepstest.Options{
		New: func(t *testing.T) steps.Source {
			must(t, os.WriteFile(filepath.Join(root, "a", "edited"), []byte("x"), 0o644)) // calls with other arguments may have changed it
			return openAt(t, &files.Options{Root: root, Write: []string{"."}})
		},
		Args: map[string]string{
			"fs.list": `{"depth":2}`, "fs.find": `{"pattern":"*"}`, "fs.grep": `{"pattern":"te.t","context":1}`, "fs.cat": `{"path":"a/file.txt"}`,
			"fs.tree": `{"depth":2}`, "fs.stat": `{"path":"a/file.txt","digest":true}`,
			"fs.write": `{"path":"a/new","text":"x"}`, "fs.edit": `{"path":"a/edited","old":"x","new":"x"}`, "fs.mkdir": `{"path":"b/c"}`,
		},
		Fails: map[string][]string{
			"fs.write": {`{"path":"../x","text":""}`, `{"path":"no/x","text":""}`, `{"path":"top.txt","text":"","ifMatch":"x"}`},
			"fs.edit":  {`{"path":"top.txt","old":"nothing of it","new":""}`, `{"path":"nowhere","old":"x","new":""}`},
			"fs.move":  {`{"from":"nowhere","to":"x"}`, `{"from":"top.txt","to":"a"}`}, "fs.remove": {`{"path":"a"}`, `{"path":"nowhere"}`},
			"fs.mkdir": {`{"path":"top.txt"}`, `{"path":"top.txt/x"}`},
			"fs.tree":  {`{"path":"nowhere"}`, `{"path":"top.txt"}`}, "fs.stat": {`{"path":"nowhere"}`, `{"path":"a","digest":true}`, `{"path":"../x"}`},
			"fs.list": {`{"path":"nowhere"}`, `{"path":".."}`}, "fs.find": {`{"pattern":"["}`},
			"fs.grep": {`{"pattern":"("}`, `{"pattern":"x","path":"/"}`},
			"fs.cat":  {`{"path":"a"}`, `{"path":"nowhere"}`, `{"path":"top.txt","head":1,"tail":1}`},
		},
	})
}

// countdown is a context that ends after a number of checks, as in the middle of a call.
type countdown struct {
	context.Context
	mu   sync.Mutex
	left int
}

func (c *countdown) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestCancellation(t *testing.T) {
	t.Parallel()
	tree := map[string]string{"big": strings.Repeat("a line\n", 100_000)}
	for _, name := range []string{"a", "b", "c", "d"} {
		tree[name+"/"+name+"/file"] = "a line\n"
	}
	_, root := open(t, tree)
	s := openAt(t, &files.Options{Root: root, MaxFileBytes: 100_000}) // fs.cat streams
	for _, c := range [][2]string{{"fs.list", `{"depth":5}`}, {"fs.tree", `{"depth":5}`}, {"fs.stat", `{"path":"big","digest":true}`}, {"fs.find", `{"pattern":"*"}`}, {"fs.grep", `{"pattern":"line","path":"big"}`},
		{"fs.grep", `{"pattern":"line","limit":1}`}, {"fs.cat", `{"path":"big","from":90000,"to":90001}`}} {
		fn, args := c[0], c[1]
		for _, after := range []int{0, 1, 3} {
			_, err := function(s, fn).Call(&countdown{Context: context.Background(), left: after}, []byte(args))
			if fault.CodeOf(err) != fault.Cancelled {
				t.Errorf("%s cancelled after %d checks: got %v, want cancelled", fn, after, err)
			}
		}
		expired, cancel := context.WithTimeout(context.Background(), 0)
		if _, err := function(s, fn).Call(expired, []byte(args)); fault.CodeOf(err) != fault.Timeout {
			t.Errorf("%s after its deadline: got %v, want timeout", fn, err)
		}
		cancel()
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := function(s, "fs.grep").Call(&countdown{Context: cancelled, left: 1}, []byte(`{"pattern":"line","limit":1}`))
	if fault.CodeOf(err) != fault.Cancelled {
		t.Errorf("fs.grep of a tree with a cancelled context: got %v, want cancelled", err)
	}
}

func TestIntegers(t *testing.T) {
	t.Parallel()
	s, _ := open(t, map[string]string{"f": "1\n2\n3\n"})
	for _, spelling := range []string{"2", "2.0", "2e0"} {
		if got := do[catResult](t, s, "fs.cat", `{"path":"f","head":`+spelling+`}`); *got.Text != "1\n2\n" {
			t.Errorf("head %s: got %q, want lines 1 and 2", spelling, *got.Text)
		}
	}
	for _, bad := range []string{`{"path":"f","head":1.5}`, `{"path":"f","head":"2"}`, `{"path":"f","head":1e300}`, `[]`, `{`} {
		mustFail(t, s, "fs.cat", bad, fault.BadArguments)
	}
	for _, bad := range []string{`{"limit":0}`, `{"limit":100001}`, `{"offset":-1}`, `{"depth":0}`} {
		mustFail(t, s, "fs.list", bad, fault.BadArguments)
	}
}
