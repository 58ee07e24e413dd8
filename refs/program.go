package refs

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/parser/operator"
	"github.com/expr-lang/expr/vm"

	"github.com/onecall-mcp/onecall/fault"
)

// Bounds of an expression's source. maxSource keeps expr-lang's parser, which has no bound on nesting, far from the end of
// its stack. maxVisits bounds the walk of the tree: expr-lang shares nodes between parents (a ?: b, a < b < c), so that a
// short source can be a tree of exponential size.
const (
	maxSource = 4096
	maxNodes  = 2000
	maxVisits = 10000
)

// program is a compiled source. Its names are not resolved: each Expression that uses the program resolves them in its own scope.
type program struct {
	code     *vm.Program
	source   string
	lookups  []*lookup
	elements []elementRead
	isLookup bool // the whole expression is lookups[0]
}

// lookup is a name with its members, `$0.items[0].id`, or a status call.
type lookup struct {
	name       string
	offset     int // the offset of the name in the source
	status     bool
	index      int  // its index in program.lookups
	hasDefault bool // ?? provides a default
	walker
}

// lenient reports whether the source expects that the value may be missing.
func (l *lookup) lenient() bool { return l.hasDefault || anyOptional(l.segments) }

// programs caches compiled sources.
var programs = struct {
	sync.Mutex
	m map[string]*program
}{m: map[string]*program{}}

const maxPrograms = 1000

func compileProgram(source string) (*program, *fault.Error) {
	programs.Lock()
	p := programs.m[source]
	programs.Unlock()
	if p != nil {
		return p, nil
	}
	p, err := newProgram(source)
	if err != nil {
		return nil, err
	}
	programs.Lock()
	defer programs.Unlock()
	if len(programs.m) >= maxPrograms {
		clear(programs.m)
	}
	programs.m[source] = p
	return p, nil
}

func newProgram(source string) (p *program, failure *fault.Error) {
	switch {
	case strings.TrimSpace(source) == "":
		return nil, fault.New(fault.BadExpression, "The expression is empty.")
	case len(source) > maxSource:
		return nil, fault.New(fault.BadExpression, "The expression has %d bytes; at most %d are allowed. Split it over several steps.",
			len(source), maxSource)
	case !utf8.ValidString(source):
		return nil, fault.New(fault.BadExpression, "The expression is not UTF-8.")
	}
	defer func() {
		if r := recover(); r != nil {
			p, failure = nil, fault.New(fault.BadExpression, "The expression does not compile: %s.", clip(fmt.Sprint(r)))
		}
	}()
	config := conf.CreateNew()
	config.WithEnv(map[string]any{evaluationName: handle{}})
	config.Functions = guardFunctions
	config.Optimize = false
	config.MaxNodes = maxNodes
	tree, err := parser.ParseWithConfig(source, config)
	if err != nil {
		return nil, compileFault(source, err)
	}
	s := survey{callees: map[ast.Node]bool{}, variables: map[string]bool{}}
	ast.Walk(&tree.Node, &s)
	g := guard{survey: s, source: source, elementReads: newElementReads()}
	if ast.Walk(&tree.Node, &g); g.fault != nil {
		return nil, g.fault
	}
	if _, err := checker.Check(tree, config); err != nil {
		return nil, compileFault(source, err)
	}
	code, err := compiler.Compile(tree, config)
	if err != nil {
		return nil, compileFault(source, err)
	}
	var c collector
	ast.Walk(&tree.Node, &c)
	return &program{code, source, c.lookups, g.done, g.lookups[tree.Node] != nil && !c.lookups[0].status}, nil
}

// compileFault converts an error of expr-lang. It drops the drawing of the source.
func compileFault(source string, err error) *fault.Error {
	var e *file.Error
	if !errors.As(err, &e) {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return fault.New(fault.BadExpression, "The expression does not compile: %s.", clip(line))
	}
	offset := byteOffset(source, e.From)
	if name := predicateOf(source[:offset], e.Message); name != "" {
		return atOffset(unknownFunction(name), source, offset)
	}
	f := fault.New(fault.BadExpression, "The expression does not compile: %s, at %q.", e.Message, excerpt(source, offset))
	switch {
	case strings.HasPrefix(e.Message, "invalid operation: + (mismatched types ") && strings.Contains(e.Message, "string"):
		f.Message += numberToTextRemedy
	case e.Message == `unexpected token Operator(":")`:
		f.Message += " Write an object that a predicate returns in parentheses: map(list, ({key: .value}))."
	case e.Message == "unexpected token EOF" && strings.Count(source, "(") > strings.Count(source, ")"):
		f.Message += ` A parenthesis is not closed. In YAML, a comma in braces and " #" end a text: put the expression in quotes.`
	case e.Message == "literal not terminated" && strings.Contains(source, "\n"):
		f.Message += ` JSON and YAML turn \n into a line break, which no text in quotes may contain: write \\n.`
	case strings.HasPrefix(source[offset:], "=>") || strings.HasPrefix(source[max(offset-1, 0):], "=>"):
		f.Message += ` There are no arrow functions: the element is #, as in filter(list, # contains "o") and map(list, .name).`
	case strings.HasPrefix(source[offset:], "*]"):
		f.Message += " [*] belongs to references: write map(list, .name) for a member of each element."
	case strings.Contains(source, "==="), strings.Contains(source, "!=="):
		f.Message += " Equality is ==, inequality !=."
	case strings.Contains(source, "|") && !strings.Contains(source, "||"):
		f.Message += " A pipe goes into a call: list | len()."
	}
	return atOffset(f, source, offset)
}

// predicateOf returns the name of the unknown function around an element (# or .name), which only parses in the predicate
// of a known function; "" for another error. before is the source up to the element.
func predicateOf(before, message string) string {
	if message != `unexpected token Operator("#")` && message != `unexpected token Operator(".")` {
		return ""
	}
	open := 0
	for i := len(before) - 1; i >= 0; i-- {
		switch before[i] {
		case ')':
			open--
		case '(':
			open++
		}
		if open <= 0 {
			continue
		}
		name := before[strings.LastIndexFunc(before[:i], isNotNameRune)+1 : i]
		_, known := builtin.Index[name]
		_, unary := operator.Unary[name]
		if _, binary := operator.Binary[name]; !known && !unary && !binary && name != "" && name != "status" {
			return name
		}
		open = 0
	}
	return ""
}

func isNotNameRune(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// excerpt returns the source around a byte offset.
func excerpt(source string, offset int) string {
	const around = 20
	from, to := max(offset-around, 0), min(offset+around, len(source))
	for from > 0 && !utf8.RuneStart(source[from]) {
		from--
	}
	for to < len(source) && !utf8.RuneStart(source[to]) {
		to++
	}
	return source[from:to]
}

// byteOffset converts an offset in characters to one in bytes.
func byteOffset(source string, characters int) int {
	for i := range source {
		if characters == 0 {
			return i
		}
		characters--
	}
	return len(source)
}
