// Package transcript runs tests whose inputs and expected answers are in files that are meant to be read. go test PACKAGE -update rewrites
// the answers, so that the difference can be reviewed.
package transcript

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the answers in the files of testdata")

// Updating reports whether answers are written instead of compared, for tests that compare on their own.
func Updating() bool { return *update }

// Each runs test for each txtar archive that matches pattern, in parallel subtests with the names of the files. With -update it then writes
// what test has changed in the archive, so test must not return before its own subtests have ended.
func Each(t *testing.T, pattern string, test func(t *testing.T, archive *txtar.Archive)) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no file matches %s: %v", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive := txtar.Parse(read(t, file))
			test(t, archive)
			if *update {
				write(t, file, txtar.Format(archive))
			}
		})
	}
}

// Replay runs replay for each section, in a subtest that is not parallel. replay returns the whole section as it should be, and Replay
// compares the two.
func Replay(t *testing.T, sections []txtar.File, replay func(t *testing.T, section *txtar.File) string) {
	t.Helper()
	if len(sections) == 0 {
		t.Fatal("the archive has no sections to replay")
	}
	for i := range sections {
		section := &sections[i]
		t.Run(section.Name, func(t *testing.T) {
			got := replay(t, section)
			compare(t, section.Name, string(section.Data), got)
			section.Data = []byte(got)
		})
	}
}

// Lines returns text with a new answer below each line. Each line of an answer is indented by a tab. An empty answer adds nothing, and a
// newline at the end of an answer is ignored. Blank lines and lines that begin with # get no answer; a text with only such lines is an
// error.
func Lines(t *testing.T, text string, answer func(line string) string) string {
	t.Helper()
	var out strings.Builder
	questions := 0
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "\t") {
			continue
		}
		out.WriteString(line + "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		questions++
		if got := strings.TrimSuffix(answer(line), "\n"); got != "" {
			out.WriteString("\t" + strings.ReplaceAll(got, "\n", "\n\t") + "\n")
		}
	}
	if questions == 0 {
		t.Errorf("%q has no line to answer", text)
	}
	return out.String()
}

// Arrow returns text with a new answer after the arrow in each line, in the form "question ⇒ answer". An answer has one line. An empty text
// is an error.
func Arrow(t *testing.T, text string, answer func(question string) string) string {
	t.Helper()
	const arrow = " ⇒ "
	if text == "" {
		t.Error("the text is empty: want lines with questions")
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		question, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), arrow)
		got := answer(question)
		if strings.Contains(got, "\n") {
			t.Errorf("%s: the answer has more than one line:\n%s", question, got)
		}
		out.WriteString(question + arrow + got + "\n")
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
	compare(t, file, string(read(t, file)), string(got))
}

// FileLines applies Lines to a file and compares the result with the file, or writes it with -update.
func FileLines(t *testing.T, file string, answer func(line string) string) {
	t.Helper()
	File(t, file, []byte(Lines(t, string(read(t, file)), answer)))
}

// compare reports the lines that differ: cmp compares short texts by characters, which would hide what the lines say.
func compare(t *testing.T, name, want, got string) {
	t.Helper()
	if got != want && !*update {
		t.Errorf("%s differs from the answers (- file, + answers); accept them with go test -update:\n%s", name,
			cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
	}
}

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
