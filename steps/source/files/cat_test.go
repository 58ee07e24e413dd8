package files_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/text/encoding/unicode"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/source/files"
)

// inWords is a result in one short line.
func (c *catResult) inWords() string {
	b, err := json.Marshal(c)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestCat(t *testing.T) {
	t.Parallel()
	utf16 := func(order unicode.Endianness, text string) string {
		encoded, err := unicode.UTF16(order, unicode.UseBOM).NewEncoder().String(text)
		must(t, err)
		return encoded
	}
	s, _ := open(t, map[string]string{
		"five": "1\n2\n3\n4\n5\n", "noend": "1\n2", "empty": "", "crlf": "a\r\nb\r\n", "blank": "\n\n", "latin": "caf\xe9\n",
		"bom": "\xef\xbb\xbf{}",
		"png": "\x89PNG\r\n\x1a\n\x00\x00", "late": strings.Repeat("text\n", 100_000) + "\x00", "le": utf16(unicode.LittleEndian, "é\nb\n"),
		"be": utf16(unicode.BigEndian, "é\nb\n"),
	})
	for args, want := range map[string]string{
		`{"path":"five"}`:                         `{"from":1,"lines":5,"size":10,"text":"1\n2\n3\n4\n5\n","to":5}`,
		`{"path":"five","head":2}`:                `{"from":1,"lines":5,"size":10,"text":"1\n2\n","to":2}`,
		`{"path":"five","head":0}`:                `{"from":1,"lines":5,"size":10,"text":"","to":0}`,
		`{"path":"five","head":99}`:               `{"from":1,"lines":5,"size":10,"text":"1\n2\n3\n4\n5\n","to":5}`,
		`{"path":"five","tail":2}`:                `{"from":4,"lines":5,"size":10,"text":"4\n5\n","to":5}`,
		`{"path":"five","tail":0}`:                `{"from":6,"lines":5,"size":10,"text":"","to":5}`,
		`{"path":"five","tail":99}`:               `{"from":1,"lines":5,"size":10,"text":"1\n2\n3\n4\n5\n","to":5}`,
		`{"path":"five","from":2,"to":3}`:         `{"from":2,"lines":5,"size":10,"text":"2\n3\n","to":3}`,
		`{"path":"five","from":4}`:                `{"from":4,"lines":5,"size":10,"text":"4\n5\n","to":5}`,
		`{"path":"five","to":1}`:                  `{"from":1,"lines":5,"size":10,"text":"1\n","to":1}`,
		`{"path":"five","from":6,"to":9}`:         `{"from":6,"lines":5,"size":10,"text":"","to":5}`,
		`{"path":"five","from":9007199254740992}`: `{"from":9007199254740992,"lines":5,"size":10,"text":"","to":9007199254740991}`,
		`{"path":"noend"}`:                        `{"from":1,"lines":2,"size":3,"text":"1\n2","to":2}`,
		`{"path":"noend","tail":1}`:               `{"from":2,"lines":2,"size":3,"text":"2","to":2}`,
		`{"path":"empty"}`:                        `{"from":1,"lines":0,"size":0,"text":"","to":0}`,
		`{"path":"blank","tail":1}`:               `{"from":2,"lines":2,"size":2,"text":"\n","to":2}`,
		`{"path":"crlf","head":1}`:                `{"from":1,"lines":2,"size":6,"text":"a\r\n","to":1}`,
		`{"path":"latin"}`:                        `{"from":1,"invalidUTF8":true,"lines":1,"size":5,"text":"caf` + "\uFFFD" + `\n","to":1}`,
		`{"path":"bom"}`:                          `{"from":1,"lines":1,"size":5,"text":"{}","to":1}`,
		`{"path":"png"}`:                          `{"binary":true,"size":10,"type":"image/png"}`,
		`{"path":"late"}`:                         `{"binary":true,"size":500001,"type":"text/plain; charset=utf-8"}`,
		`{"path":"le","head":1}`:                  `{"encoding":"utf-16le","from":1,"lines":2,"size":10,"text":"é\n","to":1}`,
		`{"path":"be"}`:                           `{"encoding":"utf-16be","from":1,"lines":2,"size":10,"text":"é\nb\n","to":2}`,
	} {
		raw, err := rawCall(t, s, "fs.cat", args)
		must(t, err)
		var members map[string]any
		must(t, json.Unmarshal(raw, &members))
		delete(members, "path")
		if got, err := json.Marshal(members); err != nil || string(got) != want {
			t.Errorf("%s\n got %s\nwant %s", args, got, want)
		}
	}
	for _, bad := range []string{`"head":1,"tail":1`, `"head":1,"from":1`, `"tail":1,"to":1`, `"from":3,"to":2`, `"head":-1`, `"from":0`,
		`"head":1,"from":1,"to":1`} {
		fails(t, s, "fs.cat", `{"path":"five",`+bad+`}`, fault.BadArguments)
	}
	fails(t, s, "fs.cat", `{}`, fault.BadArguments)
}

// TestCatLarge checks that of a file above the bound the same lines come as of one below it.
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
			if got.Truncated { // only what is longer than the bound; what follows can be asked for
				rest := do[catResult](t, small, "fs.cat", fmt.Sprintf(`{"path":%q,"from":%d,"to":%d}`, name, got.Next, *want.To))
				*got.Text += *rest.Text
			}
			if *got.Text != *want.Text || got.From != nil && *got.From != *want.From || got.Lines != nil && *got.Lines != *want.Lines {
				t.Fatalf("%s: %s, below the bound %s", args, got.inWords(), want.inWords())
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
		"late":  strings.Repeat("text\n", 1000) + "\x00\n",
		"utf16": "\xff\xfe" + strings.Repeat("a\x00\n\x00", 1000),
	})
	sparse, err := os.Create(filepath.Join(root, "sparse"))
	must(t, err)
	must(t, sparse.Truncate(1<<40))
	must(t, sparse.Close())
	for _, args := range []string{`{"path":"lines"}`, `{"path":"sparse"}`, `{"path":"longline","from":2}`,
		`{"path":"longline","from":2,"to":2}`, `{"path":"longline","tail":2}`,
		`{"path":"lines","tail":999}`, `{"path":"utf16","tail":2}`} {
		fails(t, s, "fs.cat", args, fault.LimitExceeded)
	}
	if got := do[catResult](t, s, "fs.cat", `{"path":"lines","head":500}`); !got.Truncated || got.Next != 182 || *got.To != 181 ||
		len(*got.Text) != 181*11 {
		t.Errorf("%s", got.inWords())
	}
	if got := do[catResult](t, s, "fs.cat", `{"path":"longline","from":3}`); *got.Text != "last\n" || *got.Lines != 3 {
		t.Errorf("%s", got.inWords())
	}
	if got := do[catResult](t, s, "fs.cat", `{"path":"utf16","from":999}`); *got.Text != "a\na\n" || got.Encoding != "utf-16le" {
		t.Errorf("%s", got.inWords())
	}
	for _, args := range []string{`{"path":"sparse","head":1}`, `{"path":"sparse","tail":1}`, `{"path":"sparse","from":5}`,
		`{"path":"late","tail":1}`, `{"path":"late","from":2000}`} {
		if got := do[catResult](t, s, "fs.cat", args); !got.Binary || got.Text != nil {
			t.Errorf("%s: %s", args, got.inWords())
		}
	}
	got := do[grepResult](t, s, "fs.grep", `{"pattern":"x|0123"}`)
	if got.Count != 1000 || len(got.Skipped) != 2 || got.Skipped[0] != (skip{"binary", 2, "late"}) ||
		got.Skipped[1] != (skip{"long_line", 1, "longline"}) {
		t.Errorf("%d matches, skipped %v", got.Count, got.Skipped)
	}
}
