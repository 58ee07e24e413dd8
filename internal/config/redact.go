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

// mayNameSecrets finds in a text that cannot be parsed the words near which a secret may stand.
var mayNameSecrets = regexp.MustCompile(`(?i)servers|openapi|endpoints|env|headers|auth|args|url|value|key|token|secret|pass|credential|cookie|store|redis|unix`)

// remark is what may be a comment.
var remark = regexp.MustCompile(`(^|\s)#[^\r]+`)

// shownLines is the text of a configuration as the lines of faults show it: nothing that stands under hiddenKeys, or
// under a name that looks like a secret's, whatever kind of value it is. It is nil where that cannot be told, as
// in a text that could not be parsed: no line is shown then.
func (d *decoder) shownLines(text []byte) []byte {
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
		lines[i] = remark.ReplaceAllFunc(line, func(comment []byte) []byte {
			at := bytes.IndexByte(comment, '#') + 1
			return append(bytes.Clone(comment[:at]), covered(comment[at:])...)
		})
	}
	return bytes.Join(lines, []byte{'\n'})
}

// secretVisitor gathers the tokens of values that are not to be shown.
type secretVisitor struct {
	decoder *decoder
	within  bool
	seen    map[ast.Node]bool // the targets of aliases
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

// nearlyStore is a URL of a store in the place of something else, or nearly one: its password may be anywhere in it.
var nearlyStore = regexp.MustCompile(`(?i)^\s*(redis|valkey|unix)s?\s*:?/`)

// plainStores are the values of a store that are words, and no URL that may hold a password.
var plainStores = map[string]bool{"memory": true, "disk": true}

// fitKey is what a key looks like; anything else, as a key without a value, may be a secret in the wrong place.
var fitKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

func (v *secretVisitor) pair(node *ast.MappingValueNode) {
	key := node.Key.GetToken()
	_, null := node.Value.(*ast.NullNode)
	if v.within && (null || !fitKey.MatchString(key.Value)) {
		v.tokens = append(v.tokens, key)
	}
	outside := v.within
	hidden, known := hiddenKeys[key.Value]
	v.within = outside || hidden || !known && secret.Name(key.Value) ||
		key.Value == "store" && !plainStores[node.Value.GetToken().Value]
	if key.Value == "tokens" {
		v.bare(node.Value)
	} else {
		ast.Walk(v, node.Value)
	}
	v.within = outside
}

// bare walks the value of tokens, where whoever writes a token alone in the place of its entry has it covered.
func (v *secretVisitor) bare(n ast.Node) {
	list := []ast.Node{n}
	if sequence, ok := n.(*ast.SequenceNode); ok {
		list = sequence.Values
	}
	outside := v.within
	for _, one := range list {
		switch one.(type) {
		case *ast.MappingNode, *ast.MappingValueNode:
			v.within = outside
		default:
			v.within = true
		}
		ast.Walk(v, one)
	}
	v.within = outside
}

// coverToken covers the lines from a token to the next one; false where the token is not found in its place.
func coverToken(lines [][]byte, t *yamltoken.Token) bool {
	if t == nil || t.Position == nil {
		return false
	}
	if t.Type == yamltoken.ImplicitNullType {
		return true
	}
	from := place{t.Position.Line, t.Position.Column}
	to := place{len(lines) + 1, 1}
	if next := t.Next; next != nil && next.Position != nil {
		to = place{next.Position.Line, next.Position.Column}
	}
	if t.Prev != nil && (t.Prev.Type == yamltoken.LiteralType || t.Prev.Type == yamltoken.FoldedType) {
		from = place{t.Prev.Position.Line + 1, 1} // where a block begins is not where its token says
	} else if !standsAt(lines, t) {
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
		part := line[start:end]
		value := strings.TrimSpace(part)
		if value == "" {
			continue
		}
		before, after, _ := strings.Cut(part, value)
		lines[number-1] = []byte(line[:start] + before + string(stars([]byte(value))) + after + line[end:])
	}
	return true
}

// standsAt reports whether a token stands where it says, or is covered already.
func standsAt(lines [][]byte, t *yamltoken.Token) bool {
	line := t.Position.Line
	if line < 1 || line > len(lines) {
		return false
	}
	text := string(lines[line-1])
	text = text[textfile.Offset(text, t.Position.Column):]
	first, _, _ := strings.Cut(strings.TrimSpace(t.Origin), "\n")
	first = strings.TrimSpace(first)
	_, n := utf8.DecodeRuneInString(first)
	return text != "" && first != "" && (strings.HasPrefix(text, first[:n]) || strings.HasPrefix(text, string(stars([]byte(first)))[:1]))
}
