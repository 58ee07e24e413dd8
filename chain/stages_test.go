package chain_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestStagesEmbedNoOther: no struct of a stage embeds the state of another one. Plain data (facts) may be embedded.
func TestStagesEmbedNoOther(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("internal/*/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	own, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(files, own...) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			object, ok := n.(*ast.StructType)
			if !ok {
				return true
			}
			for _, f := range object.Fields.List {
				if stage := embedded(f); slices.Contains([]string{"plan", "run", "ledger", "answer", "request"}, stage) {
					t.Errorf("%s embeds a struct of %s", name, stage)
				}
			}
			return true
		})
	}
}

// embedded returns the package of an embedded field, or its type if it is of the same package; "" for a field with a name.
func embedded(f *ast.Field) string {
	if len(f.Names) > 0 {
		return ""
	}
	of := f.Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	switch of := of.(type) {
	case *ast.SelectorExpr:
		return of.X.(*ast.Ident).Name
	case *ast.Ident:
		return of.Name
	}
	return ""
}
