package refs

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
)

func TestCountOfInstructions(t *testing.T) {
	t.Parallel()
	for source, counted := range map[string]int{
		``: 3, `a`: 3, `abc`: 5, `[a-c]x`: 4, `(a)`: 5, `a*`: 5, `a+`: 4, `a?`: 4, `a|bc`: 7, `^$`: 4, `a{3}`: 5, `a{2,5}`: 10, `a{0}`: 3,
		`a{3,}`: 7, `(?:a{10}){10}`: 102, `(k){1000}`: 3002, `((a{5}){5}b){5}`: 192, `x{0,1000}`: 2002, `(){7}`: 23, `(?:a*)*?`: 7,
		`[^\x00-\x{10FFFF}]a`: 4,
	} {
		s, err := measure(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if made := compiled(t, source); s.instructions != counted || made > counted || counted > 2*made {
			t.Errorf("%s: counted %d, want %d; the compiler makes %d", source, s.instructions, counted, made)
		}
	}
}

// TestPatterns: no pattern has more instructions than counted, and its matches are those of the standard library,
// whether the library reads the text as a whole or character by character.
func TestPatterns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		source := drawPattern(t, rapid.IntRange(0, 5).Draw(t, "depth"))
		want, invalid := regexp.Compile(source)
		p, err := newPattern(source)
		if err != nil {
			if s, _ := measure(source); invalid == nil && s == nil {
				t.Fatalf("%s: %v", source, err)
			}
			return
		}
		if made := compiled(t, source); p.size < made {
			t.Fatalf("%s: counted %d, want at least %d, which the compiler makes", source, p.size, made)
		}
		text := rapid.StringOfN(rapid.RuneFrom([]rune("abä \n.A_")), 0, 12, -1).Draw(t, "text")
		s := Search{Pattern: p, Text: text, Heavy: func() error { return nil }}
		if rapid.Bool().Draw(t, "long") {
			s.estimatedWork = heavySearch // each search can be stopped
		}
		var got [][]int
		for indexes := range s.All() {
			got = append(got, append([]int(nil), indexes...))
		}
		if all := want.FindAllStringSubmatchIndex(text, -1); s.Err() != nil || fmt.Sprint(got) != fmt.Sprint(all) {
			t.Fatalf("%q in %q: got %v %v, want %v", source, text, got, s.Err(), all)
		}
		if isMatch := s.matches(); isMatch != want.MatchString(text) {
			t.Fatalf("%q in %q: matches returns %v, want %v", source, text, isMatch, !isMatch)
		}
	})
}

// costly has patterns that would cost the parser or the compiler far more than their length suggests.
var costly = map[string]string{
	"repetitions":                strings.Repeat(`a{1000}`, 580),
	"repeated groups":            `(?i)` + strings.Repeat(`(k){1000}`, 450),
	"repeated classes":           strings.Repeat(`\pL{1000}`, 450),
	"optional repetitions":       strings.Repeat(`a{0,1000}`, 450),
	"nested":                     strings.Repeat(`(?:(?:ab){30}){30}`, 200),
	"classes":                    strings.Repeat(`\pL`, 1300),
	"classes in one":             `[` + strings.Repeat(`\pL`, 1300) + `]`,
	"alternative classes":        strings.Repeat(`\PL|`, 1000),
	"folded classes":             `(?si)[` + strings.Repeat(`\pL`, 1300) + `]`,
	"folded range":               `(?i)[` + strings.Repeat(`B-\x{1e943}`, 300) + `]`,
	"folded ranges":              `x(?si:` + strings.Repeat("[B-\U0001e943]", 500) + `)`,
	"folded up to the last rune": `(?i)` + strings.Repeat("[b-\U0010FFFFa]", 200),
	"groups":                     strings.Repeat(`(a?)`, 1000),
	"alternative groups":         strings.Repeat(`(a)|`, 1000),
	"too long":                   strings.Repeat("a", maxPatternSource+1),
}

// accepted has large patterns that are accepted.
var accepted = map[string]string{
	"long":                 strings.Repeat("a", maxPatternSource),
	"repetitions":          strings.Repeat(`a{1000}`, 9),
	"optional repetitions": strings.Repeat(`a{0,1000}`, 4),
	"classes":              strings.Repeat(`\pL`, maxClasses),
	"folded":               `(?i)` + strings.Repeat(`[一-龥]`, 9),
	"Cyrillic":             `(?i)` + strings.Repeat(`[а-яё]+-`, 80),
	"empty groups":         strings.Repeat(`()`, 200),
	"columns":              strings.Repeat(`([^,]*),`, 125),
	"alternatives":         `^(?:` + strings.Repeat(`xyz\d|ä|`, 110) + `b)$`,
	"nested":               strings.Repeat(`(?:`, 110) + `a` + strings.Repeat(`a{2})?`, 110),
	"ASCII, folded":        `(?i)` + strings.Repeat(`[A-z]`, 200),
	"looking back":         `\b` + strings.Repeat(`\pL`, maxClasses-1) + strings.Repeat(`(?:ab){99}`, 40),
}

// TestCostOfPatterns is not parallel: it measures.
//
//nolint:paralleltest // as said
func TestCostOfPatterns(t *testing.T) {
	const maximum = 10 << 20
	for name, source := range costly {
		var f *fault.Error
		if n := allocated(func() { _, f = CompilePattern(source) }); n > maximum {
			t.Errorf("%s: %d bytes allocated to refuse the pattern, want at most %d", name, n, maximum)
		}
		if f == nil || f.Code != fault.BadArguments || CheckPattern(source) == nil {
			t.Errorf("%s: CompilePattern returns %v, want bad_arguments", name, f)
		}
	}
	for name, source := range accepted {
		source += "(?:)" // not compiled by another test
		if len(source) > maxPatternSource {
			source = strings.TrimSuffix(source, "(?:)")
		}
		if n := allocated(func() {
			if f := CheckPattern(source); f != nil {
				t.Errorf("%s: CheckPattern: %v", name, f)
			}
		}); n > maximum {
			t.Errorf("%s: %d bytes allocated to check the pattern, want at most %d", name, n, maximum)
		}
		var p *Pattern
		if n := allocated(func() { p, _ = CompilePattern(source) }); p == nil || n > maximum {
			t.Errorf("%s: CompilePattern returns %v, %d bytes allocated; want a pattern and at most %d", name, p, n, maximum)
			continue
		}
		if n := allocated(func() {
			if _, err := p.inside(); err != nil {
				t.Errorf("%s: inside: %v", name, err)
			}
		}); n > maximum {
			t.Errorf("%s: %d bytes allocated by inside, want at most %d", name, n, maximum)
		}
		s := Search{Pattern: p, Text: strings.Repeat("a", 2000), Heavy: func() error { return errors.New("enough") }, estimatedWork: heavySearch}
		if n := allocated(func() {
			for range s.All() {
				if s.Err() != nil {
					break
				}
			}
		}); n > 2*maximum {
			t.Errorf("%s: %d bytes allocated to search, want at most %d", name, n, 2*maximum)
		}
		if again, _ := CompilePattern(source); again != p {
			t.Errorf("%s: CompilePattern returns a new pattern, want the cached one", name)
		}
	}
}

// TestPatternMemory: the memory that a pattern retains is bounded by its instructions. It is not parallel: it
// measures.
//
//nolint:paralleltest // as said
func TestPatternMemory(t *testing.T) {
	sources := []string{`^a$`, `^v(\d+)\.(\d+)$`, `^\pL+$`, `^[^\pL\pN]{980}`, `\A(?:\pL\d){400}`,
		`^` + strings.Repeat(`(`, 450) + `\pL` + strings.Repeat(`)`, 450),
		`(?i)^` + strings.Repeat(`k`, 900), `^.{900}`, `^(?:a|b|c|\pN){90}$`, `^(?:\pL\d){400}$`,
		`^(?:` + strings.Repeat(`(?:`, 50) + `-*` + strings.Repeat(`){0,}`, 50) + `_){20}\pL{900}$`}
	for _, source := range accepted {
		sources = append(sources, source, "^"+source[:min(len(source), maxPatternSource-1)])
	}
	for _, source := range sources {
		s, err := measure(source)
		if err != nil {
			continue // the pattern was cut off and is not valid
		}
		const n = 10
		var all [n]*regexp.Regexp
		retained := retainedBytes(func() {
			for i := range all {
				if all[i], err = regexp.Compile(emptyGroup + source); err != nil {
					t.Fatal(err)
				}
			}
		}) / n
		if maximum := 80*s.memory() + 32<<10; retained > maximum {
			t.Errorf("%.40s…: %d bytes retained, want at most %d for the counted %d instructions", source, retained, maximum, s.memory())
		}
		runtime.KeepAlive(&all)
	}
}

// TestPatternCacheIsBounded: the cache of patterns is bounded.
func TestPatternCacheIsBounded(t *testing.T) {
	t.Parallel()
	for i := range 3000 {
		source := fmt.Sprintf("kept%d", i)
		if i%100 == 0 {
			source += `(?:a{1000}){1}` + strings.Repeat(`a{1000}`, 8) + strings.Repeat(`\pL`, 40)
		}
		if _, err := newPattern(source); err != nil {
			t.Fatal(err)
		}
		patterns.Lock()
		n, size := len(patterns.m), patterns.retained
		patterns.Unlock()
		if n > maxPatterns || size > maxPatternMemory || size <= 0 {
			t.Fatalf("the cache has %d patterns with %d instructions; want at most %d, and 1 to %d", n, size, maxPatterns, maxPatternMemory)
		}
	}
}

func TestHeavySearchIsStopped(t *testing.T) {
	t.Parallel()
	errStop := errors.New("enough")
	text := strings.Repeat("a", 80_000)
	for source, heavy := range map[string]bool{`a.*b|a`: true, `(a.*b)|(a)`: true, `\ba.*b|a`: true, `a{1000}`: true, `a`: false,
		`a+b`: false, `xyz`: false, `^a`: false} {
		p, err := newPattern(source)
		must(t, err)
		calls := 0
		s := Search{Pattern: p, Text: text, Heavy: func() error {
			if calls++; calls == 3 {
				return errStop
			}
			return nil
		}}
		n := 0
		for range s.All() {
			n++
		}
		if stopped := s.Err() != nil; stopped != heavy || stopped && !errors.Is(s.Err(), errStop) {
			t.Errorf("%s: %d matches, %d calls of Heavy, error %v; want it stopped: %t", source, n, calls, s.Err(), heavy)
		}
		if want := regexp.MustCompile(source).FindAllStringIndex(text[:100], -1); calls > 3 || !heavy && (n > 0) != (len(want) > 0) {
			t.Errorf("%s: %d matches, %d calls of Heavy; want at most 3 calls and, if not stopped, matches: %t", source, n, calls, len(want) > 0)
		}
	}
	p, err := newPattern(`(a?){500}$|b`)
	must(t, err)
	s := Search{Pattern: p, Text: text, Heavy: func() error { return errStop }}
	if s.matches() || !errors.Is(s.Err(), errStop) {
		t.Errorf("matches in a stopped search: error %v, want false and %v", s.Err(), errStop)
	}
}

// TestLiteralPatterns: the bounds of one pattern apply to all patterns of an expression together, and few of them are
// stored compiled with it.
func TestLiteralPatterns(t *testing.T) {
	t.Parallel()
	matches := func(n int, source string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`"x" matches "%s%d"`, source, i)
		}
		return strings.Join(all, " or ")
	}
	for source, ok := range map[string]bool{
		matches(9, `a{1000}`): true, matches(11, `a{1000}`): false, matches(40, `a`): true,
		matches(3, strings.Repeat(`\\pL`, 15)): true, matches(4, strings.Repeat(`\\pL`, 15)): false,
		matches(3, `(?i)[b-\U0001e943]`): false,
	} {
		program, err := newProgram(source)
		if (err == nil) != ok || err != nil && err.Code != fault.BadExpression {
			t.Fatalf("%.40s…: %v, want success %t, else bad_expression", source, err, ok)
		}
		if err != nil {
			continue
		}
		retained, large := 0, 0
		for _, c := range program.code.Constants {
			switch c := c.(type) {
			case *Pattern:
				retained += c.size
			case literalPattern:
				large++
			}
		}
		if retained > maxInlineInstructions || retained == 0 && large == 0 {
			t.Errorf("%.40s…: %d instructions inline, %d larger patterns; want at most %d, and some of either", source, retained, large, maxInlineInstructions)
		}
		x, faults := CompileExpression(source, scope())
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		if got, err := x.Eval(t.Context(), scopeOf(orders, orders)); err != nil || string(got) != "false" {
			t.Errorf("%.40s…: %s, %v; want false", source, got, err)
		}
	}
}

// FuzzPattern: a pattern is refused with a message, or compiled to no more instructions than counted, and its matches
// are those of the standard library.
func FuzzPattern(f *testing.F) {
	for _, source := range []string{`a.*b|a`, `(?i)[B-\x{1e943}k]`, `\Qa`, `\Qa\`, `(?:a{10}){10,}`, `\b(\w+)\b`, `(?m)^$`,
		`[[:^alpha:]\pL]`, `(?P<n>x)(?U)y*`, `a{0,3}?`,
		`(?i-s)[\x41-\777]`, `(((((a)?)*)+){2})`, `\C`, `[^\x00-\x{10FFFF}]`} {
		f.Add(source, "ab äKk\n")
	}
	f.Fuzz(func(t *testing.T, source, text string) {
		if len(text) > 100 || !utf8.ValidString(text) {
			return
		}
		checked := CheckPattern(source)
		p, failure := CompilePattern(source)
		if (checked == nil) != (failure == nil) {
			t.Fatalf("%q: CheckPattern returns %v, CompilePattern %v; want both to refuse it or neither", source, checked, failure)
		}
		if failure != nil {
			return
		}
		if made := compiled(t, source); p.size < made {
			t.Fatalf("%q: counted %d, want at least %d, which the compiler makes", source, p.size, made)
		}
		var got [][]int
		s := Search{Pattern: p, Text: text, Heavy: func() error { return nil }, estimatedWork: heavySearch}
		for indexes := range s.All() {
			got = append(got, append([]int(nil), indexes...))
		}
		if want := p.FindAllStringSubmatchIndex(text, -1); s.Err() == nil && fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%q in %q: got %v, want %v", source, text, got, want)
		}
	})
}
