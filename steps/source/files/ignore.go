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

// maxIgnoreBytes and maxRules bound the rules that apply in a folder, including the rules of the folders above it.
const maxIgnoreBytes, maxRules = 1 << 20, 50_000

// ignores are the rules that apply in a folder: its own .gitignore, then those of the folders above, up to the top of the Git
// repository. nil ignores nothing.
type ignores struct {
	above *ignores
	base  string // the rules' folder, relative to the root: "" for the root, else ending in "/"
	rules []rule
	// how much the rules of the folders below may still take
	bytesLeft, rulesLeft int
}

// decide applies Git's rules to an entry whose folder is not ignored. The last matching rule of the nearest file decides: the entry
// is ignored, included again ("!"), or neither.
func (i *ignores) decide(path, name string, isDir bool) (ignored, included bool) {
	for ; i != nil; i = i.above {
		below := path[len(i.base):]
		for n := len(i.rules) - 1; n >= 0; n-- {
			if r := &i.rules[n]; r.match(below, name, isDir) {
				return !r.negated, r.negated
			}
		}
	}
	return false, false
}

// enter returns the rules that apply in a folder. has reports whether the folder has an entry. A nested repository starts without
// rules. skipped receives files of rules that cannot be read or exceed the bounds.
func (i *ignores) enter(root *os.Root, base string, has func(name string) bool, skipped *skipList) *ignores {
	if has(".git") {
		if i != nil { // the outer rules no longer apply, but still count, because the walk keeps them in memory
			i = &ignores{bytesLeft: i.bytesLeft, rulesLeft: i.rulesLeft}
		}
		i = i.read(root, base, ".git/info/exclude", skipped)
	}
	if has(".gitignore") {
		i = i.read(root, base, ".gitignore", skipped)
	}
	return i
}

// read adds the rules of a file; it returns i if there are none.
func (i *ignores) read(root *os.Root, base, name string, skipped *skipList) *ignores {
	f, _, err := openRegular(root, name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return i // a repository need not have one, and its ".git" may be a file
	}
	if err != nil {
		skipped.add(unreadable, join(base, name))
		return i
	}
	defer f.Close()
	next := &ignores{above: i, base: join(base, ""), bytesLeft: maxIgnoreBytes, rulesLeft: maxRules}
	if i != nil {
		next.bytesLeft, next.rulesLeft = i.bytesLeft, i.rulesLeft
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(next.bytesLeft)+1))
	if err != nil {
		skipped.add(unreadable, join(base, name))
		return i
	}
	whole := len(text) <= next.bytesLeft
	if !whole { // the last line is cut
		text = text[:bytes.LastIndexByte(text[:next.bytesLeft], '\n')+1]
	}
	rules, complete := parseIgnores(text, next.rulesLeft)
	if !whole || !complete {
		skipped.add(ignoreSize, join(base, name))
	}
	if len(rules) == 0 {
		return i
	}
	next.rules = rules
	next.bytesLeft -= len(text)
	next.rulesLeft -= len(rules)
	return next
}

// parseIgnores parses the rules of a file, at most limit of them; complete reports whether these are all.
func parseIgnores(text []byte, limit int) (rules []rule, complete bool) {
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
		if len(rules) == limit {
			return rules, false
		}
		r := newRule(fromGit(pattern))
		r.negated = negated
		rules = append(rules, r)
	}
	return rules, true
}

// trimBlanks removes trailing spaces, except one that a backslash escapes.
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

// classes are Git's named character classes, which doublestar lacks.
var classes = strings.NewReplacer(
	"[:alnum:]", "a-zA-Z0-9", "[:alpha:]", "a-zA-Z", "[:blank:]", " \t", "[:cntrl:]", "\x00-\x1f\x7f",
	"[:digit:]", "0-9", "[:graph:]", "!-~", "[:lower:]", "a-z", "[:print:]", " -~",
	"[:punct:]", "!-/:-@[-`{-~", "[:space:]", " \t\n\r\v\f", "[:upper:]", "A-Z", "[:xdigit:]", "0-9a-fA-F")

// fromGit converts a line of .gitignore to doublestar's syntax. In .gitignore, braces are literal, "]" is literal as the first
// character in brackets, and more than two stars are like two.
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

// bracket converts the bracket expression at the start of a pattern, and returns its length. An unclosed one is copied unchanged,
// and matches nothing.
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
