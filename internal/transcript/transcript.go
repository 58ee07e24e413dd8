// Package transcript runs tests whose inputs and answers stand in files, as a reader would want them. go test PACKAGE -update writes the
// answers again, for a review of the difference.
package transcript

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write the answers in the files of testdata again")

// Updating reports whether answers are written instead of compared. A test that handles a difference itself asks for it.
func Updating() bool { return *update }

// Each runs test for each txtar archive that matches pattern, in parallel subtests with the names of the files. With -update it writes what
// test has changed in the archive.
func Each(t *testing.T, pattern string, test func(t *testing.T, archive *txtar.Archive)) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no file matches %s: %v", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			test(t, archive)
			if *update {
				write(t, file, txtar.Format(archive))
			}
		})
	}
}

// Replay runs replay for each section, in a subtest, and compares the section with what it returns, which is the whole section.
func Replay(t *testing.T, sections []txtar.File, replay func(t *testing.T, section *txtar.File) string) {
	t.Helper()
	for i := range sections {
		section := &sections[i]
		t.Run(section.Name, func(t *testing.T) {
			got := replay(t, section)
			if !*update && got != string(section.Data) {
				t.Errorf("-update writes what is new (- file, + now):\n%s", difference(string(section.Data), got))
			}
			section.Data = []byte(got)
		})
	}
}

// Lines returns text with a new answer below each line. The lines of an answer begin with a tab, and "" is no answer. Blank lines and those
// that begin with # are not answered.
func Lines(text string, answer func(line string) string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "\t") {
			continue
		}
		out.WriteString(line)
		if line == "\n" || strings.HasPrefix(line, "#") {
			continue
		}
		if got := strings.TrimSuffix(answer(strings.TrimSuffix(line, "\n")), "\n"); got != "" {
			out.WriteString("\t" + strings.ReplaceAll(got, "\n", "\n\t") + "\n")
		}
	}
	return out.String()
}

// Arrow returns text with a new answer behind the arrow of each line.
func Arrow(text string, answer func(question string) string) string {
	const arrow = " ⇒ "
	var out strings.Builder
	for line := range strings.Lines(text) {
		question, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), arrow)
		out.WriteString(question + arrow + answer(question) + "\n")
	}
	return out.String()
}

// File compares a file with got, or writes it with -update.
func File(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		write(t, file, got)
		return
	}
	if want := read(t, file); !bytes.Equal(want, got) {
		t.Errorf("%s: -update writes what is new (- file, + now):\n%s", file, difference(string(want), string(got)))
	}
}

// FileLines compares a file with Lines of it, or writes it with -update.
func FileLines(t *testing.T, file string, answer func(line string) string) {
	t.Helper()
	File(t, file, []byte(Lines(string(read(t, file)), answer)))
}

// difference shows the lines that differ. Characters, which cmp compares in short texts, would hide what the lines say.
func difference(want, got string) string { return cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")) }

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
}
