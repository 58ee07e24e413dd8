package files

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
)

// shownLine is a matching line with its context.
type shownLine struct {
	number        int
	text          string
	before, after []string
}

func (l shownLine) String() string {
	return fmt.Sprintf("%d: %q %q %q", l.number, l.text, l.before, l.after)
}

// naiveScan finds matching lines in the simplest way.
func naiveScan(re *regexp.Regexp, text string, around int) []shownLine {
	var shown []shownLine
	lines := strings.Split(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\r")
	}
	for i, l := range lines {
		if re.MatchString(l) {
			shown = append(shown, shownLine{i + 1, l, lines[max(0, i-around):i], lines[i+1 : min(len(lines), i+1+around)]})
		}
	}
	return shown
}

var patterns = []string{"abc", "a", "b+", "ab|bc", "(?i)ABC", "(?i)kiss", "^a", "c$", `\bab\b`, "a.*c", "[ac]{2}", "", "x*",
	"(?i)abc|b|é", "(abc)", "abc|(?i:cab)",
	"(?:ab)+c", "é", "(?i)é", "a?bc", "(?i)s", "[^a]", `\s`, `\r`, "(?i)[a]b_c", "a b"}

// TestScanner compares the scanner, with a buffer so small that files need many windows, with the naive search.
func TestScanner(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("aabbccABCké_ \n\n\r\u212asſS")), 0, 400, -1).Draw(t, "text")
		around := rapid.IntRange(0, 3).Draw(t, "around")
		source := rapid.SampledFrom(patterns).Draw(t, "pattern")
		p, err := compilePattern(&grepArgs{Pattern: source})
		must(t, err)
		must(t, os.WriteFile(file, []byte(text), 0o644))
		f, err := os.Open(file)
		must(t, err)
		defer f.Close()
		size := int64(len(text))
		if rapid.Bool().Draw(t, "size is not known") {
			size = 0
		}
		s := &scanner{finder: newFinder(p), buf: make([]byte, rapid.IntRange(1, 64).Draw(t, "buffer")), maxBytes: 4096}
		var got []shownLine
		left := int64(1 << 20)
		var invalid bool
		err = s.scan(context.Background(), f, size, around, func(text []byte, l line) bool {
			m := showMatch(text, l, around, &left, &invalid)
			got = append(got, shownLine{s.number(l.start), m.Text, m.Before, m.After})
			return true
		})
		must(t, err)
		want := naiveScan(regexp.MustCompile(source), text, around)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%q in %q\n got %v\nwant %v", source, text, got, want)
		}
	})
}

// FuzzPattern searches any text for any pattern: it fails with a code, or finds the lines that the naive search finds.
func FuzzPattern(f *testing.F) {
	for _, source := range patterns {
		f.Add(source, "abc\nABC\r\na b_c\xff kiss KI\u017fS\n\n\u212aiss", false)
	}
	f.Fuzz(func(t *testing.T, source, text string, ignoreCase bool) {
		p, err := compilePattern(&grepArgs{Pattern: source, IgnoreCase: ignoreCase})
		if err != nil {
			if fault.CodeOf(err) != fault.BadArguments {
				t.Fatalf("%q: got %v, want bad_arguments", source, err)
			}
			return
		}
		var got, want []int
		f := newFinder(p)
		f.reset([]byte(text))
		for pos := 0; ; {
			l, ok := f.find(context.Background(), pos)
			if !ok {
				break
			}
			got, pos = append(got, 1+strings.Count(text[:l.start], "\n")), l.next
		}
		for _, l := range naiveScan(p.re, text, 0) {
			want = append(want, l.number)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q in %q: lines %v, want %v", source, text, got, want)
		}
	})
}

// TestRequiredLiterals checks which patterns are searched by a literal, because the speed depends on it.
func TestRequiredLiterals(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"abc": "abc!", `func \w+Handler\(`: "Handler(", "TODO|FIXME": "TODO FIXME!", "(?i)Unmarshal": "unmar", "(?i)Index": "index!",
		"(abc)":    "abc!",
		"(?:abc)+": "abc", "a|bcd|e.*f": "", "[0-9]+": "", "": "", "(foo|ba).*xyz": "xyz", "abc|[0-9]": "", `\bword\b`: "word",
		"(?i)kkss": "", "(ab|cd)*": "",
	} {
		p, err := compilePattern(&grepArgs{Pattern: source})
		must(t, err)
		var texts []string
		for _, l := range p.literals {
			texts = append(texts, string(l.text))
		}
		got := strings.Join(texts, " ")
		if p.exact {
			got += "!"
		}
		if source == "a|bcd|e.*f" { // it does not matter whether e or f is used
			if len(texts) != 3 {
				t.Errorf("%s: %q, want 3", source, texts)
			}
			continue
		}
		if got != want {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}

// TestLongLines: matching a line piece by piece gives the same result as matching it whole, and stops when ctx is done.
func TestLongLines(t *testing.T) {
	t.Parallel()
	text := []byte(strings.Repeat("é\xff", longMatch) + "abab \u212aiss")
	for _, source := range patterns {
		p, err := compilePattern(&grepArgs{Pattern: source})
		must(t, err)
		if got, want := p.match(context.Background(), text), p.re.FindIndex(text); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", source, got, want)
		}
	}
	p, err := compilePattern(&grepArgs{Pattern: "(x+x+)+y|(?:.?){900}abab"})
	must(t, err)
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if got := p.match(cancelled, text); got != nil {
		t.Errorf("got a match %v with a cancelled context, want none", got)
	}
}

func TestCutAround(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 1000, -1).Draw(t, "text")
		at := rapid.IntRange(0, len(text)).Draw(t, "at")
		shown, cut := cutAround([]byte(text), at)
		inside := strings.TrimSuffix(strings.TrimPrefix(shown, "…"), "…")
		switch {
		case !cut && shown != text, cut && len([]rune(shown)) > maxShown+2, cut && !strings.Contains(text, inside):
			t.Fatalf("cutAround(%q, %d) = %q, want a part of the text of at most %d characters", text, at, shown, maxShown)
		}
	})
	long := strings.Repeat("é", 300) + "needle" + strings.Repeat("x", 1000)
	shown, cut := cutAround([]byte(long), 600)
	if runes := []rune(shown); !cut || len(runes) != maxShown+2 || !slices.Equal(runes[101:107], []rune("needle")) {
		t.Errorf("got %q, want %d characters with needle after 100", shown, maxShown)
	}
}

func must(t interface{ Fatal(args ...any) }, err error) {
	if err != nil {
		t.Fatal(err)
	}
}
