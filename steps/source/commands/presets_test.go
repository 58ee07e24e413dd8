package commands_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/commands"
)

// repository makes a git repository with a commit, a change and a new file.
func repository(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	write(t, folder, map[string]string{"kept.txt": "one\ntwo\n", "odd\nname": "x\n"})
	runGit(t, folder, "init", "--quiet", "--initial-branch=main")
	runGit(t, folder, "add", ".")
	runGit(t, folder, "commit", "--quiet", "--message=first: things begin")
	write(t, folder, map[string]string{"kept.txt": "one\n2\n", "new.txt": "new\n"})
	return folder
}

func runGit(t *testing.T, folder string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = folder
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		cmd.Env = append(cmd.Env, "GIT_"+who+"_NAME=Ada", "GIT_"+who+"_EMAIL=ada@example.com")
	}
	cmd.Env = append(cmd.Env, "GIT_CONFIG_GLOBAL="+os.DevNull, "PATH="+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

func write(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGit calls the functions of the preset in a repository.
func TestGit(t *testing.T) {
	t.Parallel()
	s := open(t, repository(t), commands.Command{Name: "git", Preset: "git"})
	for _, call := range []struct{ name, args, want string }{
		{"log", `{"options":["--oneline"]}`, "first: things begin"},
		{"log", `{"options":["--name-only"],"paths":["kept.txt"]}`, "\nkept.txt\n"},
		{"status", `{}`, "## main\n M kept.txt\n?? new.txt\n"},
		{"diff", `{}`, "-two\n+2\n"},
		{"diff", `{"options":["--name-only"]}`, "kept.txt\n"},
		{"show", `{"objects":["HEAD:kept.txt"]}`, "one\ntwo\n"},
		{"show", `{"options":["--name-only"]}`, `"odd\nname"`},
		{"diff", `{"paths":["kept.txt","new.txt"]}`, "+2\n"},
		{"log", `{"max":0}`, ""},
	} {
		if got := do(t, s, "sh.git."+call.name, call.args).text(t); !strings.Contains(got, call.want) || call.want == "" && got != "" {
			t.Errorf("%s %s: got %q, want %q in it", call.name, call.args, got, call.want)
		}
	}
	if f := mustFail(t, s, "sh.git.show", `{"objects":["none"]}`, fault.FunctionFailed); !strings.Contains(f.Message, "exit status 128: fatal: ") {
		t.Errorf("got %v", f)
	}
	for _, fn := range s.Functions() {
		if fn.Effect != steps.Read {
			t.Errorf("%s is %s", fn.Name, fn.Effect)
		}
	}
}

// TestHostileRepository: git runs no program that a repository names, and leaves it as it was.
func TestHostileRepository(t *testing.T) {
	t.Parallel()
	folder := repository(t)
	ran := filepath.Join(t.TempDir(), "ran")
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"$0 $*\" >> '"+ran+"'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"core.fsmonitor", "core.pager", "pager.log", "pager.diff", "pager.show", "pager.status", "diff.external",
		"diff.x.textconv", "diff.x.command", "gpg.program", "core.askPass", "core.editor", "core.sshCommand"} {
		runGit(t, folder, "config", key, program)
	}
	runGit(t, folder, "config", "log.showSignature", "true")
	write(t, folder, map[string]string{".gitattributes": "* diff=x\n"})
	index, err := os.ReadFile(filepath.Join(folder, ".git", "index"))
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, folder, commands.Command{Name: "git", Preset: "git"})
	for _, call := range []string{"log", "diff", "status", "show"} {
		do(t, s, "sh.git."+call, `{}`)
	}
	do(t, s, "sh.git.log", `{"options":["--patch"]}`)
	if text, err := os.ReadFile(ran); err == nil {
		t.Errorf("git ran what the repository names:\n%s", text)
	}
	if after, err := os.ReadFile(filepath.Join(folder, ".git", "index")); err != nil || !slices.Equal(after, index) {
		t.Errorf("the index was written: %v", err)
	}
}

// TestGoTest runs the tests of a module, one of which fails.
func TestGoTest(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write(t, folder, map[string]string{"sub/go.mod": "module example.com/m\n\ngo 1.26\n", "sub/a_test.go": `package m

import "testing"

func TestGood(t *testing.T) {}

func TestBad(t *testing.T) { t.Error("this is wrong") }
`})
	s := open(t, folder, commands.Command{Name: "go", Preset: "go", Dir: "sub"})
	r := do(t, s, "sh.go.test", `{}`)
	var errors []string
	for _, line := range r.Errors {
		errors = append(errors, line.Text)
	}
	if r.Exit != 1 || r.Format != "jsonLines" || !strings.Contains(strings.Join(errors, "\n"), "a_test.go:7: this is wrong") {
		t.Errorf("got exit %d, format %s, errors %q", r.Exit, r.Format, errors)
	}
	if r := do(t, s, "sh.go.test", `{"run":"TestGood"}`); r.Exit != 0 || r.ErrorCount != 0 {
		t.Errorf("got exit %d, %d errors", r.Exit, r.ErrorCount)
	}
	if fn := s.Functions()[0]; fn.Effect != steps.Write {
		t.Errorf("%s is %s", fn.Name, fn.Effect)
	}
}

// TestRipgrep searches where rg is installed. TestPresetArguments has what it gets.
func TestRipgrep(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("rg"); err != nil {
		return
	}
	folder := t.TempDir()
	write(t, folder, map[string]string{"b.txt": "needle\n", "a.go": "x\n-needle\n", "sub/c.go": "needles\n"})
	s := open(t, folder, commands.Command{Name: "rg", Preset: "rg"})
	for args, want := range map[string]string{
		`{"pattern":"needle"}`:                                  "a.go:2:-needle\nb.txt:1:needle\nsub/c.go:1:needles\n",
		`{"pattern":"-needle"}`:                                 "a.go:2:-needle\n",
		`{"pattern":"needle","globs":["*.go"],"paths":["sub"]}`: "sub/c.go:1:needles\n",
		`{"pattern":"nothing"}`:                                 "",
	} {
		r := do(t, s, "sh.rg", args)
		if got := r.text(t); got != want || r.Exit != map[bool]int{true: 1}[want == ""] {
			t.Errorf("%s: got exit %d, %q, want %q", args, r.Exit, got, want)
		}
	}
	mustFail(t, s, "sh.rg", `{"pattern":"("}`, fault.FunctionFailed)
}

// TestPresetSettings: the folder, the variables and the bounds of the configuration win, and a preset can be there twice.
func TestPresetSettings(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write(t, folder, map[string]string{"sub/x": ""})
	s := open(t, folder, commands.Command{Name: "git", Preset: "git"}, commands.Command{Name: "sub", Preset: "git", Dir: "sub"})
	var names []string
	for _, fn := range s.Functions() {
		names = append(names, fn.Name)
	}
	if want := "[sh.git.log sh.git.diff sh.git.status sh.git.show sh.sub.log sh.sub.diff sh.sub.status sh.sub.show]"; fmt.Sprint(names) != want {
		t.Errorf("the functions are %v", names)
	}
}
