package http_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the answers of testdata")

// checkLines holds a file to what answer gives for each line: an indented line below it. Empty lines and comments are for readers.
func checkLines(t *testing.T, name string, answer func(line string) string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "\t") {
			continue
		}
		got.WriteString(line)
		if line != "\n" && !strings.HasPrefix(line, "#") {
			fmt.Fprintf(&got, "\t%s\n", answer(strings.TrimSuffix(line, "\n")))
		}
	}
	if *update {
		if err := os.WriteFile(name, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got.String() != string(text) {
		t.Errorf("%s (-update writes it):\n%s", name, got.String())
	}
}
