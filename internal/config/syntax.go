package config

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/onecall-mcp/onecall/internal/textfile"
)

// syntaxMessage adds the remedy to the parser's message for frequent mistakes in YAML. at is the position that the parser reports.
func syntaxMessage(text []byte, at position, message string) string {
	if strings.Contains(message, "'\t'") {
		return "a tab: YAML is indented with spaces"
	}
	plain := message
	if separators, found := strings.CutSuffix(message, " must be specified"); found { // such as ',' or '}'
		plain = strings.ReplaceAll(separators, "'", "") + " is missing"
	}
	lines := strings.Split(string(text), "\n")
	if at.line < 1 || at.line > len(lines) {
		return plain
	}
	line := lines[at.line-1]
	offset := textfile.Offset(line, at.column)
	if remedy := remedyFor(lines, at, line, offset, message); remedy != "" {
		return plain + ": " + remedy
	}
	return plain
}

var (
	// commentInText matches a # that YAML reads as the begin of a comment, inside a value between braces.
	commentInText = regexp.MustCompile(`[{\[].*\s#`)
	// pairInText matches a value that is not in quotes and has what YAML reads as the colon of a pair.
	pairInText = regexp.MustCompile(`:\s+[^\s"'\[{|>].*\s?:(\s|$)`)
)

// remedyFor returns what to do about a mistake at an offset of a line; "": the parser's message has to do.
func remedyFor(lines []string, at position, line string, offset int, message string) string {
	next := byte(0)
	if offset < len(line) {
		next = line[offset]
	}
	switch {
	case strings.Contains(message, "flow") && commentInText.MatchString(line):
		return `in YAML, " #" ends a text and begins a comment: put the value in quotes`
	case strings.Contains(message, "tag character"), message == "unexpected scalar value type" && strings.Contains(line, "!"):
		return "! begins a tag in YAML, so put the value in quotes" // the tag itself may be a secret
	case strings.Contains(message, "is a reserved character"):
		return "put the value in quotes"
	case strings.Contains(message, "invalid key for this map") || strings.Contains(message, "mapping value") && pairInText.MatchString(line):
		return `in YAML, ": " and " :" separate a key from its value, and { begins an object: put the value in quotes`
	case message == "value is not allowed in this context" && offset == len(line)-len(strings.TrimLeft(line, " ")):
		return misindented(lines, at, offset)
	case next == '[' || next == '{':
		return fmt.Sprintf("between braces, put a value with %c in quotes", next)
	case offset > 0 && offset <= len(line) && line[offset-1] == '*':
		return "* begins the name of an alias in YAML, so put the value in quotes"
	case strings.Contains(message, "must be specified"), strings.Contains(message, "value is not allowed"):
		return continuedValue(strings.TrimRight(line[:offset], " "), next)
	}
	return ""
}

// continuedValue returns the remedy for a value that its last character has ended, although next follows; "": before ends in none such, or
// next begins a value of its own.
func continuedValue(before string, next byte) string {
	if before == "" || strings.IndexByte("\x00\"'", next) >= 0 {
		return ""
	}
	switch last := before[len(before)-1]; last {
	case '\'':
		return "the ' before it ends the text: write '' for one in the text, or put the text in double quotes"
	case '"':
		return `the " before it ends the text: write \" for one in the text, or put the text in single quotes`
	case ']', '}':
		return fmt.Sprintf("the %c before it ends the value: to have it in a text, put the whole text in quotes", last)
	}
	return ""
}

// misindented returns the remedy for a line whose indentation is that of no line before it.
func misindented(lines []string, at position, indent int) string {
	for i := at.line - 2; i >= 0; i-- {
		before := lines[i]
		if strings.TrimSpace(before) == "" {
			continue
		}
		column := len(before) - len(strings.TrimLeft(before, " -")) // that of the first key, behind the dash of a list
		if column > indent {
			return fmt.Sprintf("the line is indented by %d spaces: the keys of one object begin in one column, as in line %d by %d", indent, i+1, column)
		}
		break
	}
	return "its indentation fits no line before it: the keys of one object begin in one column"
}
