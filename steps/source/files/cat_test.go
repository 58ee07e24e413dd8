package files_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/files"
)

// asJSON returns a result as one short line.
func (c *catResult) asJSON() string {
	b, err := json.Marshal(c)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// TestCatLarge: a file above the bound gives the same lines as a file below it.
func TestCatLarge(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	small, large := openAt(t, &files.Options{Root: root, MaxFileBytes: 1024}), openAt(t, &files.Options{Root: root})
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		for text.Len() <= 1024 {
			text.WriteString(strings.Repeat("é", rapid.IntRange(0, 40).Draw(t, "length")))
			text.WriteString(rapid.SampledFrom([]string{"\n", "\r\n", "\n\n"}).Draw(t, "end"))
		}
		text.WriteString(rapid.SampledFrom([]string{"", "end"}).Draw(t, "last"))
		n++
		name := fmt.Sprint(n)
		must(t, os.WriteFile(filepath.Join(root, name), []byte(text.String()), 0o644))
		lines := strings.Count(text.String(), "\n")
		if strings.HasSuffix(text.String(), "end") {
			lines++
		}
		from := rapid.IntRange(1, lines+2).Draw(t, "from")
		for _, pairs := range [][]any{{"head", from}, {"tail", rapid.IntRange(0, 5).Draw(t, "tail")},
			{"from", from, "to", from + rapid.IntRange(0, 5).Draw(t, "to")}, {"from", max(1, lines-2)}} {
			args := args(t, append(pairs, "path", name)...)
			want := do[catResult](t, large, "fs.cat", args)
			got := do[catResult](t, small, "fs.cat", args)
			if got.Truncated { // a result above the bound; the rest can be requested
				rest := do[catResult](t, small, "fs.cat", fmt.Sprintf(`{"path":%q,"from":%d,"to":%d}`, name, got.Next, *want.To))
				*got.Text += *rest.Text
			}
			if *got.Text != *want.Text || got.From != nil && *got.From != *want.From || got.Lines != nil && *got.Lines != *want.Lines {
				t.Fatalf("%s: %s, below the bound %s", args, got.asJSON(), want.asJSON())
			}
		}
	})
}

func TestCatBounds(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s := openAt(t, &files.Options{Root: root, MaxFileBytes: 2000})
	writeTree(t, root, map[string]string{
		"lines": strings.Repeat("0123456789\n", 1000), "longline": "short\n" + strings.Repeat("x", 3000) + "\nlast\n",
		"late":    strings.Repeat("text\n", 1000) + "\x00\n",
		"code.go": "package p\n" + strings.Repeat("// line\n", 1000),
		"utf16":   "\xff\xfe" + strings.Repeat("a\x00\n\x00", 1000),
	})
	sparse, err := os.Create(filepath.Join(root, "sparse"))
	must(t, err)
	must(t, sparse.Truncate(1<<40))
	must(t, sparse.Close())
	for _, args := range []string{`{"path":"lines"}`, `{"path":"sparse"}`, `{"path":"longline","from":2}`,
		`{"path":"longline","from":2,"to":2}`, `{"path":"longline","tail":2}`,
		`{"path":"code.go","outline":true}`, `{"path":"code.go","symbol":"x"}`, `{"path":"lines","tail":999}`, `{"path":"utf16","tail":2}`} {
		mustFail(t, s, "fs.cat", args, fault.LimitExceeded)
	}
	if got := do[catResult](t, s, "fs.cat", `{"path":"lines","head":500}`); !got.Truncated || got.Next != 182 || *got.To != 181 ||
		len(*got.Text) != 181*11 {
		t.Errorf("got %s, want lines 1 to 181, and 182 as next", got.asJSON())
	}
	if got := do[catResult](t, s, "fs.cat", `{"path":"longline","from":3}`); *got.Text != "last\n" || *got.Lines != 3 {
		t.Errorf("got %s, want last as line 3", got.asJSON())
	}
	if got := do[catResult](t, s, "fs.cat", `{"path":"utf16","from":999}`); *got.Text != "a\na\n" || got.Encoding != "utf-16le" {
		t.Errorf("got %s, want two lines in utf-16le", got.asJSON())
	}
	for _, args := range []string{`{"path":"sparse","head":1}`, `{"path":"sparse","tail":1}`, `{"path":"sparse","from":5}`,
		`{"path":"late","tail":1}`, `{"path":"late","from":2000}`} {
		if got := do[catResult](t, s, "fs.cat", args); !got.Binary || got.Text != nil {
			t.Errorf("%s: got %s, want binary without text", args, got.asJSON())
		}
	}
	got := do[grepResult](t, s, "fs.grep", `{"pattern":"x|0123"}`)
	if got.Count != 1000 || len(got.Skipped) != 2 || got.Skipped[0] != (skip{"binary", 2, "late"}) ||
		got.Skipped[1] != (skip{"long_line", 1, "longline"}) {
		t.Errorf("got %d matches, skipped %v, want 1000 matches, binary in 2 files, late first, and a long line in longline", got.Count, got.Skipped)
	}
}

// TestCatBlocks: a binary file is a block, up to what a result may have; with a digest or lines, it is described.
func TestCatBlocks(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	png := "\x89PNG\r\n\x1a\n\x00"
	writeTree(t, root, map[string]string{"a.png": png, "large": png + strings.Repeat("x", 300<<10), "huge": png + strings.Repeat("x", 400<<10),
		"text": strings.Repeat("text\n", 60<<10)})
	s := openAt(t, &files.Options{Root: root, MaxFileBytes: 200 << 10, MaxKeptBytes: 350 << 10})
	cat := func(args string) string {
		raw, err := rawCall(t, s, "fs.cat", args)
		if err != nil {
			return string(fault.CodeOf(err))
		}
		return string(raw)
	}
	for args, want := range map[string]string{
		`{"path":"a.png"}`:          `{"type":"image","mimeType":"image/png","size":9,"data":"` + steps.Digest([]byte(png)) + `"}`,
		`{"path":"large"}`:          `{"type":"image","mimeType":"image/png","size":307209,"data":"` + steps.Digest([]byte(png+strings.Repeat("x", 300<<10))) + `"}`,
		`{"path":"huge"}`:           "limit_exceeded",
		`{"path":"text"}`:           "limit_exceeded",
		`{"path":"a.png","head":1}`: `{"path":"a.png","size":9,"binary":true,"type":"image/png"}`,
	} {
		if got := cat(args); got != want {
			t.Errorf("%s: got %s, want %s", args, got, want)
		}
	}
	if got := cat(`{"path":"a.png","digest":true}`); !strings.HasPrefix(got, `{"path":"a.png","size":9,"binary":true,"type":"image/png","digest":"`) {
		t.Errorf("with a digest: %s", got)
	}
}
