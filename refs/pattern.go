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

// Bounds of a regular expression, so that it is compiled within some 10 ms and 10 MB. All but maxInstructions and maxWeight
// are told from the source, because the parser itself is without a bound: one class folded over all of Unicode takes it 3 ms.
const (
	maxPatternSource = 1 << 10 // bytes
	maxInstructions  = 10_000  // when its repetitions are written out
	maxWeight        = 80_000  // see Pattern.weight; a search keeps some 130 bytes for each at the most
	maxClasses       = 50      // \p: each may be 1,300 characters in the tree
	maxFolded        = 200_000 // characters in ranges, where case does not matter
)

// Pattern is a compiled regular expression (RE2). It is safe for use by many goroutines at once.
type Pattern struct {
	*regexp.Regexp
	size int // instructions, counted before they were made: never less than there are

	// weight is what a search takes for one character at the most, in instructions: each of them may carry the places of all
	// groups along.
	weight    int
	looksBack bool                           // at what stands before a match: ^, \b
	inside    func() (*regexp.Regexp, error) // group 1: the first match after the first character; see Search.from
}

// Size is how many instructions the pattern has at the most: a search takes as many steps for each character at worst.
func (p *Pattern) Size() int { return p.size }

// patterns holds compiled ones, by source; both bounds are of what is kept.
var patterns = struct {
	sync.Mutex
	m    map[string]*Pattern
	kept int // see shape.kept
}{m: map[string]*Pattern{}}

const maxPatterns, maxPatternsKept = 1000, 200_000

// CompilePattern compiles a regular expression of at most 1,024 bytes and 10,000 instructions, or gives back what it compiled
// before. The error is bad_arguments.
func CompilePattern(source string) (*Pattern, *fault.Error) {
	p, err := newPattern(source)
	return p, refusal(err)
}

// CheckPattern reports whether CompilePattern will compile it, for less.
func CheckPattern(source string) *fault.Error {
	if keptPattern(source) != nil {
		return nil
	}
	_, err := measure(source)
	return refusal(err)
}

func refusal(err error) *fault.Error {
	if err == nil {
		return nil
	}
	f := fault.New(fault.BadArguments, "the regular expression is not accepted: %s (RE2 has no look-around and no back-references)", patternProblem(err))
	f.Err = err
	return f
}

func patternProblem(err error) string {
	return strings.TrimPrefix(err.Error(), "error parsing regexp: ")
}

func keptPattern(source string) *Pattern {
	patterns.Lock()
	defer patterns.Unlock()
	return patterns.m[source]
}

func newPattern(source string) (*Pattern, error) {
	if p := keptPattern(source); p != nil {
		return p, nil
	}
	s, err := measure(source)
	if err != nil {
		return nil, err
	}
	first, err := regexp.Compile(nothing + source)
	if err != nil {
		return nil, err
	}
	p := &Pattern{
		Regexp: first, size: s.instructions, weight: s.weight(), looksBack: s.looksBack,
		inside: sync.OnceValues(func() (*regexp.Regexp, error) { return compileInside(source) }),
	}
	patterns.Lock()
	defer patterns.Unlock()
	if len(patterns.m) >= maxPatterns || patterns.kept+s.kept() > maxPatternsKept {
		clear(patterns.m)
		patterns.kept = 0
	}
	if patterns.m[source] == nil {
		patterns.kept += s.kept()
	}
	patterns.m[source] = p
	return p, nil
}

// compileInside compiles the expression so that its group 1 is the first match after the first character.
func compileInside(source string) (*regexp.Regexp, error) {
	const before, after = nothing + `(?s:\A..*?)(`, `)`
	re, err := regexp.Compile(before + source + after)
	if err != nil { // an open \Q took the bracket for a character
		re, err = regexp.Compile(before + source + `\E` + after)
	}
	return re, err
}

// shape is what is known of a pattern before it is compiled.
type shape struct {
	classes, folded      int // before it is parsed
	instructions, groups int
	looksBack            bool
}

func (s *shape) weight() int { return s.instructions * (16 + s.groups) / 16 }

// kept is what a compiled pattern takes in memory, in instructions of some 80 bytes, for it and for what is inside: a class \p may
// have 5 KB of ranges.
func (s *shape) kept() int { return s.instructions + classInstructions*s.classes }

const classInstructions = 130

// nothing before a pattern matches what the pattern does. The standard library makes no one-pass machine of such a one, which would
// have a copy of the characters of each class for each instruction: gigabytes for an anchored pattern of 150 bytes.
const nothing = `(?:)`

// bounded tells what is too large.
func (s *shape) bounded() error {
	switch {
	case s.classes > maxClasses:
		return fmt.Errorf(`it has more than %d classes \p`, maxClasses)
	case s.folded > maxFolded:
		return fmt.Errorf("its ranges of characters, in which case does not matter, hold more than %d: use narrower ones, or leave (?i) out", maxFolded)
	case s.instructions > maxInstructions:
		return fmt.Errorf("it has more than %d instructions when its repetitions are written out: use fewer of them", maxInstructions)
	case s.weight() > maxWeight:
		return fmt.Errorf("it has %d groups, too many for its size: write (?:…) for those that need not be answered", s.groups)
	}
	return nil
}

// measure parses a regular expression, and counts what it would be compiled to.
func measure(source string) (*shape, error) {
	if len(source) > maxPatternSource {
		return nil, fmt.Errorf("it has more than %d bytes", maxPatternSource)
	}
	s := shape{classes: strings.Count(source, `\p`) + strings.Count(source, `\P`)}
	if foldsCase.MatchString(source) {
		s.folded = ranges(source)
	}
	if err := s.bounded(); err != nil {
		return nil, err
	}
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return nil, err
	}
	s.groups = tree.MaxCap()
	s.instructions = s.count(tree) + 2 // that fail and that match
	return &s, s.bounded()
}

// count is how many instructions the compiler makes of a tree at the most. The numbers are small: the parser has no tree of
// more than 4 million.
func (s *shape) count(re *syntax.Regexp) int {
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

// foldsCase finds a flag (?i).
var foldsCase = regexp.MustCompile(`\(\?[a-zA-Z]*i`)

// ranges is how many characters the ranges of a pattern hold at the most, all together: the parser folds them one by one. What
// stands before a hyphen is taken for the end of an escape unless it cannot be; so is what stands outside of classes.
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

// highest is the highest character that the beginning of a text can stand for, as the end of a range.
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
		return 0 // no character: the parser refuses it
	}
	return rune(r)
}

// keptInstructions bounds the regular expressions that are kept compiled with their expression, all together: there are many
// expressions. Those beyond are looked for among patterns whenever they are needed.
const keptInstructions = 500

// literals are the regular expressions that are written out in one expression.
type literals struct {
	known map[string]any
	sum   shape
}

// literalPattern is the source of one that is not kept compiled.
type literalPattern string

// literal gives what stands for a regular expression in the compiled expression: a *Pattern or a literalPattern. All of them
// together have the bounds of one.
func (l *literals) literal(source string) (any, error) {
	if known := l.known[source]; known != nil {
		return known, nil
	}
	s, err := measure(source)
	if err != nil {
		return nil, err
	}
	l.sum.instructions += s.instructions
	l.sum.classes += s.classes
	l.sum.folded += s.folded
	if err := l.sum.bounded(); err != nil {
		return nil, fmt.Errorf("together with those before: %w", err)
	}
	var literal any = literalPattern(source)
	if l.sum.kept() <= keptInstructions {
		if literal, err = newPattern(source); err != nil {
			return nil, err
		}
	}
	if l.known == nil {
		l.known = map[string]any{}
	}
	l.known[source] = literal
	return literal, nil
}
