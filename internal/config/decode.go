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
)

// place is where a value stands in the configuration's text, from 1.
type place struct{ line, column int }

// maxDepth bounds how deep the brackets and lists of a configuration nest: the YAML parser takes time that grows
// with the square of it.
const maxDepth = 100

// decode reads c.text, YAML or JSON, into c and finds all faults. The secrets in c.text are redacted.
func (c *File) decode(lookup func(string) (string, bool)) []*fault.Error {
	text := bytes.TrimPrefix(c.Text, []byte("\ufeff"))
	d := &decoder{places: map[string]place{}, anchors: map[string]ast.Node{}}
	c.places = d.places
	root := d.parse(text, strings.EqualFold(filepath.Ext(c.Path), ".json"))
	if root != nil {
		ast.Walk(anchorVisitor(d.anchors), root)
		c.Settings = map[string]string{}
		d.addSettings(c.Settings, root, "")
		d.object(root, reflect.ValueOf(&c.Config).Elem(), "")
		d.check(&c.Config)
		d.expandAll(c, lookup)
	}
	d.literals = append(d.literals, keysIn(string(text))...)
	c.Shown = mask(text, d.literals)
	c.Text = mask(d.shownLines(text), d.literals)
	c.Unread, c.AccessUnsure = root == nil && len(d.faults) > 0, slices.ContainsFunc(d.faults, hidesAccess)
	c.Secrets, c.Warnings = d.secrets.list(), InOrder(d.warnings)
	return InOrder(d.faults)
}

// InOrder sorts faults by their places.
func InOrder(faults []*fault.Error) []*fault.Error {
	slices.SortStableFunc(faults, func(a, b *fault.Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return faults
}

type decoder struct {
	places   map[string]place
	anchors  map[string]ast.Node
	read     int // values so far; an alias counts at each use
	faults   []*fault.Error
	warnings []*fault.Error
	secrets  secretSet
	literals []string   // secrets that are written in the text itself
	roots    []ast.Node // of all documents
}

// parse gives the root of the text, nil when it is empty or a fault.
func (d *decoder) parse(text []byte, asJSON bool) ast.Node {
	if !utf8.Valid(text) {
		d.fault(place{}, fault.BadJSON, "", "it is not UTF-8 text")
		return nil
	}
	if TooDeep(text) {
		d.fault(place{}, fault.BadJSON, "", "nested deeper than %d levels", maxDepth)
		return nil
	}
	if asJSON {
		// JSON may be indented by tabs, which YAML does not allow. Inside of its strings there are none.
		text = bytes.ReplaceAll(text, []byte{'\t'}, []byte{' '})
	}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		var syntax yaml.Error
		if errors.As(err, &syntax) {
			at := placeOf(syntax.GetToken().Position.Line, syntax.GetToken().Position.Column)
			d.fault(at, fault.BadJSON, "", "not YAML or JSON: %s", syntax.GetMessage())
		} else {
			d.fault(place{}, fault.BadJSON, "", "not YAML or JSON: %v", err)
		}
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
			d.fault(nodePlace(doc.Body), fault.BadRequest, "", "one file is one document: remove what follows ---")
		}
		d.roots = append(d.roots, doc.Body)
	}
	return root
}

// TooDeep bounds the nesting of YAML roughly, before a parser sees the text.
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

// anchorVisitor collects what aliases may refer to.
type anchorVisitor map[string]ast.Node

func (v anchorVisitor) Visit(n ast.Node) ast.Visitor {
	if anchor, ok := n.(*ast.AnchorNode); ok {
		v[anchor.Name.GetToken().Value] = anchor.Value
	}
	return v
}

// resolve looks through anchors and aliases, however they are chained. Tags are not read.
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

// pairs are the members of a mapping; nil with false where the node is none. A null is an empty mapping.
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

// object reads a mapping into a struct, whose fields name their keys in the tags yaml and also.
func (d *decoder) object(n ast.Node, into reflect.Value, at string) {
	d.places[at] = nodePlace(n)
	table := tables[into.Type()]
	if list, is := d.resolve(n).(*ast.SequenceNode); is && table.list >= 0 {
		d.list(list, into, at, table)
		return
	}
	pairs, ok := d.pairs(n, at)
	if !ok {
		return
	}
	said := map[int]string{} // by field
	for _, pair := range pairs {
		key := pair.Key.GetToken().Value
		pointer := fault.Key(at, key)
		i, known := table.byKey[key]
		switch {
		case !known:
			d.unknown(nodePlace(pair.Key), key, pointer, into.Type(), table.keys)
		case said[i] != "":
			d.fault(nodePlace(pair.Key), fault.BadRequest, pointer, "%s and %s mean the same: keep one of the two", said[i], key)
		default:
			said[i] = key
			d.value(pair.Value, into.Field(i), pointer, &table.fields[i])
			d.places[fault.Key(at, table.fields[i].key)] = d.places[pointer]
		}
	}
}

// list reads a list that stands for the struct whose field it is. Its items are known by both places.
func (d *decoder) list(n *ast.SequenceNode, into reflect.Value, at string, table *structTable) {
	d.value(n, into.Field(table.list), at, &table.fields[table.list])
	long := fault.Key(at, table.fields[table.list].key)
	d.places[long] = d.places[at]
	for i := range n.Values {
		d.places[fault.Index(long, i)] = d.places[fault.Index(at, i)]
	}
}

func (d *decoder) unknown(p place, key, pointer string, t reflect.Type, known []string) {
	if consequence, foreign := foreignKeys[t][key]; foreign {
		if consequence != "" {
			d.warn(p, pointer, "%s is not read: %s", key, consequence)
		}
		return
	}
	f := fault.New(fault.UnknownField, "unknown key %q", key)
	f.Available, f.Nearest = known, fault.Nearest(key, known, 1)
	if len(f.Nearest) == 0 {
		f.Message += ": known here are " + strings.Join(known, ", ")
	}
	d.add(p, pointer, f)
}

// value reads one value into a field of any kind that the structs of a configuration have.
func (d *decoder) value(n ast.Node, into reflect.Value, at string, field *fieldTable) {
	if into.Kind() == reflect.Struct {
		d.object(n, into, at)
		return
	}
	d.places[at] = nodePlace(n)
	resolved := d.resolve(n)
	_, null := resolved.(*ast.NullNode)
	raw := into.Type() == reflect.TypeFor[json.RawMessage]()
	switch {
	case !d.allowed(n, at) || null && !raw:
	case raw:
		into.SetBytes(d.json(n, at))
	case into.Kind() == reflect.Map:
		d.dictionary(n, into, at, field)
	case into.Kind() == reflect.Slice && into.Type().Elem().Kind() == reflect.Struct:
		if _, named := into.Type().Elem().FieldByName("Config"); named {
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

// maxValues bounds the values of a configuration, those that aliases repeat included.
const maxValues = 100_000

// allowed counts a value, and reports whether there may be so many. It reports once where there are too many.
func (d *decoder) allowed(n ast.Node, at string) bool {
	if d.read++; d.read == maxValues+1 {
		d.fault(nodePlace(n), fault.LimitExceeded, at, "the configuration has more than %d values: does it repeat an alias?", maxValues)
	}
	return d.read <= maxValues
}

// table reads a mapping whose keys are names, in their order.
func (d *decoder) table(n ast.Node, into reflect.Value, at string) {
	pairs, _ := d.pairs(n, at)
	for _, pair := range pairs {
		key := pair.Key.GetToken().Value
		pointer := fault.Key(at, key)
		entry := reflect.New(into.Type().Elem()).Elem()
		entry.FieldByName("Name").SetString(key)
		d.places[pointer] = nodePlace(pair.Key)
		if d.allowed(pair.Key, pointer) {
			d.object(pair.Value, entry.FieldByName("Config"), pointer)
			d.places[pointer] = nodePlace(pair.Key)
			into.Set(reflect.Append(into, entry))
		}
	}
}

// objects reads a list of mappings.
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
		if !d.allowed(item, pointer) {
			return
		}
		d.object(item, one, pointer)
		into.Set(reflect.Append(into, one))
	}
}

// dictionary reads a mapping of names to strings or to any JSON.
func (d *decoder) dictionary(n ast.Node, into reflect.Value, at string, field *fieldTable) {
	pairs, _ := d.pairs(n, at)
	into.Set(reflect.MakeMap(into.Type()))
	for _, pair := range pairs {
		key := pair.Key.GetToken().Value
		pointer := fault.Key(at, key)
		d.places[pointer] = nodePlace(pair.Value)
		if !d.allowed(pair.Value, pointer) {
			return
		}
		if into.Type().Elem() == reflect.TypeFor[json.RawMessage]() {
			into.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(d.json(pair.Value, pointer)))
			continue
		}
		var text string
		if want := setScalar(d.resolve(pair.Value), &text, field.scalars); want != "" {
			d.wrongType(pair.Value, pointer, want)
			continue
		}
		into.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(text))
	}
}

func (d *decoder) texts(n, resolved ast.Node, into reflect.Value, at string, field *fieldTable) {
	list, ok := resolved.(*ast.SequenceNode)
	if !ok {
		d.wrongType(n, at, "a list of strings")
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), 0, len(list.Values))) // an empty list is not one that is not given
	for i, item := range list.Values {
		var text string
		pointer := fault.Index(at, i)
		d.places[pointer] = nodePlace(item)
		if !d.allowed(item, pointer) {
			return
		}
		if want := setScalar(d.resolve(item), &text, field.scalars); want != "" {
			d.wrongType(item, pointer, want)
		}
		into.Set(reflect.Append(into, reflect.ValueOf(text)))
	}
}
