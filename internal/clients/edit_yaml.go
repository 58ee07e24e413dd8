package clients

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/tidwall/gjson"
)

// yamlEditor edits the lines of entries in a block mapping.
type yamlEditor struct{}

// yamlFile is a text as lines, with the mapping of servers.
type yamlFile struct {
	lines []string // with their line breaks
	// key is the index of the line with the mapping's key; -1: there is no mapping.
	key   int
	names []string
	from  []int // the index of the line with each name
	empty bool  // the mapping has no entries
}

// openYAML finds the mapping of servers under the key path[0]. It fails if the mapping cannot be edited line by line.
func openYAML(text string, path []string) (*yamlFile, error) {
	parsed, err := parser.ParseBytes([]byte(text), 0)
	if err != nil {
		return nil, errors.New("it is not YAML")
	}
	f := &yamlFile{lines: strings.SplitAfter(text, "\n"), key: -1}
	if f.lines[len(f.lines)-1] == "" {
		f.lines = f.lines[:len(f.lines)-1]
	}
	if len(parsed.Docs) > 1 {
		return nil, errors.New("it holds several documents")
	}
	if len(parsed.Docs) == 0 || parsed.Docs[0].Body == nil {
		return f, nil
	}
	if root, ok := parsed.Docs[0].Body.(*ast.MappingNode); ok && root.IsFlowStyle || !editable(parsed.Docs[0].Body) {
		return nil, errLayout
	}
	for _, pair := range pairsOf(parsed.Docs[0].Body) {
		if pair.Key.GetToken().Value != path[0] {
			continue
		}
		key, known := f.line(pair.Key)
		if !known || !editable(pair.Value) {
			return nil, errLayout
		}
		f.key = key
		for _, one := range pairsOf(pair.Value) {
			from, known := f.line(one.Key)
			if !known {
				return nil, errLayout
			}
			f.names = append(f.names, one.Key.GetToken().Value)
			f.from = append(f.from, from)
		}
		f.empty = len(f.names) == 0
		if m, ok := pair.Value.(*ast.MappingNode); ok && m.IsFlowStyle && (!f.empty || m.End.Position.Line-1 > f.key) {
			return nil, fmt.Errorf("line %d: write the entries of %s in lines of their own", f.key+1, path[0])
		}
	}
	return f, nil
}

// line returns the index of a key's line. known is false if the parser counts lines differently, as it does at carriage returns without
// line feeds.
func (f *yamlFile) line(key ast.MapKeyNode) (n int, known bool) {
	n = key.GetToken().Position.Line - 1
	return n, n >= 0 && n < len(f.lines)
}

// editable reports whether a node is a mapping or null, without a tag, anchor or alias.
func editable(node ast.Node) bool {
	switch node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode, *ast.NullNode, *ast.CommentGroupNode:
		return true
	}
	return false
}

func pairsOf(node ast.Node) []*ast.MappingValueNode {
	switch node := node.(type) {
	case *ast.MappingNode:
		return node.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{node}
	}
	return nil
}

// indent returns the number of blanks before a line. blank reports whether the line is empty or a comment.
func indent(line string) (n int, blank bool) {
	rest := strings.TrimLeft(line, " ")
	return len(line) - len(rest), strings.TrimSpace(rest) == "" || rest[0] == '#'
}

// end returns the index of the line after the entry that begins at from. The entry goes up to the next line that is not indented deeper,
// except that a list may begin below its key without indentation.
func (f *yamlFile) end(from int) int {
	depth, _ := indent(f.lines[from])
	end := from + 1
	for i := end; i < len(f.lines); i++ {
		n, blank := indent(f.lines[i])
		if blank && n <= depth {
			continue
		}
		if n < depth || n == depth && !strings.HasPrefix(f.lines[i][n:], "-") {
			break
		}
		end = i + 1
	}
	return end
}

func (yamlEditor) remove(text string, path []string, name string) (string, entry, error) {
	f, err := openYAML(text, path)
	if err != nil {
		return "", entry{}, err
	}
	i := slices.Index(f.names, name)
	if i < 0 {
		return "", entry{}, fmt.Errorf("it has no %s", name)
	}
	from, end := f.from[i], f.end(f.from[i])
	depth, _ := indent(f.lines[from])
	for from-1 > f.key { // comments directly above it
		n, blank := indent(f.lines[from-1])
		if !blank || n != depth || strings.TrimSpace(f.lines[from-1]) == "" {
			break
		}
		from--
	}
	taken := strings.Join(f.lines[from:end], "")
	f.lines = append(f.lines[:from:from], f.lines[end:]...)
	return strings.Join(f.lines, ""), entry{name, strings.TrimRight(taken, "\n") + "\n"}, nil
}

func (yamlEditor) insert(text string, path []string, one entry) (string, error) {
	f, err := openYAML(text, path)
	if err != nil {
		return "", err
	}
	if n := len(f.lines); n > 0 && !strings.HasSuffix(f.lines[n-1], "\n") {
		f.lines[n-1] += "\n"
	}
	at, depth := len(f.lines), 2
	switch {
	case f.key < 0:
		f.lines = append(f.lines, path[0]+":\n")
		at++
	case f.empty:
		key, _ := indent(f.lines[f.key])
		name, rest, _ := strings.Cut(f.lines[f.key], ":")
		for _, nothing := range []string{"{}", "null", "~"} {
			if after, ok := strings.CutPrefix(strings.TrimLeft(rest, " "), nothing); ok {
				rest = after
			}
		}
		f.lines[f.key] = name + ":" + rest
		at, depth = f.key+1, key+2
	default:
		last := f.from[len(f.from)-1]
		at = f.end(last)
		depth, _ = indent(f.lines[last])
	}
	return strings.Join(slices.Insert(f.lines, at, reindent(one.Text, depth)), ""), nil
}

// reindent shifts an entry so that its first line is indented by depth.
func reindent(text string, depth int) string {
	first, _ := indent(text)
	var b strings.Builder
	for line := range strings.Lines(text) {
		if n, _ := indent(line); strings.TrimSpace(line) != "" && n >= first {
			line = strings.Repeat(" ", depth) + line[first:]
		}
		b.WriteString(line)
	}
	return b.String()
}

func (yamlEditor) render(_ string, _ []string, name string, fields []field) entry {
	var b bytes.Buffer
	fmt.Fprintf(&b, "  %s:\n", plainText(name))
	for _, one := range fields {
		fmt.Fprintf(&b, "    %s: %s\n", one.key, yamlValue(gjson.ParseBytes(one.value)))
	}
	return entry{name, b.String()}
}
