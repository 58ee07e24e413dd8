package cli_test

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestTroubleshootingMessages checks that the program has each message that docs/troubleshooting.md quotes in a block of text. `…`
// stands for what a message fills in. TestDocuments runs those in blocks of console.
func TestTroubleshootingMessages(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(repositoryRoot, "docs/troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("(?ms)^```text\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	if len(quoted) < 10 {
		t.Fatalf("found %d messages in the page, want at least 10", len(quoted))
	}
	literals := strings.Join(stringLiterals(t), "\n")
	for _, block := range quoted {
		for message := range strings.Lines(block[1]) {
			for fragment := range strings.SplitSeq(strings.TrimSpace(message), "…") {
				if fragment = strings.TrimSpace(fragment); !strings.Contains(literals, fragment) {
					t.Errorf("no message of the program has %q, from %q", fragment, strings.TrimSpace(message))
				}
			}
		}
	}
}

// stringLiterals returns the string literals in the program's source, without its tests. Concatenated literals are one.
func stringLiterals(t *testing.T) (all []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(repositoryRoot), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(gotoken.NewFileSet(), filepath.Join(repositoryRoot, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if text, ok := literal(node); ok {
				all = append(all, text)
				return false
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// literal returns the text of a string literal, or of several concatenated ones.
func literal(node ast.Node) (text string, ok bool) {
	switch node := node.(type) {
	case *ast.BasicLit:
		if node.Kind == gotoken.STRING {
			text, err := strconv.Unquote(node.Value)
			return text, err == nil
		}
	case *ast.BinaryExpr:
		left, leftOK := literal(node.X)
		right, rightOK := literal(node.Y)
		return left + right, leftOK && rightOK
	}
	return "", false
}
