package exprs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/transcript"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/exprs"
	"github.com/onecall-mcp/onecall/steps/stepstest"
)

func invoke(ctx context.Context, s *exprs.Source, name, args string) (string, error) {
	for _, fn := range s.Functions() {
		if fn.Name == name {
			result, err := fn.Call(ctx, []byte(args))
			return string(result), err
		}
	}
	return "", fmt.Errorf("no function %s", name)
}

func TestConformance(t *testing.T) {
	args := map[string]string{
		"expr.eval":    `{"expression":"a + 1","vars":{"a":2}}`,
		"text.match":   `{"text":"a1b2","pattern":"[a-z](\\d)","all":true}`,
		"text.replace": `{"text":"a1b2","pattern":"\\d","with":"#"}`,
	}
	for _, fn := range exprs.New().Functions() {
		if args[fn.Name] == "" {
			t.Errorf("no arguments for %s: it is not tested", fn.Name)
		}
	}
	stepstest.Run(t, stepstest.Options{
		New:  func(*testing.T) steps.Source { return exprs.New() },
		Args: args,
		Fails: map[string][]string{
			"expr.eval":    {`{"expression":"a +"}`},
			"text.match":   {`{"text":"a","pattern":"("}`},
			"text.replace": {`{"text":"a","pattern":"(","with":""}`, `{"text":"a","pattern":"a","with":"$1"}`},
		},
	})
}

// TestCalls makes the calls of testdata/calls.txt; the indented line is the answer.
func TestCalls(t *testing.T) {
	t.Parallel()
	transcript.FileLines(t, "testdata/calls.txt", func(call string) string {
		fn, args, _ := strings.Cut(call, " ")
		result, err := invoke(t.Context(), exprs.New(), fn, args)
		if f, ok := fault.As(err); ok {
			message, _, _ := strings.Cut(f.Message, ": json") // the rest of the message differs from build to build
			return fmt.Sprintf("%s at %q: %s", f.Code, f.At, message)
		}
		return result
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fn, args string
		code     fault.Code
		at       string
	}{
		{"text.match", `{"text":"a","pattern":"` + strings.Repeat("a", 4<<10+1) + `"}`, fault.BadArguments, "/pattern"},
		{"text.match", `{"text":"a","pattern":"` + strings.Repeat("(k){1000}", 400) + `"}`, fault.BadArguments, "/pattern"},
		{"text.replace", `{"text":"a","pattern":"` + strings.Repeat("(a?)", 1000) + `","with":""}`, fault.BadArguments,
			"/pattern"},
		{"text.match", `{"text":"` + strings.Repeat("a", 2<<20) + `","pattern":"(a{500}){2}"}`, fault.LimitExceeded, ""},
		{"text.match", `{"text":"` + strings.Repeat("a", 100_000) + `","pattern":"a*?","all":true}`, fault.LimitExceeded, ""},
		{"text.match", `{"text":"` + strings.Repeat("a", 99_999) + `","pattern":"` + "(?P<" + strings.Repeat("n",
			1000) + ">)" + `","all":true}`, fault.LimitExceeded, ""},
		{"text.replace", `{"text":"` + strings.Repeat("a", 100_000) + `","pattern":"a","with":"` + strings.Repeat("b", 1000) + `"}`,
			fault.LimitExceeded, ""},
	} {
		got, err := invoke(t.Context(), exprs.New(), test.fn, test.args)
		if f, _ := fault.As(err); f == nil || f.Code != test.code || f.At != test.at {
			t.Errorf("%s %.100s: got %.200s, %v; want %s at %q", test.fn, test.args, got, err, test.code, test.at)
		}
	}
}

// patterns for the comparison with the standard library. Some look back beyond the position where a search continues.
var patterns = []string{`a`, `a*`, `a*?`, ``, `\b`, `\B`, `^`, `(?m)^`, `(?m)$`, `$`, `\z`, `\Aa`, `(?m)^a|b`, `(a)(b)?`, `\bä`, `a|ab`,
	`ab|a`,
	`(?i)A+`, `[^a]`, `(?s).`, `.*`, `.+?`, `\w+`, `(a|b)*`, `x*|b`, `\Qa`, `(?P<n>a)|(?P<m>b)`, `(?U)a+`, `a$|\n`}

func TestMatchesAsTheStandardLibrary(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		source := rapid.SampledFrom(patterns).Draw(t, "pattern")
		text := rapid.StringOfN(rapid.RuneFrom([]rune("abä \n日A_")), 0, 12, -1).Draw(t, "text")
		args, err := json.Marshal(map[string]any{"text": text, "pattern": source, "all": true})
		if err != nil {
			t.Fatal(err)
		}
		result, err := invoke(t.Context(), exprs.New(), "text.match", string(args))
		if err != nil {
			t.Fatalf("%q: %v", source, err)
		}
		re := regexp.MustCompile(source)
		want := []textMatch{}
		for _, indexes := range re.FindAllStringSubmatchIndex(text, -1) {
			want = append(want, newTextMatch(re, text, indexes))
		}
		if all, err := json.Marshal(want); err != nil || string(all) != result {
			t.Fatalf("%q in %.50q: got %.200s, want %.200s, %v", source, text, result, all, err)
		}
	})
}

func TestClosed(t *testing.T) {
	t.Parallel()
	s := exprs.New()
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := invoke(t.Context(), s, "expr.eval", `{"expression":"1"}`); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("got %v, want unavailable", err)
	}
}

func FuzzReplacement(f *testing.F) {
	for _, with := range []string{`\1`, `\g<n>`, `\\`, `\$1`, `$`, `$1`, `\g<`, `x\0y`, `\12`} {
		f.Add(with)
	}
	f.Fuzz(func(t *testing.T, with string) {
		args, err := json.Marshal(map[string]string{"text": "abab", "pattern": "(?P<n>a)b", "with": with})
		if err != nil {
			t.Fatal(err)
		}
		result, err := invoke(t.Context(), exprs.New(), "text.replace", string(args))
		if err != nil && fault.CodeOf(err) != fault.BadArguments {
			t.Fatalf("%q: %v, want bad_arguments", with, err)
		}
		if err == nil && !json.Valid([]byte(result)) {
			t.Fatalf("%q: got %s, want JSON", with, result)
		}
	})
}

func BenchmarkMatchAll(b *testing.B) {
	text := strings.Repeat("level=info user=alice id=42 took=12ms\n", 10_000)
	s := exprs.New()
	for name, source := range map[string]string{"literal": `user=(\w+) id=(\d+)`, "none": `(\w+)=(\d+)\b`} {
		args, err := json.Marshal(map[string]any{"text": text, "pattern": source, "all": true})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name+"/search", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if result, err := invoke(b.Context(), s, "text.match", string(args)); err != nil || strings.Count(result, `"match"`) != 10_000 {
					b.Fatalf("%d matches, %v; want 10,000", strings.Count(result, `"match"`), err)
				}
			}
		})
		b.Run(name+"/baseline/regexp", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if n := len(regexp.MustCompile(source).FindAllStringSubmatchIndex(text, -1)); n != 10_000 {
					b.Fatalf("%d matches, want 10,000", n)
				}
			}
		})
	}
}

// textMatch is one match in an answer of text.match.
type textMatch struct {
	Match  string             `json:"match"`
	Groups []*string          `json:"groups"`
	ByName map[string]*string `json:"named"`
}

func newTextMatch(re *regexp.Regexp, text string, indexes []int) textMatch {
	m := textMatch{Match: text[indexes[0]:indexes[1]], Groups: []*string{}, ByName: map[string]*string{}}
	for i, name := range re.SubexpNames()[1:] {
		var group *string
		if start, end := indexes[2*i+2], indexes[2*i+3]; start >= 0 {
			value := text[start:end]
			group = &value
		}
		m.Groups = append(m.Groups, group)
		if name != "" {
			m.ByName[name] = group
		}
	}
	return m
}
