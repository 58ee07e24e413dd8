package config

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	yamltoken "github.com/goccy/go-yaml/token"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

var (
	// jsonNumber is the grammar of RFC 8259, section 6.
	jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
	// otherNumber is what other readers or versions of YAML also read as a number.
	otherNumber = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?$`)
)

// json converts a value to JSON. Numbers are unchanged, and keys keep their order. YAML types that JSON lacks, such as dates, become text
// or a fault. With a fault it returns null.
func (d *decoder) json(n ast.Node, at string) json.RawMessage {
	w := &jsonWriter{decoder: d}
	w.value(n, at, 0)
	if w.broken {
		return json.RawMessage("null")
	}
	return w.out
}

// jsonWriter writes a value of a configuration as JSON.
type jsonWriter struct {
	*decoder
	out    []byte
	broken bool
}

func (w *jsonWriter) refuse(n ast.Node, at, format string, args ...any) {
	w.fault(positionOf(n), fault.BadRequest, at, format, args...)
	w.broken = true
}

func (w *jsonWriter) value(n ast.Node, at string, depth int) {
	w.positions[at] = positionOf(n)
	if depth > maxDepth {
		w.refuse(n, at, "nested deeper than %d levels: does an alias hold itself?", maxDepth)
		return
	}
	if !w.countValue(n, at) {
		w.broken = true
		return
	}
	switch node := w.resolve(n).(type) {
	case *ast.NullNode:
		w.out = append(w.out, "null"...)
	case *ast.BoolNode:
		w.out = strconv.AppendBool(w.out, node.Value)
	case *ast.MappingNode:
		if text, ok := textOf(node); ok {
			w.out = gjson.AppendJSONString(w.out, text)
			return
		}
		w.object(node.Values, at, depth)
	case *ast.MappingValueNode:
		if text, ok := plainWithColon(node); ok {
			w.out = gjson.AppendJSONString(w.out, text)
			return
		}
		w.object([]*ast.MappingValueNode{node}, at, depth)
	case *ast.SequenceNode:
		w.out = append(w.out, '[')
		for i, item := range node.Values {
			if i > 0 {
				w.out = append(w.out, ',')
			}
			w.value(item, fault.Index(at, i), depth+1)
		}
		w.out = append(w.out, ']')
	default:
		w.scalar(node, n, at)
	}
}

func (w *jsonWriter) object(pairs []*ast.MappingValueNode, at string, depth int) {
	seen := make(map[string]bool, len(pairs))
	w.out = append(w.out, '{')
	for i, pair := range pairs {
		key := pair.Key.GetToken().Value
		pointer := fault.Key(at, key)
		if _, merge := pair.Key.(*ast.MergeKeyNode); merge || seen[key] {
			w.refuse(pair.Key, pointer, "%s: write each key out, once", fault.Clip(key, 60))
			continue
		}
		seen[key] = true
		if w.keys != nil {
			w.keys[pointer] = positionOf(pair.Key)
		}
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.out = append(gjson.AppendJSONString(w.out, key), ':')
		w.value(pair.Value, pointer, depth+1)
	}
	w.out = append(w.out, '}')
}

// scalar writes a text or a number. An unquoted word that is a JSON number is a number, of any size.
func (w *jsonWriter) scalar(node, written ast.Node, at string) {
	spelt := node.GetToken().Value
	text, isText := textOf(node)
	plain := !isText || node.GetToken().Type == yamltoken.StringType
	switch node := node.(type) {
	case *ast.AliasNode:
		w.refuse(written, at, "*%s is an alias in YAML, and there is no anchor of that name: put the text in quotes",
			fault.Clip(node.Value.GetToken().Value, 60))
		return
	case *ast.TagNode:
		w.refuse(written, at, "%s is a tag in YAML: put the text in quotes", fault.Clip(spelt, 60))
		return
	}
	switch {
	case plain && jsonNumber.MatchString(spelt):
		w.out = append(w.out, spelt...)
	case plain && (!isText || otherNumber.MatchString(spelt)):
		w.refuse(written, at, "%s is not a value of JSON: write the number as JSON does, or the text in quotes", fault.Clip(spelt, 60))
	default:
		w.out = gjson.AppendJSONString(w.out, text)
	}
}

// YAML converts a YAML document to JSON. Numbers are unchanged, and keys keep their order. positionAt returns the position of the value at
// a JSON Pointer, or of its key, or of the nearest value around it. With faults there is no JSON.
func YAML(text []byte) (value json.RawMessage, positionAt func(at string, ofKey bool) (line, column int), faults []*fault.Error) {
	d := &decoder{positions: map[string]position{}, keys: map[string]position{}, anchors: map[string]ast.Node{}}
	root := d.parse(text, false)
	if root == nil && len(d.faults) == 0 {
		d.fault(position{1, 1}, fault.BadJSON, "", "the file is empty")
	}
	if root != nil {
		ast.Walk(anchorVisitor(d.anchors), root)
		value = d.json(root, "")
	}
	if len(d.faults) > 0 {
		for _, f := range d.faults {
			if f.Code == fault.BadRequest { // the file cannot be read as JSON, as with a fault of its syntax
				f.Code = fault.BadJSON
			}
			f.Line, f.Column = max(f.Line, 1), max(f.Column, 1)
		}
		return nil, nil, InOrder(d.faults)
	}
	return value, func(at string, ofKey bool) (int, int) {
		if p, known := d.keys[at]; known && ofKey {
			return p.line, p.column
		}
		for {
			if p, known := d.positions[at]; known || at == "" {
				return p.line, p.column
			}
			at = at[:max(strings.LastIndexByte(at, '/'), 0)]
		}
	}, nil
}
