package files

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzOutline: for any text, each symbol has a name and lies within the lines of the text, and the order is that of the lines.
func FuzzOutline(f *testing.F) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range append(names, "../../../docs/functions.md", "../../../README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, text := range []string{"", "\n", "# a", "a\n=", "---\n", "---\n---\n# a", "#\n# #", "package x\nfunc B( {", "package x\nfunc (", "package x\ntype T struct {",
		"package x\nvar x =", "package x\nfunc (a []int) B()", "package x\ntype (", "- # a\n\n> # b", "\r# a\r\n# b\r"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		lines := countLines(text)
		for extension, outline := range outlines {
			symbols, _ := outline(text)
			before := 1
			for _, s := range symbols {
				if s.Symbol == "" || s.From < before || s.To < s.From || s.To > lines {
					t.Fatalf("%s: %+v after line %d, in %d lines", extension, s, before, lines)
				}
				if _, f := lookUp(symbols, s.Symbol); f != nil && f.At != "/symbol" {
					t.Fatal(f)
				}
				before = s.From
			}
		}
	})
}
