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
			Replay(t, a.Files, func(_ *testing.T, section *txtar.File) string { return Lines(string(section.Data), answer) })
		})
		File(t, filepath.Join(dir, "golden"), []byte("whole"))
	}
	defer func(before bool) { *update = before }(*update)
	*update = true
	t.Run("write", run)
	*update = false
	t.Run("compare", run)
	if got := string(read(t, file)); got != "-- one --\na\n-- two --\n# why\n\nb\n\tnew\n\tand more\n" {
		t.Errorf("the archive is\n%s", got)
	}
	if got := Arrow("a ⇒ 1\nb\n", strings.ToUpper); got != "a ⇒ A\nb ⇒ B\n" {
		t.Errorf("behind the arrows: %s", got)
	}
}

// TestDifference runs itself in another process, where a section and a file differ: each is a failure that shows both.
func TestDifference(t *testing.T) {
	if dir := os.Getenv("ONECALL_TRANSCRIPT"); dir != "" {
		FileLines(t, filepath.Join(dir, "lines"), answer)
		Replay(t, txtar.Parse([]byte(archive)).Files, func(_ *testing.T, section *txtar.File) string {
			return Lines(string(section.Data), answer)
		})
		return
	}
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "lines"), []byte("b\n\tsmall\n"))
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDifference$")
	command.Env = append(os.Environ(), "ONECALL_TRANSCRIPT="+dir)
	out, err := command.CombinedOutput()
	for _, want := range []string{"small", "old", "new", "--- FAIL: TestDifference/two", "-update"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%v, and the output has no %q:\n%s", err, want, out)
		}
	}
	if strings.Contains(string(out), "FAIL: TestDifference/one") {
		t.Errorf("a section that is as it was fails:\n%s", out)
	}
}
