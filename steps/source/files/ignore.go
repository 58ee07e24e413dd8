package files

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// maxIgnoreBytes and maxRules bound the rules that hold in a folder, those of the folders above it included.
const maxIgnoreBytes, maxRules = 1 << 20, 50_000

// ignores are the rules that hold in a folder: its own .gitignore, and behind it those of the folders above, up to the
// top of the Git repository. nil ignores nothing.
type ignores struct {
	above *ignores
	base  string // the folder of the rules, relative to the root, "" for the root, else with "/" at its end
	rules []rule
	// room that is left below: bytes of files and rules
	bytesLeft, rulesLeft int
}

// decide tells what Git's rules say of an entry whose own folder they do not ignore: that it is ignored, that it is let
// in again ("!"), or neither. The last rule of the nearest file that names the entry decides.
func (g *ignores) decide(path, name string, isDir bool) (ignored, letIn bool) {
	for ; g != nil; g = g.above {
		below := path[len(g.base):]
		for i := len(g.rules) - 1; i >= 0; i-- {
			if r := &g.rules[i]; r.match(below, name, isDir) {
				return !r.negated, r.negated
			}
		}
	}
	return false, false
}

// enter returns the rules that hold in a folder, given its path and whether it has an entry. A repository inside of
// another one begins anew. Rules that are not read, or find no room, are told of in skipped.
func (g *ignores) enter(root *os.Root, base string, has func(name string) bool, skipped *skipped) *ignores {
	if has(".git") {
		if g != nil { // the walk still holds the rules outside
			g = &ignores{bytesLeft: g.bytesLeft, rulesLeft: g.rulesLeft}
		}
		g = g.read(root, base, ".git/info/exclude", skipped)
	}
	if has(".gitignore") {
		g = g.read(root, base, ".gitignore", skipped)
	}
	return g
}

// read adds the rules of a file; g is returned as it is where there are none.
func (g *ignores) read(root *os.Root, base, name string, skipped *skipped) *ignores {
	f, _, err := openRegular(root, name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return g // a repository need not have one, and its ".git" may be a file
	}
	if err != nil {
		skipped.add(unreadable, join(base, name))
		return g
	}
	defer f.Close()
	next := &ignores{above: g, base: join(base, ""), bytesLeft: maxIgnoreBytes, rulesLeft: maxRules}
	if g != nil {
		next.bytesLeft, next.rulesLeft = g.bytesLeft, g.rulesLeft
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(next.bytesLeft)+1))
	if err != nil {
		skipped.add(unreadable, join(base, name))
		return g
	}
	whole := len(text) <= next.bytesLeft
	if !whole { // the line that is cut is none
		text = text[:bytes.LastIndexByte(text[:next.bytesLeft], '\n')+1]
	}
	rules, all := parseIgnores(text, next.rulesLeft)
	if !whole || !all {
		skipped.add(ignoreSize, join(base, name))
	}
	if len(rules) == 0 {
		return g
	}
	next.rules = rules
	next.bytesLeft -= len(text)
	next.rulesLeft -= len(rules)
	return next
}

// parseIgnores reads the rules of a file, up to a number of them; all tells that there are no more.
func parseIgnores(text []byte, most int) (rules []rule, all bool) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if strings.HasPrefix(line, "#") {
			continue
		}
		pattern, negated := strings.CutPrefix(trimBlanks(line), "!")
		if strings.Trim(pattern, "/") == "" {
			continue
		}
		if len(rules) == most {
			return rules, false
		}
		r := newRule(fromGit(pattern))
		r.negated = negated
		rules = append(rules, r)
	}
	return rules, true
}

// trimBlanks removes spaces from the end but for one that a backslash keeps.
func trimBlanks(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		if line[i] == '\\' {
			i++
			end = min(i+1, len(line))
		} else if line[i] != ' ' {
			end = i + 1
		}
	}
	return line[:end]
}

// classes are the named classes of Git's brackets, which doublestar does not know.
var classes = strings.NewReplacer(
	"[:alnum:]", "a-zA-Z0-9", "[:alpha:]", "a-zA-Z", "[:blank:]", " \t", "[:cntrl:]", "\x00-\x1f\x7f",
	"[:digit:]", "0-9", "[:graph:]", "!-~", "[:lower:]", "a-z", "[:print:]", " -~",
	"[:punct:]", "!-/:-@[-`{-~", "[:space:]", " \t\n\r\v\f", "[:upper:]", "A-Z", "[:xdigit:]", "0-9a-fA-F")

// fromGit writes a line of .gitignore in doublestar's syntax. Braces are plain there, "]" is plain as the first of a
// bracket, and more than two stars are as two.
func fromGit(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '\\':
			b.WriteByte(c)
			if i++; i < len(pattern) {
				b.WriteByte(pattern[i])
			}
		case '{', '}':
			b.WriteByte('\\')
			b.WriteByte(c)
		case '*':
			for i+2 < len(pattern) && pattern[i+1] == '*' && pattern[i+2] == '*' {
				i++
			}
			b.WriteByte(c)
		case '[':
			i += bracket(&b, pattern[i:]) - 1
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// bracket writes the bracket expression that a pattern begins with, and returns its length; what is never closed is
// written as it stands, and matches nothing.
func bracket(b *strings.Builder, pattern string) int {
	i := 1
	if i < len(pattern) && (pattern[i] == '!' || pattern[i] == '^') {
		i++
	}
	b.WriteString(pattern[:i])
	start := i
	for ; i < len(pattern); i++ {
		switch {
		case pattern[i] == '\\':
			i++
		case strings.HasPrefix(pattern[i:], "[:"):
			if end := strings.Index(pattern[i:], ":]"); end > 0 {
				i += end + 1
			}
		case pattern[i] == ']' && i > start:
			inside := pattern[start:i]
			if strings.HasPrefix(inside, "]") {
				b.WriteByte('\\')
			}
			b.WriteString(classes.Replace(inside))
			b.WriteByte(']')
			return i + 1
		}
	}
	b.WriteString(pattern[min(start, len(pattern)):])
	return len(pattern)
}
