package transcript

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

const archive = "-- one --\na\n-- two --\n# why\n\nb\n\told\n"

// answer answers b in two lines, and a not at all.
func answer(line string) string {
	return strings.ReplaceAll(strings.Trim(line, "a"), "b", "new\nand more\n")
}

// TestUpdate: -update writes what the file lacks, after which nothing differs. It is not parallel because it sets the flag.
func TestUpdate(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "x.txtar")
	write(t, file, []byte(archive))
	run := func(t *testing.T) {
		Each(t, filepath.Join(dir, "*.txtar"), func(t *testing.T, a *txtar.Archive) {
			Replay(t, a.Files, func(t *testing.T, section *txtar.File) string { return Lines(t, string(section.Data), answer) })
		})
		File(t, filepath.Join(dir, "golden"), []byte("whole"))
	}
	defer func(before bool) { *update = before }(*update)
	*update = true
	t.Run("write", run)
	*update = false
	t.Run("compare", run)
	if got := string(read(t, file)); got != "-- one --\na\n-- two --\n# why\n\nb\n\tnew\n\tand more\n" {
		t.Errorf("got archive\n%s\nwant the new answers, and the rest unchanged", got)
	}
	if got := Arrow(t, "a ⇒ 1\nb\n", strings.ToUpper); got != "a ⇒ A\nb ⇒ B\n" {
		t.Errorf("Arrow returns %q, want %q", got, "a ⇒ A\nb ⇒ B\n")
	}
}

// TestFailures runs itself in other processes. Each case must fail, and show what its words say.
func TestFailures(t *testing.T) {
	cases := map[string]struct {
		run  func(t *testing.T, dir string)
		want []string
	}{
		"a file differs":    {func(t *testing.T, dir string) { FileLines(t, filepath.Join(dir, "lines"), answer) }, []string{"small", "new", "-update"}},
		"a file is missing": {func(t *testing.T, dir string) { File(t, filepath.Join(dir, "none"), nil) }, []string{"no such file"}},
		"no file matches": {func(t *testing.T, dir string) {
			Each(t, filepath.Join(dir, "*.none"), func(*testing.T, *txtar.Archive) {})
		}, []string{"no file matches"}},
		"no section": {func(t *testing.T, dir string) {
			Each(t, filepath.Join(dir, "lines"), func(t *testing.T, a *txtar.Archive) { Replay(t, a.Files, nil) })
		}, []string{"no sections"}},
		"no question": {func(t *testing.T, _ string) { Lines(t, "# why\n\n", answer) }, []string{"has no line to answer"}},
		"no line":     {func(t *testing.T, _ string) { Arrow(t, "", answer) }, []string{"the text is empty"}},
		"two lines":   {func(t *testing.T, _ string) { Arrow(t, "b", answer) }, []string{"more than one line"}},
		"a section differs": {func(t *testing.T, _ string) {
			Replay(t, txtar.Parse([]byte(archive)).Files, func(t *testing.T, section *txtar.File) string {
				return Lines(t, string(section.Data), answer)
			})
		}, []string{"old", "new", "/two"}},
	}
	const variable = "ONECALL_TRANSCRIPT"
	if name := os.Getenv(variable); name != "" {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "lines"), []byte("b\n\tsmall\n"))
		cases[name].run(t, dir)
		return
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFailures$")
			command.Env = append(os.Environ(), variable+"="+name)
			out, err := command.CombinedOutput()
			if err == nil {
				t.Error("the process passed, want a failure")
			}
			for _, want := range c.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("the output has no %q:\n%s", want, out)
				}
			}
		})
	}
}
