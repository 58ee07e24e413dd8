package bench

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// symbol is a function of Go source, as a server for source code knows it.
type symbol struct {
	ID        string   `json:"symbolId"`
	Name      string   `json:"name"`
	Kind      string   `json:"kind"` // "function" or "method"
	File      string   `json:"file"`
	Line      int      `json:"line"`
	EndLine   int      `json:"endLine"`
	Exported  bool     `json:"exported"`
	Signature string   `json:"signature"`
	Doc       string   `json:"doc,omitempty"`
	Calls     []string `json:"calls,omitempty"`
	CalledBy  []string `json:"calledBy,omitempty"`

	body []string // its lines
}

// match is a symbol in the answer of a search.
type match struct {
	ID        string `json:"symbolId"`
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	File      string `json:"file"`
	Line      int    `json:"line"`
	Signature string `json:"signature"`
	Summary   string `json:"summary,omitempty"`
}

// readSymbols reads the functions of a folder's Go files, without tests, sorted by their ids.
func readSymbols(folder string) ([]*symbol, error) {
	fset := token.NewFileSet()
	var all []*symbol
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != ".go" || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(fset, entry.Name(), text, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		lines := strings.Split(string(text), "\n")
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil && f.Name.Name != "init" {
				all = append(all, newSymbol(fset, f, lines))
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: %w: no Go functions", folder, fs.ErrNotExist)
	}
	linkCalls(all)
	slices.SortFunc(all, func(a, b *symbol) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

func newSymbol(fset *token.FileSet, f *ast.FuncDecl, lines []string) *symbol {
	start, end := fset.Position(f.Pos()), fset.Position(f.End())
	s := &symbol{Name: f.Name.Name, Kind: "function", File: start.Filename, Line: start.Line, EndLine: end.Line, Exported: f.Name.IsExported(),
		Doc: strings.TrimSpace(f.Doc.Text()), body: lines[start.Line-1 : end.Line]}
	called := map[string]bool{}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			switch fn := call.Fun.(type) {
			case *ast.Ident:
				called[fn.Name] = true
			case *ast.SelectorExpr:
				called[fn.Sel.Name] = true
			}
		}
		return true
	})
	s.Calls = slices.Sorted(maps.Keys(called))
	if f.Recv != nil {
		s.Kind = "method"
		s.Name = strings.Trim(source(f.Recv.List[0].Type), "*") + "." + s.Name
	}
	f.Body, f.Doc = nil, nil // so that source prints only the signature
	s.Signature = source(f)
	s.ID = start.Filename + "#" + s.Name
	return s
}

// source returns a node as gofmt writes it.
func source(node any) string {
	var b strings.Builder
	_ = format.Node(&b, token.NewFileSet(), node) // never fails for a parsed node
	return b.String()
}

// linkCalls reduces the calls of each symbol to those of other symbols, and sets their callers. Names that several symbols share are left
// out.
func linkCalls(all []*symbol) {
	byName := map[string][]*symbol{}
	for _, s := range all {
		name := s.Name[strings.LastIndex(s.Name, ".")+1:]
		byName[name] = append(byName[name], s)
	}
	for _, s := range all {
		var calls []string
		for _, name := range s.Calls {
			if named := byName[name]; len(named) == 1 && named[0] != s {
				calls = append(calls, named[0].Name)
				named[0].CalledBy = append(named[0].CalledBy, s.Name)
			}
		}
		s.Calls = calls
	}
}

// search finds symbols by a substring of their names, the shortest names first.
func search(all []*symbol, query string, limit int) (matches []match, total int) {
	var hits []*symbol
	for _, s := range all {
		if strings.Contains(strings.ToLower(s.Name), strings.ToLower(query)) {
			hits = append(hits, s)
		}
	}
	slices.SortStableFunc(hits, func(a, b *symbol) int { return cmp.Compare(len(a.Name), len(b.Name)) })
	for _, s := range hits[:min(limit, len(hits))] {
		summary, _, _ := strings.Cut(s.Doc, "\n")
		matches = append(matches, match{s.ID, s.Name, s.Kind, s.File, s.Line, s.Signature, summary})
	}
	return matches, len(hits)
}

// skeleton returns the source of the symbol reduced to its control flow. An ellipsis replaces each run of other lines.
func (s *symbol) skeleton() string {
	var lines []string
	for i, line := range s.body {
		text := strings.TrimSpace(line)
		if i == 0 || i == len(s.body)-1 || controls(text) {
			lines = append(lines, line)
		} else if last := strings.TrimSpace(lines[len(lines)-1]); last != "…" && text != "" {
			lines = append(lines, line[:len(line)-len(strings.TrimLeft(line, "\t"))]+"…")
		}
	}
	return strings.Join(lines, "\n")
}

// controls reports whether a line belongs to the control flow.
func controls(line string) bool {
	if line == "" {
		return false
	}
	first, _, _ := strings.Cut(line, " ")
	switch strings.TrimRight(first, "{:") {
	case "if", "for", "switch", "select", "case", "default", "return", "defer", "go", "}", "})", "": // "" is what is left of a lone {
		return true
	}
	return false
}

func TestSymbols(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	const source = `package shop

// Total adds up a cart.
// All of it.
func Total(c *Cart) int {
	sum := 0
	x := 1
	for _, item := range c.Items {
		sum += price(item)
	}

	if sum > x {
		return sum
	}
	return 0
}

func (c *Cart) Totals() int { return Total(c) }

func price(string) int { return 1 }
`
	for name, text := range map[string]string{"shop.go": source, "shop_test.go": "package shop\n\nfunc TestTotal() {}\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	all, err := readSymbols(folder)
	if err != nil {
		t.Fatal(err)
	}
	matches, total := search(all, "total", 1)
	first := match{"shop.go#Total", "Total", "function", "shop.go", 5, "func Total(c *Cart) int", "Total adds up a cart."}
	if total != 2 || len(matches) != 1 || matches[0] != first {
		t.Errorf("search returns %+v of %d, want %+v of 2", matches, total, first)
	}
	s := all[1]
	if s.Name != "Total" || strings.Join(s.Calls, " ") != "price" || strings.Join(s.CalledBy, " ") != "Cart.Totals" {
		t.Errorf("the symbol is %+v, want Total, which calls price and is called by Cart.Totals", s)
	}
	const want = `func Total(c *Cart) int {
	…
	for _, item := range c.Items {
		…
	}
	if sum > x {
		return sum
	}
	return 0
}`
	if got := s.skeleton(); got != want {
		t.Errorf("the skeleton is\n%s\nwant\n%s", got, want)
	}
	if got := longestWord("Server.AddHTTPMiddleware"); got != "HTTPMiddleware" {
		t.Errorf("longestWord returns %q, want HTTPMiddleware", got)
	}
}
