package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// position is the position of a value in the text, counted from 1.
type position struct{ line, column int }

// maxDepth is the maximum nesting of a configuration. The YAML parser's time grows with the square of it.
const maxDepth = 100

// decode decodes text, YAML or JSON, into c and returns all faults, in the order of the file.
func (c *File) decode(text []byte, lookup func(string) (string, bool)) []*fault.Error {
	text = textfile.WithoutMark(text)
	d := &decoder{positions: map[string]position{}, anchors: map[string]ast.Node{}}
	c.positions = d.positions
	root := d.parse(text, strings.EqualFold(filepath.Ext(c.Path), ".json"))
	if root != nil {
		ast.Walk(anchorVisitor(d.anchors), root)
		d.object(root, reflect.ValueOf(&c.Config).Elem(), "")
		d.check(&c.Config)
		d.expandAll(c, lookup)
	}
	d.literals = append(d.literals, keysIn(string(text))...)
	c.Redacted = maskSecrets(text, d.literals)
	c.Unreadable, c.AccessUnknown = root == nil && len(d.faults) > 0, slices.ContainsFunc(d.faults, obscuresAccess)
	c.Secrets, c.Warnings = d.secrets.list(), InOrder(d.warnings)
	return InOrder(d.faults)
}

// InOrder sorts faults by position, in place, and returns them.
func InOrder(faults []*fault.Error) []*fault.Error {
	slices.SortStableFunc(faults, func(a, b *fault.Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return faults
}

type decoder struct {
	positions map[string]position
	keys      map[string]position // the positions of keys, by the pointers of their values; nil: not recorded
	anchors   map[string]ast.Node
	values    int // number of values decoded so far; an alias counts at each use
	faults    []*fault.Error
	warnings  []*fault.Error
	secrets   secretSet
	literals  []string // secrets written in the text itself
}

// parse returns the root of the text, or nil if the text is empty or invalid.
func (d *decoder) parse(text []byte, asJSON bool) ast.Node {
	if !utf8.Valid(text) {
		d.fault(position{}, fault.BadJSON, "", "it is not UTF-8 text")
		return nil
	}
	if TooDeep(text) {
		d.fault(position{}, fault.BadJSON, "", "nested deeper than %d levels", maxDepth)
		return nil
	}
	if asJSON {
		// JSON may be indented by tabs, which YAML does not allow. JSON strings contain no tabs.
		text = bytes.ReplaceAll(text, []byte{'\t'}, []byte{' '})
	}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		format, at, message := "YAML", position{}, err.Error()
		if asJSON {
			format = "JSON"
		}
		var syntax yaml.Error
		if errors.As(err, &syntax) {
			at = newPosition(syntax.GetToken().Position.Line, syntax.GetToken().Position.Column)
			if message = syntax.GetMessage(); !asJSON {
				message = syntaxMessage(text, at, message)
			}
		}
		d.fault(at, fault.BadJSON, "", "not %s: %s", format, message)
		return nil
	}
	var root ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil:
			continue
		case root == nil:
			root = doc.Body
		default:
			d.fault(positionOf(doc.Body), fault.BadRequest, "", "a file holds one document: remove what follows ---")
		}
	}
	return root
}

// TooDeep estimates whether YAML is nested too deeply, before it is parsed.
func TooDeep(text []byte) bool {
	depth := 0
	for _, c := range text {
		switch c {
		case '[', '{':
			if depth++; depth > maxDepth {
				return true
			}
		case ']', '}':
			depth = max(depth-1, 0)
		}
	}
	return bytes.Contains(text, bytes.Repeat([]byte("- "), maxDepth))
}

// anchorVisitor collects the targets of aliases.
type anchorVisitor map[string]ast.Node

func (v anchorVisitor) Visit(n ast.Node) ast.Visitor {
	if anchor, ok := n.(*ast.AnchorNode); ok {
		v[anchor.Name.GetToken().Value] = anchor.Value
	}
	return v
}

// resolve follows anchors and aliases to the value that they stand for. It does not look inside a tag. An alias without an anchor is
// returned as it is, as is one that leads back to itself.
func (d *decoder) resolve(n ast.Node) ast.Node {
	for range maxDepth {
		switch node := n.(type) {
		case *ast.AnchorNode:
			n = node.Value
		case *ast.AliasNode:
			target, ok := d.anchors[node.Value.GetToken().Value]
			if !ok {
				return n
			}
			n = target
		default:
			return n
		}
	}
	return n
}

// pairs returns the members of a mapping; ok is false if the node is not a mapping. A null is an empty mapping.
func (d *decoder) pairs(n ast.Node, at string) ([]*ast.MappingValueNode, bool) {
	switch node := d.resolve(n).(type) {
	case *ast.NullNode:
		return nil, true
	case *ast.MappingNode:
		return node.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{node}, true
	}
	d.wrongType(n, at, "an object")
	return nil, false
}

// object decodes a mapping, or a list or a text in place of one, into a struct. The struct's tags yaml and also hold the keys.
func (d *decoder) object(n ast.Node, into reflect.Value, at string) {
	d.positions[at] = positionOf(n)
	table := tables[into.Type()]
	switch resolved := d.resolve(n).(type) {
	case *ast.SequenceNode:
		if table.list >= 0 {
			d.list(resolved, into, at, table)
			return
		}
	case *ast.StringNode:
		if table.text >= 0 {
			d.value(n, into.Field(table.text), at, &table.fields[table.text])
			d.positions[fault.Key(at, table.fields[table.text].key)] = d.positions[at]
			return
		}
	}
	pairs, ok := d.pairs(n, at)
	if !ok {
		return
	}
	given := map[int]string{} // the key that was given for each field
	for _, pair := range pairs {
		key := pair.Key.GetToken().Value
		pointer := fault.Key(at, key)
		i, known := table.byKey[key]
		if other, ok := table.having[key]; ok && d.has(pair.Value, table.fields[other].having) {
			i, known = other, true
		}
		switch {
		case !known:
			d.unknownKey(positionOf(pair.Key), key, pointer, into.Type(), table.keys)
		case given[i] != "":
			d.fault(positionOf(pair.Key), fault.BadRequest, pointer, "%s and %s mean the same: keep one of the two", given[i], key)
		default:
			given[i] = key
			d.value(pair.Value, into.Field(i), pointer, &table.fields[i])
			d.positions[fault.Key(at, table.fields[i].key)] = d.positions[pointer]
		}
	}
}

// has reports whether a node is an object with one of these keys.
func (d *decoder) has(n ast.Node, keys []string) bool {
	var pairs []*ast.MappingValueNode
	switch node := d.resolve(n).(type) {
	case *ast.MappingNode:
		pairs = node.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{node}
	}
	return slices.ContainsFunc(pairs, func(p *ast.MappingValueNode) bool { return slices.Contains(keys, p.Key.GetToken().Value) })
}

// list decodes a list in place of a struct. Its items have positions under both pointers: the list's, and the one of the field that it
// stands for.
func (d *decoder) list(n *ast.SequenceNode, into reflect.Value, at string, table *structTable) {
	d.value(n, into.Field(table.list), at, &table.fields[table.list])
	long := fault.Key(at, table.fields[table.list].key)
	d.positions[long] = d.positions[at]
	for i := range n.Values {
		d.positions[fault.Index(long, i)] = d.positions[fault.Index(at, i)]
	}
}

func (d *decoder) unknownKey(p position, key, pointer string, t reflect.Type, known []string) {
	if consequence, foreign := foreignKeys[t][key]; foreign {
		if consequence != "" {
			d.warn(p, pointer, "%s is not read: %s", key, consequence)
		}
		return
	}
	d.add(p, pointer, decode.Unknown("key", key, "", known))
}

// value decodes a value into a field of any kind that a configuration uses.
func (d *decoder) value(n ast.Node, into reflect.Value, at string, field *fieldTable) {
	if into.Kind() == reflect.Struct {
		d.object(n, into, at)
		return
	}
	d.positions[at] = positionOf(n)
	resolved := d.resolve(n)
	_, null := resolved.(*ast.NullNode)
	raw := into.Type() == reflect.TypeFor[json.RawMessage]()
	switch {
	case !d.countValue(n, at) || null && !raw:
	case raw:
		into.SetBytes(d.json(n, at))
	case into.Kind() == reflect.Map:
		d.dictionary(n, into, at, field)
	case into.Kind() == reflect.Slice && into.Type().Elem().Kind() == reflect.Struct:
		if _, isEntry := into.Type().Elem().FieldByName("Config"); isEntry {
			d.table(n, into, at)
			return
		}
		d.objects(n, resolved, into, at)
	case into.Kind() == reflect.Slice:
		d.texts(n, resolved, into, at, field)
	case into.Type().Elem().Kind() == reflect.Struct:
		into.Set(reflect.New(into.Type().Elem()))
		d.object(n, into.Elem(), at)
	default:
		scalar := reflect.New(into.Type().Elem())
		if want := setScalar(resolved, scalar.Interface(), field.scalars); want != "" {
			d.wrongType(n, at, want)
			return
		}
		into.Set(scalar)
		d.checkRule(at, scalar.Elem().Interface(), field.rule)
	}
}

// maxValues is the maximum number of values of a configuration, including those repeated by aliases.
const maxValues = 100_000

// countValue counts a value and reports whether it is within the limit. It adds one fault when the limit is exceeded.
func (d *decoder) countValue(n ast.Node, at string) bool {
	if d.values++; d.values == maxValues+1 {
		d.fault(positionOf(n), fault.LimitExceeded, at, "the configuration has more than %d values: does it repeat an alias?", maxValues)
	}
	return d.values <= maxValues
}

// table decodes a mapping whose keys are names, in order.
func (d *decoder) table(n ast.Node, into reflect.Value, at string) {
	pairs, _ := d.pairs(n, at)
	for _, pair := range pairs {
		key := pair.Key.GetToken().Value
		pointer := fault.Key(at, key)
		entry := reflect.New(into.Type().Elem()).Elem()
		entry.FieldByName("Name").SetString(key)
		d.positions[pointer] = positionOf(pair.Key)
		if d.countValue(pair.Key, pointer) {
			d.object(pair.Value, entry.FieldByName("Config"), pointer)
			d.positions[pointer] = positionOf(pair.Key)
			into.Set(reflect.Append(into, entry))
		}
	}
}

// objects decodes a list of mappings.
func (d *decoder) objects(n, resolved ast.Node, into reflect.Value, at string) {
	list, ok := resolved.(*ast.SequenceNode)
	if !ok {
		d.wrongType(n, at, "a list of objects")
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), 0, len(list.Values)))
	for i, item := range list.Values {
		pointer := fault.Index(at, i)
		one := reflect.New(into.Type().Elem()).Elem()
		if !d.countValue(item, pointer) {
			return
		}
		d.object(item, one, pointer)
		into.Set(reflect.Append(into, one))
	}
}

// dictionary decodes a mapping of names to strings or to any JSON.
func (d *decoder) dictionary(n ast.Node, into reflect.Value, at string, field *fieldTable) {
	pairs, _ := d.pairs(n, at)
	into.Set(reflect.MakeMap(into.Type()))
	for _, pair := range pairs {
		key := pair.Key.GetToken().Value
		pointer := fault.Key(at, key)
		d.positions[pointer] = positionOf(pair.Value)
		if !d.countValue(pair.Value, pointer) {
			return
		}
		if into.Type().Elem() == reflect.TypeFor[json.RawMessage]() {
			into.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(d.json(pair.Value, pointer)))
			continue
		}
		var text string
		if want := setScalar(d.resolve(pair.Value), &text, field.scalars); want != "" {
			if _, null := d.resolve(pair.Value).(*ast.NullNode); null {
				pointer = at // a key without a value may be a misplaced secret
			}
			d.wrongType(pair.Value, pointer, want)
			continue
		}
		into.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(text))
	}
}

// texts decodes a list of strings.
func (d *decoder) texts(n, resolved ast.Node, into reflect.Value, at string, field *fieldTable) {
	list, ok := resolved.(*ast.SequenceNode)
	if !ok {
		d.wrongType(n, at, "a list of strings")
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), 0, len(list.Values))) // an empty list differs from a missing one
	for i, item := range list.Values {
		var text string
		pointer := fault.Index(at, i)
		d.positions[pointer] = positionOf(item)
		if !d.countValue(item, pointer) {
			return
		}
		if want := setScalar(d.resolve(item), &text, field.scalars); want != "" {
			d.wrongType(item, pointer, want)
		}
		into.Set(reflect.Append(into, reflect.ValueOf(text)))
	}
}
