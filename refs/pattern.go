package refs

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/fault"
)

// Bounds of a regular expression, so that it compiles within about 10 ms and 10 MB. All but maxInstructions and maxWeight
// are estimated from the source, because the parser itself has no bound: one class folded over all of Unicode takes it 3
// ms.
const (
	maxPatternSource = 1 << 10 // bytes
	maxInstructions  = 10_000  // instructions, with repetitions expanded
	maxWeight        = 80_000  // see Pattern.weight; a search holds at most some 130 bytes for each
	maxClasses       = 50      // \p: each may be 1,300 characters in the tree
	maxFolded        = 200_000 // characters in ranges of patterns that ignore case
)

// Pattern is a compiled regular expression (RE2). Many goroutines may use it at once.
type Pattern struct {
	*regexp.Regexp
	size int // an upper bound of its instructions, counted before it was compiled

	// weight is the maximum work of a search for one character, in instructions: each may carry the positions of all groups
	// along.
	weight    int
	looksBack bool                           // it depends on what precedes a match: ^, \b
	inside    func() (*regexp.Regexp, error) // its group 1 is the first match after the first character; see Search.matchFrom
}

// Size is an upper bound of the pattern's instructions: a search takes at most that many steps for each character.
func (p *Pattern) Size() int { return p.size }

// patterns caches compiled patterns by source, within two bounds.
var patterns = struct {
	sync.Mutex
	m        map[string]*Pattern
	retained int // see patternCost.memory
}{m: map[string]*Pattern{}}

const maxPatterns, maxPatternMemory = 1000, 200_000

// CompilePattern compiles a regular expression of at most 1,024 bytes and 10,000 instructions, or returns a cached one. The
// error is bad_arguments.
func CompilePattern(source string) (*Pattern, *fault.Error) {
	p, err := newPattern(source)
	return p, patternFault(err)
}

// CheckPattern returns the error that CompilePattern would return, at a lower cost; nil if the pattern is accepted.
func CheckPattern(source string) *fault.Error {
	if cachedPattern(source) != nil {
		return nil
	}
	_, err := measure(source)
	return patternFault(err)
}

func patternFault(err error) *fault.Error {
	if err == nil {
		return nil
	}
	f := fault.New(fault.BadArguments, "the regular expression is not accepted: %s (RE2 has no look-around and no back-references)",
		patternProblem(err))
	f.Err = err
	return f
}

// patternProblem returns the text of an error of a pattern, without Go's prefix.
func patternProblem(err error) string {
	return strings.TrimPrefix(err.Error(), "error parsing regexp: ")
}

// cachedPattern returns a pattern from the cache; nil: it is not there.
func cachedPattern(source string) *Pattern {
	patterns.Lock()
	defer patterns.Unlock()
	return patterns.m[source]
}

func newPattern(source string) (*Pattern, error) {
	if p := cachedPattern(source); p != nil {
		return p, nil
	}
	s, err := measure(source)
	if err != nil {
		return nil, err
	}
	first, err := regexp.Compile(emptyGroup + source)
	if err != nil {
		return nil, err
	}
	p := &Pattern{
		Regexp: first, size: s.instructions, weight: s.weight(), looksBack: s.looksBack,
		inside: sync.OnceValues(func() (*regexp.Regexp, error) { return compileInside(source) }),
	}
	patterns.Lock()
	defer patterns.Unlock()
	if len(patterns.m) >= maxPatterns || patterns.retained+s.memory() > maxPatternMemory {
		clear(patterns.m)
		patterns.retained = 0
	}
	if patterns.m[source] == nil {
		patterns.retained += s.memory()
	}
	patterns.m[source] = p
	return p, nil
}

// compileInside compiles the expression so that its group 1 is the first match after the first character.
func compileInside(source string) (*regexp.Regexp, error) {
	const before, after = emptyGroup + `(?s:\A..*?)(`, `)`
	re, err := regexp.Compile(before + source + after)
	if err != nil { // an open \Q quoted the bracket
		re, err = regexp.Compile(before + source + `\E` + after)
	}
	return re, err
}

// patternCost is the cost of compiling a pattern and of searching with it.
type patternCost struct {
	classes, folded      int // estimated from the source: its classes \p and \P, and the characters in the ranges that are folded
	instructions, groups int
	looksBack            bool
}

func (s *patternCost) weight() int { return s.instructions * (16 + s.groups) / 16 }

// memory is the size of a compiled pattern and its inside, in instructions of some 80 bytes: a class \p may have 5 KB of
// ranges.
func (s *patternCost) memory() int { return s.instructions + classInstructions*s.classes }

const classInstructions = 130

// emptyGroup before a pattern does not change what it matches. It keeps the standard library from making a one-pass
// machine, which would copy the characters of each class for each instruction: gigabytes for an anchored pattern of 150
// bytes.
const emptyGroup = `(?:)`

// check returns an error that says which bound is exceeded.
func (s *patternCost) check() error {
	switch {
	case s.classes > maxClasses:
		return fmt.Errorf(`it has more than %d classes \p`, maxClasses)
	case s.folded > maxFolded:
		return fmt.Errorf("its ranges that ignore case hold more than %d characters: use narrower ranges, or leave (?i) out", maxFolded)
	case s.instructions > maxInstructions:
		return fmt.Errorf("it has more than %d instructions when its repetitions are written out: use fewer of them", maxInstructions)
	case s.weight() > maxWeight:
		return fmt.Errorf("it has %d groups, too many for its size: write (?:…) for groups whose text is not needed", s.groups)
	}
	return nil
}

// measure parses a regular expression and counts what it would compile to.
func measure(source string) (*patternCost, error) {
	if len(source) > maxPatternSource {
		return nil, fmt.Errorf("it has more than %d bytes", maxPatternSource)
	}
	s := patternCost{classes: strings.Count(source, `\p`) + strings.Count(source, `\P`)}
	if foldsCase.MatchString(source) {
		s.folded = ranges(source)
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return nil, err
	}
	s.groups = tree.MaxCap()
	s.instructions = s.count(tree) + 2 // the instructions that fail and match
	return &s, s.check()
}

// count returns an upper bound of the instructions that the compiler makes of a tree. The numbers are small: the parser
// rejects trees of more than 4 million.
func (s *patternCost) count(re *syntax.Regexp) int {
	inside := 0
	for _, sub := range re.Sub {
		inside += s.count(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return max(len(re.Rune), 1)
	case syntax.OpBeginText, syntax.OpBeginLine, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		s.looksBack = true
	case syntax.OpCapture, syntax.OpStar:
		return inside + 2
	case syntax.OpPlus, syntax.OpQuest:
		return inside + 1
	case syntax.OpConcat:
		return max(inside, 1)
	case syntax.OpAlternate:
		return inside + len(re.Sub)
	case syntax.OpRepeat:
		if re.Max < 0 { // xx+, or x*
			return max(re.Min, 1)*inside + 2
		}
		return max(re.Max*inside+re.Max-re.Min, 1) // xx(x(x)?)?
	}
	return 1
}

// foldsCase matches a flag (?i).
var foldsCase = regexp.MustCompile(`\(\?[a-zA-Z]*i`)

// ranges returns an upper bound of the characters in all ranges of a pattern: the parser folds them one by one. The
// character before a hyphen is taken for the end of an escape, unless it cannot be one. Hyphens outside of classes
// count too.
func ranges(source string) int {
	sum := 0
	for at := strings.IndexByte(source, '-'); at >= 0; {
		low, _ := utf8.DecodeLastRuneInString(source[:at])
		if low < utf8.RuneSelf || low == utf8.RuneError {
			low = 0
		}
		source = source[at+1:]
		sum += max(int(highest(source)-low), 0)
		at = strings.IndexByte(source, '-')
	}
	return sum
}

// highest returns the highest character that the end of a range may be; text is the pattern from there on.
func highest(text string) rune {
	digits, escaped := strings.CutPrefix(text, `\x{`)
	if !escaped {
		r, _ := utf8.DecodeRuneInString(text)
		if r == '\\' {
			r = 0o777 // the highest of the other escapes
		}
		return r
	}
	digits, _, _ = strings.Cut(digits, "}")
	r, err := strconv.ParseUint(digits, 16, 31)
	if err != nil || r > utf8.MaxRune {
		return 0 // not a character: the parser refuses it
	}
	return rune(r)
}

// maxInlineInstructions bounds the size of all compiled patterns that one expression holds, because there are many
// expressions. Its other patterns are looked up in the cache when they are needed.
const maxInlineInstructions = 500

// literals are the literal regular expressions of one expression.
type literals struct {
	compiled map[string]any
	sum      patternCost
}

// literalPattern is the source of a pattern that the expression does not hold compiled.
type literalPattern string

// literal returns what replaces a regular expression in the compiled expression: a *Pattern or a literalPattern. The
// bounds of one pattern apply to all patterns of the expression together.
func (l *literals) literal(source string) (any, error) {
	if known := l.compiled[source]; known != nil {
		return known, nil
	}
	s, err := measure(source)
	if err != nil {
		return nil, err
	}
	l.sum.instructions += s.instructions
	l.sum.classes += s.classes
	l.sum.folded += s.folded
	if err := l.sum.check(); err != nil {
		return nil, fmt.Errorf("together with those before: %w", err)
	}
	var literal any = literalPattern(source)
	if l.sum.memory() <= maxInlineInstructions {
		if literal, err = newPattern(source); err != nil {
			return nil, err
		}
	}
	if l.compiled == nil {
		l.compiled = map[string]any{}
	}
	l.compiled[source] = literal
	return literal, nil
}
