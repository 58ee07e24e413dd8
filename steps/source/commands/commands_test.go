package commands_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/transcript"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/commands"
	"github.com/onecall-mcp/onecall/steps/stepstest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	stepstest.Run(t, stepstest.Options{
		New: func(t *testing.T) steps.Source {
			return open(t, root,
				with(self(t, "args", "args", "--name={name}", "--", "{rest}"), func(c *commands.Command) {
					c.Args, c.Optional = schemas("name", `rest={"type":"array","items":{"type":"string"}}`), []string{"rest"}
				}),
				with(self(t, "say", "say", "{out}", "{err}", "{exit}"), func(c *commands.Command) {
					c.Args = schemas("out", "err", `exit={"type":"integer"}`)
				}))
		},
		Args:  map[string]string{"sh.args": `{"name":"a b","rest":["-x",""]}`, "sh.say": `{"out":"o","err":"e","exit":0}`},
		Fails: map[string][]string{"sh.args": {`{"name":"-x"}`, `{"name":"a\u0000b"}`}, "sh.say": {`{"out":"","err":"","exit":3}`}},
	})
}

// TestTranscripts makes the calls of testdata/calls.txtar. An answer is the whole result, or the error and its body.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	texts := `={"type":"array","items":{"type":"string"}}`
	sets := map[string][]commands.Command{
		"arguments": {
			with(self(t, "args", "args", "-n", "{n}", "--name={name}", "{names}", "--only={names}", "{flags}", "{}{{.X}}", "--", "{rest}"),
				func(c *commands.Command) {
					c.Args = schemas(`n={"type":["integer","boolean","number"]}`, "name", "names"+texts,
						`flags={"type":"array","items":{"enum":["--all","--long"]}}`, "rest"+texts)
					c.Optional = []string{"n", "name", "names", "flags", "rest"}
				}),
		},
		"results": {
			with(self(t, "say", "say", "{out}", "{err}", "{exit}"), func(c *commands.Command) {
				c.Args = schemas("out", "err", `exit={"type":"integer"}`)
			}),
			with(self(t, "grep", "say", "{out}", "{err}", "{exit}"), func(c *commands.Command) {
				c.Args, c.FailsFrom, c.Errors = schemas("out", "err", `exit={"type":"integer"}`), 2, []string{"^!", "^E[0-9]"}
			}),
			with(self(t, "lines", "lines", "{n}"), func(c *commands.Command) { c.Args = schemas(`n={"type":"integer"}`) }),
			with(self(t, "short", "lines", "{n}"), func(c *commands.Command) {
				c.Args, c.MaxOutputBytes = schemas(`n={"type":"integer"}`), 30
			}),
		},
	}
	transcript.Each(t, "testdata/calls.txtar", func(t *testing.T, archive *txtar.Archive) {
		transcript.Replay(t, archive.Files, func(t *testing.T, section *txtar.File) string {
			s := open(t, t.TempDir(), sets[section.Name]...)
			return transcript.Lines(t, string(section.Data), func(call string) string {
				name, args, _ := strings.Cut(call, " ")
				result, err := function(t, s, name).Call(t.Context(), []byte(args))
				if f, ok := fault.As(err); ok {
					return fmt.Sprintf("%s at %q: %s\n%s", f.Code, f.At, f.Message, f.Body)
				}
				return string(result)
			})
		})
	})
}

// TestFaults: each wrong command is refused, with its place.
func TestFaults(t *testing.T) {
	t.Parallel()
	text := schemas("x")
	for _, test := range []struct {
		at      string
		command commands.Command
	}{
		{"/a b", commands.Command{Name: "a b", Run: []string{"/bin/x"}}},
		{"/x/run", commands.Command{Name: "x"}},
		{"/x/run/0", commands.Command{Name: "x", Run: []string{"git"}}},
		{"/x/run/1", commands.Command{Name: "x", Run: []string{"/bin/x", "{x}"}}},
		{"/x/run/2", commands.Command{Name: "x", Run: []string{"/bin/x", "--", "{y}{x}"}, Args: text}},
		{"/x/run/1", commands.Command{Name: "x", Run: []string{"/bin/x", "{x}{y}"}, Args: schemas(`x={"type":"array"}`, `y={"type":"array"}`)}},
		{"/x/dir", commands.Command{Name: "x", Run: []string{"/bin/x"}, Dir: "{x}", Args: schemas(`x={"type":"array"}`)}},
		{"/x/args/x", commands.Command{Name: "x", Run: []string{"/bin/x"}, Args: text}},
		{"/x/args/x", commands.Command{Name: "x", Run: []string{"/bin/x", "{x}"}, Args: schemas(`x="text"`)}},
		{"/x/args/x", commands.Command{Name: "x", Run: []string{"/bin/x", "{x}"}, Args: schemas(`x={"type":"object"}`)}},
		{"/x/optional/0", commands.Command{Name: "x", Run: []string{"/bin/x"}, Optional: []string{"y"}}},
		{"/x/errors/1", commands.Command{Name: "x", Run: []string{"/bin/x"}, Errors: []string{"a", "("}}},
		{"/x/effect", commands.Command{Name: "x", Run: []string{"/bin/x"}, Effect: "reads"}},
		{"/x/failsFrom", commands.Command{Name: "x", Run: []string{"/bin/x"}, FailsFrom: 257}},
		{"/x/env/A=B", commands.Command{Name: "x", Run: []string{"/bin/x"}, Env: map[string]string{"A=B": ""}}},
		{"/x/preset", commands.Command{Name: "x", Preset: "gti"}},
		{"/x/effect", commands.Command{Name: "x", Preset: "git", Effect: "write"}},
	} {
		_, err := commands.New(&commands.Options{Root: t.TempDir(), Commands: []commands.Command{test.command}})
		if f, ok := fault.As(err); !ok || f.Code != fault.BadRequest || f.At != test.at || f.Message == "" {
			t.Errorf("%+v: got %v, want bad_request at %s", test.command, err, test.at)
		}
	}
	twice := commands.Command{Name: "x", Run: []string{"/bin/x"}}
	_, err := commands.New(&commands.Options{Root: t.TempDir(), Commands: []commands.Command{twice, twice}})
	if fault.CodeOf(err) != fault.BadRequest {
		t.Errorf("two commands of one name: got %v", err)
	}
	if _, err := commands.New(&commands.Options{Root: filepath.Join(t.TempDir(), "none")}); fault.CodeOf(err) != fault.BadRequest {
		t.Errorf("a root that is not there: got %v", err)
	}
}

// TestDashes: an option cannot be slipped in as a value, whatever the place, and a call with one is refused before anything runs.
func TestDashes(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), with(self(t, "x", "args", "{free}", "--n={n}", "{one}", "{list}", "{many}", "--", "{rest}"), func(c *commands.Command) {
		c.Args = schemas("free", `n={"type":"integer"}`, `one={"type":"string","pattern":"^-?[a-z]+$"}`,
			`list={"type":"array","items":{"enum":["-a","-b"]}}`, `many={"type":"array","items":{"type":"string"}}`, "rest")
		c.Optional = []string{"free", "n", "one", "list", "many", "rest"}
	}))
	for _, args := range []string{`{"free":"-x"}`, `{"free":"--"}`, `{"n":-1}`, `{"one":"--x"}`, `{"list":["-c"]}`} {
		f := mustFail(t, s, "sh.x", args, fault.BadArguments)
		if f.Outcome != "" && f.Outcome != fault.NotSent {
			t.Errorf("%s: outcome %s", args, f.Outcome)
		}
	}
	for _, args := range []string{`{"one":"-x"}`, `{"list":["-a","-b"]}`, `{"rest":"--all"}`, `{"free":"a-b","n":1}`} {
		do(t, s, "sh.x", args)
	}
	check := s.Functions()[0].Check
	known := func(string) bool { return true }
	if f := check([]byte(`{"rest":"-r","free":"-x"}`), known); f == nil || f.At != "/free" {
		t.Errorf("before the run: got %v, want a fault at /free", f)
	}
	if f := check([]byte(`{"list":["-a"],"many":["a","-x"]}`), known); f == nil || f.At != "/many/1" {
		t.Errorf("a list before the run: got %v, want a fault at /many/1", f)
	}
	if f := check([]byte(`{"many":["-a"]}`), func(at string) bool { return at != "/many/0" }); f != nil {
		t.Errorf("an element that is not known yet is refused: %v", f)
	}
	if f := check([]byte(`{"free":"-x"}`), func(string) bool { return false }); f != nil {
		t.Errorf("a value that is not known yet is refused: %v", f)
	}
}

// TestEnvironment: a program has the variables that its command names, and no others.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), with(self(t, "x", "environment"), func(c *commands.Command) { c.Env["GREETING"] = "good day" }))
	got := strings.Fields(do(t, s, "sh.x", `{}`).text(t))
	want := strings.Fields(roleVariable + "=environment GREETING=good day")
	got = slices.DeleteFunc(got, func(pair string) bool { return strings.HasPrefix(pair, "SYSTEMROOT=") }) // Windows starts nothing without it
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the environment is %q, want %q", got, want)
	}
}

// TestStdin: a program that reads its input finds it empty.
func TestStdin(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), self(t, "x", "stdin"))
	if got := do(t, s, "sh.x", `{}`).text(t); got != `"" <nil>` {
		t.Errorf("its input is %s, want an empty one", got)
	}
}

// TestFolder: a program works below the root, wherever links lead, and its paths stay there.
func TestFolder(t *testing.T) {
	t.Parallel()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root, outside := filepath.Join(base, "root"), filepath.Join(base, "outside")
	for _, folder := range []string{filepath.Join(root, "sub", "new\nline"), outside} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"out": "../outside", "absolute": outside, "in": "sub", "sub/up": "../../outside"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, root,
		with(self(t, "fixed", "folder"), func(c *commands.Command) { c.Dir = "sub" }),
		with(self(t, "free", "folder"), func(c *commands.Command) { c.Dir, c.Args, c.Optional = "{dir}", schemas("dir={}"), []string{"dir"} }),
		with(self(t, "path", "args", "--", "{path}", "{paths}"), func(c *commands.Command) {
			c.Dir, c.Optional = "sub", []string{"paths", "path"}
			c.Args = schemas(`path={"type":"string","format":"path"}`, `paths={"type":"array","items":{"type":"string","format":"path"}}`)
		}))
	for args, want := range map[string]string{`{}`: root, `{"dir":"in"}`: filepath.Join(root, "sub"), `{"dir":""}`: root,
		`{"dir":"sub/new\nline"}`: filepath.Join(root, "sub", "new\nline"), `{"dir":"sub/../in"}`: filepath.Join(root, "sub")} {
		if got := do(t, s, "sh.free", args).text(t); got != want+"<nil>" {
			t.Errorf("%s: works in %q, want %q", args, got, want)
		}
	}
	if got := do(t, s, "sh.fixed", `{}`).text(t); got != filepath.Join(root, "sub")+"<nil>" {
		t.Errorf("works in %q", got)
	}
	for args, code := range map[string]fault.Code{`{"dir":"out"}`: fault.Denied, `{"dir":"absolute"}`: fault.Denied, `{"dir":".."}`: fault.Denied,
		`{"dir":"sub/up"}`: fault.Denied, `{"dir":"none"}`: fault.FunctionFailed, `{"dir":"file"}`: fault.FunctionFailed,
		`{"dir":"/"}`: fault.Denied, `{"dir":["sub","in"]}`: fault.BadArguments, `{"dir":{}}`: fault.BadArguments} {
		mustFail(t, s, "sh.free", args, code)
	}
	for _, path := range []string{"../../outside", "up", "up/x", "/etc/passwd", "..\\..\\x/../../../y", "none/../../../x"} {
		one, err := json.Marshal(path)
		if err != nil {
			t.Fatal(err)
		}
		f := mustFail(t, s, "sh.path", fmt.Sprintf(`{"path":%s}`, one), fault.Denied)
		mustFail(t, s, "sh.path", fmt.Sprintf(`{"paths":[".",%s]}`, one), fault.Denied)
		if f.At != "/path" {
			t.Errorf("%s: refused at %q", path, f.At)
		}
	}
	for _, path := range []string{"../file", "new\nline", "none", "*.go", "../in/new\nline", "./..."} {
		one, err := json.Marshal(path)
		if err != nil {
			t.Fatal(err)
		}
		do(t, s, "sh.path", fmt.Sprintf(`{"path":%s,"paths":[%s]}`, one, one))
	}
}

// TestMissingProgram: the function is there, and says what is missing, until the program is.
func TestMissingProgram(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	program := filepath.Join(folder, "program")
	c := self(t, "x", "args")
	self := c.Run[0]
	c.Run[0] = program
	var warned *fault.Error
	s, err := commands.New(&commands.Options{Root: folder, Commands: []commands.Command{c}, Warn: func(f *fault.Error) { warned = f }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if warned == nil || warned.At != "/x/run/0" || warned.Code != fault.BadRequest {
		t.Errorf("the warning is %v, want one at /x/run/0", warned)
	}
	f := mustFail(t, s, "sh.x", `{}`, fault.Unavailable)
	if f.Outcome != fault.NotSent || !strings.Contains(f.Message, "install it") {
		t.Errorf("got %v with the outcome %q", f, f.Outcome)
	}
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	do(t, s, "sh.x", `{}`)
}

// TestLongArguments: what no system can start is a coded error.
func TestLongArguments(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), with(self(t, "x", "args", "{x}"), func(c *commands.Command) { c.Args = schemas("x") }))
	if f := mustFail(t, s, "sh.x", `{"x":"`+strings.Repeat("x", 3<<20)+`"}`, fault.LimitExceeded); f.Outcome != fault.NotSent {
		t.Errorf("the outcome is %s", f.Outcome)
	}
}
