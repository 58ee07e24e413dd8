//go:build e2e && unix

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestLibrarySnippet compiles the program that docs/library.md shows.
func TestLibrarySnippet(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/library.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```go\nimport \\(\n(.*?)\n\\)\n(.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("docs/library.md has no go block with imports")
	}
	program := fmt.Sprintf("package main\n\nimport (\n\t\"context\"\n\t\"encoding/json\"\n\n%s\n)\n\n"+
		"func main() {\n\tctx, request := context.Background(), []byte(`{}`)\n\torders := func(context.Context, []byte) ([]byte, "+
		"error) { return nil, nil }\n%s\n\t_, _ = answer, err\n}\n", block[1], block[2])
	folder := t.TempDir()
	file := filepath.Join(folder, "main.go")
	if err := os.WriteFile(file, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(folder, "overlay.json")
	source := filepath.Join(root, "cmd", "snippet", "main.go")
	if err := os.WriteFile(overlay, fmt.Appendf(nil, `{"Replace":{%q:%q}}`, source, file), 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(folder, "snippet"), "-overlay", overlay, "./cmd/snippet")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("go build: %v\n%s\n%s", err, out, program)
	}
}
