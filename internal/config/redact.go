package config

import (
	"bytes"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	yamltoken "github.com/goccy/go-yaml/token"

	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// mayNameSecrets matches words that may stand near a secret, for a text that cannot be parsed.
var mayNameSecrets = regexp.MustCompile(`(?i)servers|openapi|endpoints|env|headers|auth|args|url|value|key|token|secret|pass|credential|cookie|store|redis|valkey|postgres|unix`)

// comment matches what may be a comment.
var comment = regexp.MustCompile(`(^|\s)#[^\r]+`)

// redactLines returns the text for the lines of faults. All values under hiddenKeys and under names that look like a secret's are masked.
// It returns nil, so that no line is shown, if these values cannot be determined, as in most texts that cannot be parsed.
func (d *decoder) redactLines(text []byte) []byte {
	if len(d.roots) == 0 {
		if mayNameSecrets.Match(text) {
			return nil
		}
		return text
	}
	v := &secretVisitor{decoder: d, seen: map[ast.Node]bool{}}
	for _, root := range d.roots {
		ast.Walk(v, root)
	}
	lines := bytes.Split(text, []byte{'\n'})
	for _, t := range v.tokens {
		if !coverToken(lines, t) {
			return nil
		}
	}
	for i, line := range lines {
		lines[i] = comment.ReplaceAllFunc(line, func(comment []byte) []byte {
			at := bytes.IndexByte(comment, '#') + 1
			return append(bytes.Clone(comment[:at]), maskText(comment[at:])...)
		})
	}
	return bytes.Join(lines, []byte{'\n'})
}

// secretVisitor collects the tokens of values that must not be shown.
type secretVisitor struct {
	decoder *decoder
	within  bool              // the walk is inside a value that must not be shown
	seen    map[ast.Node]bool // targets of aliases
	tokens  []*yamltoken.Token
}

// Visit implements ast.Visitor.
func (v *secretVisitor) Visit(n ast.Node) ast.Visitor {
	switch node := n.(type) {
	case *ast.MappingValueNode:
		v.pair(node)
		return nil
	case *ast.AliasNode:
		target, ok := v.decoder.anchors[node.Value.GetToken().Value]
		if v.within && ok && !v.seen[target] {
			v.seen[target] = true
			ast.Walk(v, target)
		}
		return nil
	case *ast.LiteralNode:
		if v.within {
			v.tokens = append(v.tokens, node.Start, node.Value.GetToken())
		}
		return nil
	case *ast.TagNode:
		if v.within {
			v.tokens = append(v.tokens, node.GetToken())
		}
	case ast.ScalarNode:
		if t := n.GetToken(); v.within || t != nil && nearlyStore.MatchString(t.Value) {
			v.tokens = append(v.tokens, t)
		}
	}
	return v
}

// nearlyStore matches the URL of a store, or something like it, in the wrong place: its password may be anywhere in it.
var nearlyStore = regexp.MustCompile(`(?i)^\s*(redis|valkey|unix|postgres|postgresql)s?\s*:?/`)

// plainStores are the stores that are not URLs, which may contain a password.
var plainStores = map[string]bool{"memory": true, "disk": true, "postgres": true}

// plainKey matches normal keys. Anything else, such as a key without a value, may be a misplaced secret.
var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

func (v *secretVisitor) pair(node *ast.MappingValueNode) {
	key := node.Key.GetToken()
	_, null := node.Value.(*ast.NullNode)
	if v.within && (null || !plainKey.MatchString(key.Value)) {
		v.tokens = append(v.tokens, key)
	}
	outer := v.within
	hidden, known := hiddenKeys[key.Value]
	v.within = outer || hidden || !known && secret.Name(key.Value) ||
		key.Value == "store" && !plainStores[node.Value.GetToken().Value]
	if key.Value == "tokens" {
		v.tokenList(node.Value)
	} else {
		ast.Walk(v, node.Value)
	}
	v.within = outer
}

// tokenList walks the value of tokens. A token written without an object is masked.
func (v *secretVisitor) tokenList(n ast.Node) {
	list := []ast.Node{n}
	if sequence, ok := n.(*ast.SequenceNode); ok {
		list = sequence.Values
	}
	outer := v.within
	for _, one := range list {
		switch one.(type) {
		case *ast.MappingNode, *ast.MappingValueNode:
			v.within = outer
		default:
			v.within = true
		}
		ast.Walk(v, one)
	}
	v.within = outer
}

// coverToken masks the lines from a token to the next token. It returns false if the token is not at its position.
func coverToken(lines [][]byte, t *yamltoken.Token) bool {
	if t == nil || t.Position == nil {
		return false
	}
	if t.Type == yamltoken.ImplicitNullType {
		return true
	}
	from := position{t.Position.Line, t.Position.Column}
	to := position{len(lines) + 1, 1}
	if next := t.Next; next != nil && next.Position != nil {
		to = position{next.Position.Line, next.Position.Column}
	}
	if t.Prev != nil && (t.Prev.Type == yamltoken.LiteralType || t.Prev.Type == yamltoken.FoldedType) {
		from = position{t.Prev.Position.Line + 1, 1} // a block begins after its token's position
	} else if !tokenAt(lines, t) {
		return false
	}
	for number := from.line; number <= min(to.line, len(lines)); number++ {
		line := string(lines[number-1])
		start, end := 0, len(line)
		if number == from.line {
			start = textfile.Offset(line, from.column)
		}
		if number == to.line {
			end = max(textfile.Offset(line, to.column), start)
		}
		section := line[start:end]
		value := strings.TrimSpace(section)
		if value == "" {
			continue
		}
		before, after, _ := strings.Cut(section, value)
		lines[number-1] = []byte(line[:start] + before + string(maskValue([]byte(value))) + after + line[end:])
	}
	return true
}

// tokenAt reports whether a token is at its position, or is masked already.
func tokenAt(lines [][]byte, t *yamltoken.Token) bool {
	line := t.Position.Line
	if line < 1 || line > len(lines) {
		return false
	}
	text := string(lines[line-1])
	text = text[textfile.Offset(text, t.Position.Column):]
	first, _, _ := strings.Cut(strings.TrimSpace(t.Origin), "\n")
	first = strings.TrimSpace(first)
	_, n := utf8.DecodeRuneInString(first)
	return text != "" && first != "" && (strings.HasPrefix(text, first[:n]) || strings.HasPrefix(text, string(maskValue([]byte(first)))[:1]))
}
