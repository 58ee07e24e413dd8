package main

import (
	"bytes"
	"errors"
	"math"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-playground/validator/v10"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/onecall-mcp/onecall/fault"
)

// place is where a value stands in the configuration's text, from 1.
type place struct{ line, column int }

// maxConfigDepth bounds how deep the brackets and lists of a configuration nest: the YAML parser takes time that grows
// with the square of it.
const maxConfigDepth = 100

// decode reads c.text, YAML or JSON, into c and finds all faults.
func (c *configFile) decode() []*fault.Error {
	text := bytes.TrimPrefix(c.text, []byte("\ufeff"))
	d := &configDecoder{places: map[string]place{}, anchors: map[string]ast.Node{}}
	c.places = d.places
	root := d.parse(text, strings.EqualFold(filepath.Ext(c.path), ".json"))
	if root == nil {
		return d.faults
	}
	ast.Walk(anchorVisitor(d.anchors), root)
	d.object(root, reflect.ValueOf(&c.config).Elem(), "")
	d.validate(&c.config)
	slices.SortStableFunc(d.faults, func(a, b *fault.Error) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return d.faults
}

type configDecoder struct {
	places  map[string]place
	anchors map[string]ast.Node
	faults  []*fault.Error
}

// parse gives the root of the text, nil when it is empty or a fault.
func (d *configDecoder) parse(text []byte, json bool) ast.Node {
	if !utf8.Valid(text) {
		d.fault(place{}, fault.BadJSON, "", "the configuration is not UTF-8 text")
		return nil
	}
	if tooDeep(text) {
		d.fault(place{}, fault.BadJSON, "", "nested deeper than %d levels", maxConfigDepth)
		return nil
	}
	if json {
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
		case root == nil:
			root = doc.Body
		default:
			d.fault(nodePlace(doc.Body), fault.BadRequest, "", "a configuration is one document: remove what follows ---")
		}
	}
	return root
}

// tooDeep bounds the nesting roughly, before the parser sees the text.
func tooDeep(text []byte) bool {
	depth := 0
	for _, c := range text {
		switch c {
		case '[', '{':
			if depth++; depth > maxConfigDepth {
				return true
			}
		case ']', '}':
			depth = max(depth-1, 0)
		}
	}
	return bytes.Contains(text, bytes.Repeat([]byte("- "), maxConfigDepth))
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
func (d *configDecoder) resolve(n ast.Node) ast.Node {
	for range maxConfigDepth {
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

// object reads a mapping into a struct, whose fields name their keys in the tag `yaml`.
func (d *configDecoder) object(n ast.Node, into reflect.Value, at string) {
	d.places[at] = nodePlace(n)
	var pairs []*ast.MappingValueNode
	switch node := d.resolve(n).(type) {
	case *ast.NullNode:
		return
	case *ast.MappingNode:
		pairs = node.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{node}
	default:
		d.wrongType(n, at, "an object")
		return
	}
	known := keysOf(into.Type())
	for _, pair := range pairs {
		key := pair.Key.GetToken().Value
		pointer := fault.Key(at, key)
		if i := slices.Index(known, key); i >= 0 {
			d.value(pair.Value, into.Field(i), pointer)
			continue
		}
		d.unknown(nodePlace(pair.Key), key, pointer, known, notYet[at])
	}
}

func (d *configDecoder) unknown(p place, key, pointer string, known, later []string) {
	if slices.Contains(later, key) {
		d.fault(p, fault.NotSupported, pointer, "%s is not supported by this version: leave it out", key)
		return
	}
	f := fault.New(fault.UnknownField, "unknown key %q", key)
	f.Available, f.Nearest = known, fault.Nearest(key, slices.Concat(known, later), 1)
	if len(f.Nearest) == 0 {
		f.Message += ": known here are " + strings.Join(known, ", ")
	}
	d.add(p, pointer, f)
}

// value reads one value into a field: a struct, a list of strings, or a pointer to a scalar.
func (d *configDecoder) value(n ast.Node, into reflect.Value, at string) {
	if into.Kind() == reflect.Struct {
		d.object(n, into, at)
		return
	}
	d.places[at] = nodePlace(n)
	resolved := d.resolve(n)
	if _, null := resolved.(*ast.NullNode); null {
		return
	}
	if into.Kind() == reflect.Slice {
		d.texts(n, resolved, into, at)
		return
	}
	scalar := reflect.New(into.Type().Elem())
	if want := setScalar(resolved, scalar.Interface()); want != "" {
		d.wrongType(n, at, want)
		return
	}
	into.Set(scalar)
}

func (d *configDecoder) texts(n, resolved ast.Node, into reflect.Value, at string) {
	list, ok := resolved.(*ast.SequenceNode)
	if !ok {
		d.wrongType(n, at, "a list of strings")
		return
	}
	for i, item := range list.Values {
		var text string
		pointer := fault.Index(at, i)
		d.places[pointer] = nodePlace(item)
		if want := setScalar(d.resolve(item), &text); want != "" {
			d.wrongType(item, pointer, want)
		}
		into.Set(reflect.Append(into, reflect.ValueOf(text)))
	}
}

// setScalar sets a field from a node, and tells what the node should have been where it is not.
func setScalar(n ast.Node, field any) (want string) {
	text, isText := textOf(n)
	switch field := field.(type) {
	case *string:
		if *field = text; !isText {
			return "a string"
		}
	case *bool:
		b, ok := n.(*ast.BoolNode)
		if !ok {
			return "true or false"
		}
		*field = b.Value
	case *int:
		number, ok := integerOf(n)
		if *field = int(number); !ok || number > math.MaxInt32 || number < math.MinInt32 {
			return "a whole number"
		}
	case *float64:
		number, ok := integerOf(n)
		*field = float64(number)
		if f, isFloat := n.(*ast.FloatNode); isFloat {
			*field, ok = f.Value, true
		}
		if !ok {
			return "a number"
		}
	case *size:
		number, ok := integerOf(n)
		if isText {
			number, ok = parseSize(text)
		}
		if *field = size(number); !ok {
			return `a size such as 64MiB (B, KB, MB, GB, KiB, MiB, GiB), or a number of bytes`
		}
	case *time.Duration:
		duration, err := time.ParseDuration(text)
		if *field = duration; !isText || err != nil {
			return `a duration such as 90s, 5m or 1h30m`
		}
	}
	return ""
}

func textOf(n ast.Node) (string, bool) {
	switch node := n.(type) {
	case *ast.StringNode:
		return node.Value, true
	case *ast.LiteralNode:
		return node.Value.Value, true
	}
	return "", false
}

func integerOf(n ast.Node) (int64, bool) {
	node, ok := n.(*ast.IntegerNode)
	if !ok {
		return 0, false
	}
	switch value := node.Value.(type) {
	case int64:
		return value, true
	case uint64:
		return int64(value), value <= math.MaxInt64
	}
	return 0, false
}

var sizePattern = regexp.MustCompile(`^([0-9]+) ?([KMG]i?)?B$`)

// parseSize reads a size: a whole number with a decimal unit (KB, MB, GB) or a binary one (KiB, MiB, GiB), or B.
func parseSize(text string) (int64, bool) {
	parts := sizePattern.FindStringSubmatch(text)
	if parts == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(parts[1], 10, 64)
	unit := map[string]int64{"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}[parts[2]]
	if err != nil || n > math.MaxInt64/unit {
		return 0, false
	}
	return n * unit, true
}

// keysOf are the keys of a struct's fields, in their order.
func keysOf(t reflect.Type) []string {
	keys := make([]string, t.NumField())
	for i := range keys {
		keys[i] = t.Field(i).Tag.Get("yaml")
	}
	return keys
}

func (d *configDecoder) fault(p place, code fault.Code, at, format string, args ...any) {
	d.add(p, at, fault.New(code, format, args...))
}

func (d *configDecoder) add(p place, at string, f *fault.Error) {
	f.At, f.Line, f.Column = at, p.line, p.column
	d.faults = append(d.faults, f)
}

func (d *configDecoder) wrongType(n ast.Node, at, want string) {
	d.fault(nodePlace(n), fault.BadRequest, at, "must be %s, not %s", want, shortNode(n))
}

// shortNode shows what a value is in a few words.
func shortNode(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "an object"
	case *ast.SequenceNode:
		return "a list"
	}
	return cut(strings.TrimSpace(n.String()), 60)
}

func nodePlace(n ast.Node) place {
	if mapping, ok := n.(*ast.MappingNode); ok && len(mapping.Values) > 0 && !mapping.IsFlowStyle {
		n = mapping.Values[0].Key
	}
	token := n.GetToken()
	if token == nil || token.Position == nil {
		return place{}
	}
	return placeOf(token.Position.Line, token.Position.Column)
}

func placeOf(line, column int) place { return place{max(line, 1), max(column, 1)} }

var configValidator = func() *validator.Validate {
	v := validator.New(validator.WithRequiredStructEnabled())
	v.RegisterTagNameFunc(func(f reflect.StructField) string { return f.Tag.Get("yaml") })
	return v
}()

// validate checks what the tags of the fields say, and what no tag can.
func (d *configDecoder) validate(c *config) {
	var invalid validator.ValidationErrors
	if errors.As(configValidator.Struct(c), &invalid) {
		for _, e := range invalid {
			_, keys, _ := strings.Cut(e.Namespace(), ".")
			at := "/" + strings.ReplaceAll(keys, ".", "/")
			d.invalid(at, e)
		}
	}
	if len(c.FS.Write) > 0 {
		d.fault(d.places["/fs/write"], fault.NotSupported, "/fs/write", "functions that write files are not supported by this version: leave the list empty")
	}
	if c.Results.TTL != nil && c.Results.MaxTTL != nil && *c.Results.MaxTTL < *c.Results.TTL {
		d.fault(d.places["/results/maxTtl"], fault.BadRequest, "/results/maxTtl", "must be at least ttl, which is %v", *c.Results.TTL)
	}
}

func (d *configDecoder) invalid(at string, e validator.FieldError) {
	switch e.Tag() {
	case "min":
		if e.Kind() == reflect.String {
			d.fault(d.places[at], fault.BadRequest, at, "must not be empty")
			return
		}
		d.fault(d.places[at], fault.BadRequest, at, "must be at least %s", e.Param())
	case "max":
		d.fault(d.places[at], fault.BadRequest, at, "must be at most %s", e.Param())
	case "oneof":
		words := strings.Fields(e.Param())
		written := reflect.Indirect(reflect.ValueOf(e.Value())).String()
		if strings.HasPrefix(written, "redis://") || strings.HasPrefix(written, "rediss://") {
			d.fault(d.places[at], fault.NotSupported, at, "a store on Redis is not supported by this version: use memory or disk")
			return
		}
		f := fault.New(fault.BadRequest, "unknown value %q: use %s", cut(written, 60), strings.Join(words, " or "))
		f.Available, f.Nearest = words, fault.Nearest(written, words, 1)
		d.add(d.places[at], at, f)
	default: // eq=0|min=150
		d.fault(d.places[at], fault.BudgetTooSmall, at, "must be 150 at least, or 0 for no budget")
	}
}
