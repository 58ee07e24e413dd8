package files

import (
	"bytes"
	"io"
	"os"
	"strings"
)

// maxIgnoreBytes is the most that is read of one .gitignore file.
const maxIgnoreBytes = 1 << 20

// ignores are the rules that hold in a folder: its own .gitignore, and behind it those of the folders above, up to the
// top of the Git repository. nil ignores nothing.
type ignores struct {
	above *ignores
	base  string // the folder of the rules, relative to the root, "" for the root, else with "/" at its end
	rules []rule
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

// enter returns the rules that hold in a folder, given its path and whether it has an entry. A repository inside of another one begins anew.
func (g *ignores) enter(root *os.Root, base string, has func(name string) bool) *ignores {
	base = join(base, "")
	if has(".git") {
		g = nil
		if rules := readIgnores(root, ".git/info/exclude"); len(rules) > 0 {
			g = &ignores{base: base, rules: rules}
		}
	}
	if has(".gitignore") {
		if rules := readIgnores(root, ".gitignore"); len(rules) > 0 {
			g = &ignores{above: g, base: base, rules: rules}
		}
	}
	return g
}

// readIgnores reads a file of rules; one that cannot be read has none.
func readIgnores(root *os.Root, name string) []rule {
	f, _, err := openRegular(root, name)
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIgnoreBytes))
	if err != nil {
		return nil
	}
	return parseIgnores(text)
}

func parseIgnores(text []byte) []rule {
	var rules []rule
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
		r := newRule(fromGit(pattern))
		r.negated = negated
		rules = append(rules, r)
	}
	return rules
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
