package openapi

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	yaml "github.com/oasdiff/yaml3"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// maxYAMLBytes bounds a YAML document, because its parser needs about ten times its size. maxYAMLDepth bounds its nesting,
// including that of its aliases.
const maxYAMLBytes, maxYAMLDepth = 24 << 20, 500

// parse parses a document: as JSON if it begins like JSON, else as YAML.
func parse(text []byte) (*tree, error) {
	start := bytes.TrimLeft(bytes.TrimPrefix(text, []byte("\ufeff")), " \t\r\n")
	if len(start) == 0 {
		return nil, fault.New(fault.BadRequest, "the document is empty")
	}
	if start[0] == '{' || start[0] == '[' {
		return parseTree(text)
	}
	converted, err := yamlToJSON(text)
	if err != nil {
		return nil, err
	}
	t, err := parseTree(converted)
	if err != nil {
		return nil, err
	}
	for i := range t.duplicates { // the line numbers are those of the JSON text
		t.duplicates[i], _, _ = strings.Cut(t.duplicates[i], " in line ")
	}
	return t, nil
}

// yamlToJSON converts a YAML document to JSON in the same order. Numbers keep their spelling if JSON allows it. Aliases and merge
// keys are expanded within the bounds of a document.
func yamlToJSON(text []byte) ([]byte, error) {
	if len(text) > maxYAMLBytes {
		return nil, fault.New(fault.LimitExceeded,
			"the document has %d bytes of YAML, and %d are read at most: convert it to JSON, or leave out paths", len(text), maxYAMLBytes)
	}
	var root yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&root); err != nil {
		return nil, yamlFault(err)
	}
	w := yamlWriter{out: make([]byte, 0, len(text))}
	if err := w.write(&root, 0); err != nil {
		return nil, err
	}
	return w.out, nil
}

var yamlLine = regexp.MustCompile(`\bline (\d+)`)

func yamlFault(err error) *fault.Error {
	f := fault.New(fault.BadRequest, "the document is neither JSON nor YAML: %s", fault.Short(strings.TrimPrefix(err.Error(), "yaml: ")))
	if errors.Is(err, io.EOF) {
		f.Message = "the document is empty"
	}
	if match := yamlLine.FindStringSubmatch(err.Error()); match != nil {
		f.Line, _ = strconv.Atoi(match[1])
	}
	f.Err = err
	return f
}

type yamlWriter struct{ out []byte }

func (w *yamlWriter) write(n *yaml.Node, depth int) error {
	switch {
	case depth > maxYAMLDepth:
		return w.fault(n, fault.BadRequest, "it is nested more than %d deep, or an alias contains itself", maxYAMLDepth)
	case len(w.out) > maxDocumentBytes:
		return w.fault(n, fault.LimitExceeded, "with its aliases expanded, it has more than %d bytes", maxDocumentBytes)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return w.write(n.Content[0], depth)
	case yaml.AliasNode:
		return w.write(n.Alias, depth+1)
	case yaml.SequenceNode:
		w.out = append(w.out, '[')
		for i, element := range n.Content {
			if i > 0 {
				w.out = append(w.out, ',')
			}
			if err := w.write(element, depth+1); err != nil {
				return err
			}
		}
		w.out = append(w.out, ']')
	case yaml.MappingNode:
		w.out = append(w.out, '{')
		if err := w.members(n, depth, map[string]bool{}); err != nil {
			return err
		}
		w.out = append(w.out, '}')
	default:
		w.scalar(n)
	}
	return nil
}

// members writes a mapping's own members, then those of its merge keys that the mapping lacks. It writes a duplicate key twice; the JSON
// parser decides which of them counts.
func (w *yamlWriter) members(n *yaml.Node, depth int, written map[string]bool) error {
	if depth > maxYAMLDepth {
		return w.fault(n, fault.BadRequest, "it is nested more than %d deep, or an alias contains itself", maxYAMLDepth)
	}
	merging, spells := len(written) > 0, meansTexts(n)
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, member := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		switch {
		case key.Kind != yaml.ScalarNode:
			return w.fault(key, fault.BadRequest, "a key is not text")
		case key.Value == "<<" && key.Style == 0: // style 0: neither quoted nor tagged
			merged = append(merged, member)
			continue
		case merging && written[key.Value]:
			continue
		}
		if len(written) > 0 {
			w.out = append(w.out, ',')
		}
		written[key.Value] = true
		w.out = append(rawjson.AppendQuote(w.out, key.Value), ':')
		if spells && key.Value == "enum" && w.enum(member) {
			continue
		}
		if err := w.write(member, depth+1); err != nil {
			return err
		}
	}
	for _, from := range merged {
		if from.Kind == yaml.AliasNode {
			from = from.Alias
		}
		sources := []*yaml.Node{from}
		if from.Kind == yaml.SequenceNode {
			sources = from.Content
		}
		for _, source := range sources {
			if source.Kind == yaml.AliasNode {
				source = source.Alias
			}
			if source.Kind != yaml.MappingNode {
				return w.fault(source, fault.BadRequest, "the value of a merge key is not a mapping")
			}
			if err := w.members(source, depth+1, written); err != nil {
				return err
			}
		}
	}
	return nil
}

// spelledEnum marks a schema in whose enum a value that JSON would spell differently, such as 010, became a text.
const spelledEnum = "x-onecall-spelled-enum"

// meansTexts reports whether a mapping is a schema of texts.
func meansTexts(n *yaml.Node) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key, member := n.Content[i], n.Content[i+1]; key.Value == "type" && member.Kind == yaml.ScalarNode {
			return typeNames[strings.ToLower(member.Value)] == "string"
		}
	}
	return false
}

// enum writes the values of an enum of texts if JSON would spell one of them differently: such a value keeps its spelling, as a text. It
// returns false, and writes nothing, for any other enum.
func (w *yamlWriter) enum(n *yaml.Node) bool {
	isSpelled := func(n *yaml.Node) bool {
		switch n.ShortTag() {
		case "!!int", "!!float", "!!bool":
			return n.Kind == yaml.ScalarNode && !jsontext.Value(n.Value).IsValid()
		}
		return false
	}
	isNested := func(n *yaml.Node) bool { return n.Kind != yaml.ScalarNode }
	if n.Kind != yaml.SequenceNode || !slices.ContainsFunc(n.Content, isSpelled) || slices.ContainsFunc(n.Content, isNested) {
		return false
	}
	w.out = append(w.out, '[')
	for i, element := range n.Content {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if isSpelled(element) {
			w.out = rawjson.AppendQuote(w.out, element.Value)
		} else {
			w.scalar(element)
		}
	}
	w.out = append(w.out, `],"`+spelledEnum+`":true`...)
	return true
}

func (w *yamlWriter) scalar(n *yaml.Node) {
	switch n.ShortTag() {
	case "!!null":
		w.out = append(w.out, "null"...)
	case "!!bool":
		var b bool
		if n.Decode(&b) != nil {
			w.out = rawjson.AppendQuote(w.out, n.Value)
			return
		}
		w.out = strconv.AppendBool(w.out, b)
	case "!!int", "!!float":
		w.number(n)
	default:
		w.out = rawjson.AppendQuote(w.out, n.Value)
	}
}

// number keeps a spelling that JSON allows and converts others (0x1F, 1_000, +1, .5). A value that JSON has no number for (.inf)
// becomes text.
func (w *yamlWriter) number(n *yaml.Node) {
	if v := jsontext.Value(n.Value); v.IsValid() && v.Kind() == '0' {
		w.out = append(w.out, n.Value...)
		return
	}
	var whole int64
	var fraction float64
	switch {
	case n.Decode(&whole) == nil:
		w.out = strconv.AppendInt(w.out, whole, 10)
	case n.Decode(&fraction) == nil && fraction-fraction == 0: // not infinite, and not NaN
		w.out = strconv.AppendFloat(w.out, fraction, 'g', -1, 64)
	default:
		w.out = rawjson.AppendQuote(w.out, n.Value)
	}
}

func (w *yamlWriter) fault(n *yaml.Node, code fault.Code, format string, args ...any) *fault.Error {
	f := fault.New(code, "the document cannot be read: "+format, args...)
	f.Line, f.Column = n.Line, n.Column
	return f
}
