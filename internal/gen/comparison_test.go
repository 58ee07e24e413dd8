package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestResultTable(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	file := `{"notes":["other","onecall is slow: so"],"tables":[{"title":"other"},{"title":"Time","columns":["","first","second"],"rows":[
		{"name":"one","cells":[{"value":5155,"unit":"tokens"},{"text":"–"}]},
		{"name":"two","cells":[{"value":1.25,"unit":"×"},{"value":0.5,"unit":"ms"}]}]}]}`
	if err := os.MkdirAll(filepath.Join(root, "bench/results"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "bench/results/some.json"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	table, err := readTable(root, "some", "Time")
	if err != nil {
		t.Fatal(err)
	}
	const want = "| | first | second |\n|---|---|---|\n| one | 5,155 | – |\n| two | 1.25 × | 0.50 ms |\n"
	if got := table.markdown(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := readTable(root, "some", "Space"); err == nil || !strings.Contains(err.Error(), `no table "Space"`) {
		t.Errorf(`reading a missing table: got error %v, want no table "Space"`, err)
	}
	if text, err := readComments(root, "some", "onecall is"); err != nil || text != "- **onecall is** slow: so\n" {
		t.Errorf("readComments: got %q, %v, want that onecall is slow", text, err)
	}
}
