package files_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/transcript"
	"github.com/onecall-mcp/onecall/steps/source/files"
)

// trees are the trees of files for the transcripts.
var trees = map[string]map[string]string{
	"list": {"b.txt": "12345", "a/x/deep.txt": "", "a-b": "", ".hidden": "", ".git/config": "", "node/.gitignore": "*"},
	"find": {
		"main.go": "", "main_test.go": "", "src/a.go": "", "src/b.ts": "", "src/c.tsx": "", "src/sub/a.go": "", "src/.hidden.go": "",
		".config/x.go": "", "vendor/v.go": "", ".gitignore": "vendor/\n*.log\n!keep.log\n!.shown\n", "x.log": "", "keep.log": "",
		".shown": "", "src/.gitignore": "sub\n", ".git/x.go": "", "lit[1].txt": "", "sub/.git/HEAD": "", "sub/x.log": "",
	},
	"cat": {
		"five": "1\n2\n3\n4\n5\n", "noend": "1\n2", "empty": "", "crlf": "a\r\nb\r\n", "blank": "\n\n", "latin": "caf\xe9\n",
		"bom": "\xef\xbb\xbf{}", "png": "\x89PNG\r\n\x1a\n\x00\x00", "late": strings.Repeat("text\n", 100_000) + "\x00",
		"le": "\xff\xfe\xe9\x00\n\x00b\x00\n\x00", "be": "\xfe\xff\x00\xe9\x00\n\x00b\x00\n", // é\nb\n in UTF-16
	},
	"outline": {
		"shop.go": `package shop

import "fmt"

const ( // states
	Open, Closed = iota, 1
	_ = fmt.Sprint
)

// Order is
// what a customer asks for.
type Order[T any] struct {
	ID T // its number
}

//line other.go:1
func (o *Order[T]) Total(
	tax int,
) int { return tax }

type (
	// Shop sells.
	Shop interface{ Total() int }
	ID = int
)

func (s Cart) Close() {}
func (s Shop) Close() {}
func init() {}
func init() {}
`,
		"broken.go": "package x\n\nfunc A() {}\n\nfunc B( {\n", "empty.go": "", "x.py": "def f(): pass\n", "bin.go": "\x00",
		"guide.md": "---\ntitle: x\n---\nintro\n\n# Guide\ntext\n\n## Use `it`\n```sh\n# no heading\n```\n> # quoted\n\nMore\n----\n### Deep\n" +
			"## Use\n# End #\n#\n# End\n",
	},
	"change": {
		"w/a.txt": "one\ntwo\ntwo\n", "w/crlf": "a\r\nb\r\n", "w/le": "\xff\xfea\x00", "w/d/in": "", "w/deep/x": "", "other/y": "", "closed": "",
		"w/conf/onecall.yaml": "", "w/big": strings.Repeat("x", 200), "w/sub/.git/config": "",
	},
	"tree": {
		"b.txt": "", "a/x/deep/down.txt": "", "a/x/y.txt": "", "a-b": "", ".hidden": "", ".gitignore": "*.log\n", "a/x.log": "",
		"new\nline/f": "", "empty/": "",
	},
	"grep": {
		"a.go": "package a\n\nfunc Needle() {}\n\n// needle in prose\n", "b.ts": "let x = needle + needle\r\nneedles\r\n",
		"sub/c.md": "one\ntwo Needle\nthree\n", ".hidden": "needle", "ignored": "needle", ".gitignore": "ignored",
		"bin": "needle\x00", "latin": "needle caf\xe9 \xff\n", "a+b": "1+1=2 needle",
	},
	"top": {
		"src/shop/order.go": "// Order\nx := Order{}\ntype Order struct{}\ny := Order{}\nz := Order{}\n", "src/shop/cart.go": "Order Order\nOrder\n",
		"src/mail/mail.go": "Order\n", "src/shop/shop_test.go": "Order\nOrder\n", "notes.md": "Order\n", "one/two": "alone",
		"half/a/1": "pair", "half/b/1": "pair",
	},
}

// TestTranscripts makes the calls of testdata/calls.txtar; each file has the name of its tree. An answer is the whole result. The calls of
// change are made one after the other on the same tree.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	transcript.Each(t, "testdata/calls.txtar", func(t *testing.T, archive *txtar.Archive) {
		transcript.Replay(t, archive.Files, func(t *testing.T, section *txtar.File) string {
			root := t.TempDir()
			writeTree(t, root, trees[section.Name])
			o := files.Options{Root: root}
			if section.Name == "change" {
				o.Write, o.Guard, o.MaxKeptBytes = []string{"w", "w/deep", "other"}, []string{filepath.Join(root, "w", "conf", "onecall.yaml")}, 100
				must(t, os.Symlink("a.txt", filepath.Join(root, "w", "link")))
				must(t, os.Symlink("d", filepath.Join(root, "w", "dirlink")))
			}
			s := openAt(t, &o)
			return transcript.Lines(t, string(section.Data), func(call string) string {
				fn, args, _ := strings.Cut(call, " ")
				result, err := rawCall(t, s, fn, args)
				if f, ok := fault.As(err); ok {
					return fmt.Sprintf("%s at %q, offset %d: %s", f.Code, f.At, f.Offset, f.Message)
				}
				return string(result)
			})
		})
	})
}

// TestBadPatterns has patterns that are too long for a transcript, and calls that end before anything is read.
func TestBadPatterns(t *testing.T) {
	t.Parallel()
	s, _ := open(t, nil)
	for _, pattern := range []string{"", "/", "[", "a{b", `x\`, "!x", strings.Repeat("x", 1001), strings.Repeat("{a,b,c}", 20)} {
		mustFail(t, s, "fs.find", args(t, "pattern", pattern), fault.BadArguments)
	}
	for _, pattern := range []string{strings.Repeat(`\pL`, 51), strings.Repeat("x", 10_001)} {
		mustFail(t, s, "fs.grep", args(t, "pattern", pattern), fault.BadArguments)
	}
}
