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
	stepstest.Run(t, stepstest.Options{
		New: func(*testing.T) steps.Source { return exprs.New() },
		Args: map[string]string{
			"expr.eval":    `{"expression":"a + 1","vars":{"a":2}}`,
			"text.match":   `{"text":"a1b2","pattern":"[a-z](\\d)","all":true}`,
			"text.replace": `{"text":"a1b2","pattern":"\\d","with":"#"}`,
		},
		Fails: map[string][]string{
			"expr.eval":    {`{"expression":"a +"}`},
			"text.match":   {`{"text":"a","pattern":"("}`},
			"text.replace": {`{"text":"a","pattern":"(","with":""}`, `{"text":"a","pattern":"a","with":"$1"}`},
		},
	})
}

func TestCalls(t *testing.T) {
	t.Parallel()
	tests := []struct {
		fn, args, want string
		code           fault.Code
		at             string
	}{
		{fn: "expr.eval", args: `{"expression":"a + b","vars":{"a":1,"b":2}}`, want: `3`},
		{fn: "expr.eval", args: `{"expression":"1 + 2"}`, want: `3`},
		{fn: "expr.eval", args: `{"expression":"xs[0].n > 1 && len(xs) == 2","vars":{"xs":[{"n":2},{}]}}`, want: `true`},
		{fn: "expr.eval", args: `{"expression":"a +","vars":{"a":1}}`, code: fault.BadExpression},
		{fn: "expr.eval", args: `{"expression":""}`, code: fault.BadExpression},
		{fn: "expr.eval", args: `{"vars":{}}`, code: fault.BadArguments},
		{fn: "expr.eval", args: `{"expression":"1","vars":[]}`, code: fault.BadArguments, at: "/vars"},
		{fn: "expr.eval", args: `{"expression":"1","vars":null}`, code: fault.BadArguments, at: "/vars"},
		{fn: "expr.eval", args: `{"expression":1}`, code: fault.BadArguments},
		{fn: "expr.eval", args: `{"expression":"1","x":2}`, code: fault.BadArguments},
		{fn: "expr.eval", args: ``, code: fault.BadArguments},

		{fn: "text.match", args: `{"text":"on 2024-05-06","pattern":"(?P<y>\\d+)-(\\d+)"}`,
			want: `{"match":"2024-05","groups":["2024","05"],"named":{"y":"2024"}}`},
		{fn: "text.match", args: `{"text":"<b>&","pattern":"<.>|(x)"}`, want: `{"match":"<b>","groups":[null],"named":{}}`},
		{fn: "text.match", args: `{"text":"abc","pattern":"x"}`, want: `null`},
		{fn: "text.match", args: `{"text":"abc","pattern":"x","all":true}`, want: `[]`},
		{fn: "text.match", args: `{"text":"","pattern":""}`, want: `{"match":"","groups":[],"named":{}}`},
		{fn: "text.match", args: `{"text":"äb cd","pattern":"(?i)\\b[A-Z]","all":true}`,
			want: `[{"match":"b","groups":[],"named":{}},{"match":"c","groups":[],"named":{}}]`},
		{fn: "text.match", args: `{"text":"a","pattern":"(?=a)"}`, code: fault.BadArguments, at: "/pattern"},
		{fn: "text.match", args: `{"text":"a","pattern":"("}`, code: fault.BadArguments, at: "/pattern"},
		{fn: "text.match", args: `{"text":"a","pattern":"((((a{1000}){1000}){1000}){1000})"}`, code: fault.BadArguments, at: "/pattern"},
		{fn: "text.match", args: `{"text":"a","pattern":"` + strings.Repeat("a", 4<<10+1) + `"}`, code: fault.BadArguments, at: "/pattern"},
		{fn: "text.match", args: `{"text":"a","pattern":"` + strings.Repeat("(k){1000}", 400) + `"}`, code: fault.BadArguments, at: "/pattern"},
		{fn: "text.replace", args: `{"text":"a","pattern":"` + strings.Repeat("(a?)", 1000) + `","with":""}`, code: fault.BadArguments,
			at: "/pattern"},
		{fn: "text.match", args: `{"text":"` + strings.Repeat("a", 2<<20) + `","pattern":"(a{500}){2}"}`, code: fault.LimitExceeded},
		{fn: "text.match", args: `{"text":"` + strings.Repeat("a", 100_000) + `","pattern":"a*?","all":true}`, code: fault.LimitExceeded},
		{fn: "text.match", args: `{"text":"` + strings.Repeat("a", 99_999) + `","pattern":"` + "(?P<" + strings.Repeat("n",
			1000) + ">)" + `","all":true}`, code: fault.LimitExceeded},
		{fn: "text.match", args: `{"pattern":"a"}`, code: fault.BadArguments},
		{fn: "text.match", args: `{"text":"a"}`, code: fault.BadArguments},

		{fn: "text.replace", args: `{"text":"a1b22","pattern":"(?P<l>[a-z])(\\d+)","with":"\\2\\g<l>-"}`, want: `"1a-22b-"`},
		{fn: "text.replace", args: `{"text":"abc","pattern":"","with":"-"}`, want: `"-a-b-c-"`},
		{fn: "text.replace", args: `{"text":"äöü","pattern":"ö|(x)","with":"<\\0\\1>"}`, want: `"ä<ö>ü"`},
		{fn: "text.replace", args: `{"text":"a","pattern":"a","with":"\\\\1 \\$1 $ US$"}`, want: `"\\1 $1 $ US$"`},
		{fn: "text.replace", args: `{"text":"aaa","pattern":"a","with":"\\g<0>\\g<0>"}`, want: `"aaaaaa"`},
		{fn: "text.replace", args: `{"text":"none","pattern":"x","with":"y"}`, want: `"none"`},
		{fn: "text.replace", args: `{"text":"a","pattern":"(a)","with":"$1"}`, code: fault.BadArguments, at: "/with"},
		{fn: "text.replace", args: `{"text":"a","pattern":"(a)","with":"x${n}"}`, code: fault.BadArguments, at: "/with"},
		{fn: "text.replace", args: `{"text":"a","pattern":"(a)","with":"\\2"}`, code: fault.BadArguments, at: "/with"},
		{fn: "text.replace", args: `{"text":"a","pattern":"(a)","with":"\\g<n>"}`, code: fault.BadArguments, at: "/with"},
		{fn: "text.replace", args: `{"text":"a","pattern":"(a)","with":"\\g<>"}`, code: fault.BadArguments, at: "/with"},
		{fn: "text.replace", args: `{"text":"a","pattern":"(a)","with":"\\g<1"}`, code: fault.BadArguments, at: "/with"},
		{fn: "text.replace", args: `{"text":"a","pattern":"(a)","with":"\\n"}`, code: fault.BadArguments, at: "/with"},
		{fn: "text.replace", args: `{"text":"a","pattern":"(a)","with":"\\"}`, code: fault.BadArguments, at: "/with"},
		{fn: "text.replace", args: `{"text":"` + strings.Repeat("a", 100_000) + `","pattern":"a","with":"` + strings.Repeat("b", 1000) + `"}`,
			code: fault.LimitExceeded},
		{fn: "text.replace", args: `{"text":"a","pattern":"a"}`, code: fault.BadArguments},
	}
	s := exprs.New()
	for _, test := range tests {
		got, err := invoke(t.Context(), s, test.fn, test.args)
		if fault.CodeOf(err) != test.code || got != test.want {
			t.Errorf("%s %.100s: got %.200s, %v; want %s%s", test.fn, test.args, got, err, test.want, test.code)
		}
		if f, ok := fault.As(err); ok && f.At != test.at {
			t.Errorf("%s %.100s: at %q, want %q", test.fn, test.args, f.At, test.at)
		}
	}
}

// patterns for the comparison with the standard library, some of which look back over the place where a search goes on.
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
			want = append(want, newMatched(re, text, indexes))
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
		t.Errorf("got %v", err)
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
			t.Fatalf("%q: %v", with, err)
		}
		if err == nil && !json.Valid([]byte(result)) {
			t.Fatalf("%q: %s", with, result)
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
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/baseline/regexp", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if n := len(regexp.MustCompile(source).FindAllStringSubmatchIndex(text, -1)); n != 10_000 {
					b.Fatal(n)
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

func newMatched(re *regexp.Regexp, text string, indexes []int) textMatch {
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
