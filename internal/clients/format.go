package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/pelletier/go-toml/v2"

	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// format is the format of a client's file.
type format string

const (
	jsonFormat format = "JSON" // with comments and trailing commas
	tomlFormat format = "TOML"
	yamlFormat format = "YAML"
)

func formatOf(path string) format {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".toml":
		return tomlFormat
	case ".yaml", ".yml":
		return yamlFormat
	}
	return jsonFormat
}

// maxParsed limits TOML and YAML, in bytes. Their parsers take far more memory than that of JSON.
const maxParsed = 1 << 20

// json converts a text to JSON; an empty text becomes {}. Errors do not quote the text, which may contain secrets.
func (f format) json(text []byte) (object []byte, err error) {
	switch {
	case f == jsonFormat:
		plain, bad := textfile.PlainJSON(text)
		if bad != nil {
			return nil, fmt.Errorf("line %d is not %s", bad.Line, f)
		}
		object = plain
	case len(text) > maxParsed:
		err = fmt.Errorf("it has more than %d bytes", maxParsed)
	case config.TooDeep(text):
		err = errors.New("it is nested too deep")
	case f == tomlFormat:
		object, err = tomlToJSON(text)
	default:
		object, err = yamlToJSON(text)
	}
	switch {
	case err != nil:
		return nil, err
	case len(bytes.TrimSpace(object)) == 0 || f == yamlFormat && string(bytes.TrimSpace(object)) == "null":
		return []byte("{}"), nil
	}
	var bad *json.SyntaxError
	if errors.As(json.Unmarshal(object, new(json.RawMessage)), &bad) {
		line := 1 + bytes.Count(object[:max(bad.Offset-1, 0)], []byte{'\n'})
		return nil, fmt.Errorf("line %d is not %s", line, f)
	}
	return object, nil
}

func tomlToJSON(text []byte) ([]byte, error) {
	var values map[string]any
	var bad *toml.DecodeError
	switch err := toml.Unmarshal(text, &values); {
	case errors.As(err, &bad):
		line, _ := bad.Position()
		return nil, fmt.Errorf("line %d is not TOML", line)
	case err != nil:
		return nil, errors.New("it is not TOML")
	}
	return json.Marshal(values)
}

// yamlToJSON refuses aliases: a few lines of them can expand to more than fits in memory, and clients write none.
func yamlToJSON(text []byte) ([]byte, error) {
	parsed, err := parser.ParseBytes(text, 0)
	var aliases aliasVisitor
	if err == nil {
		for _, doc := range parsed.Docs {
			if doc.Body != nil {
				ast.Walk(&aliases, doc.Body)
			}
		}
		if aliases.line > 0 {
			return nil, fmt.Errorf("line %d has an alias: write the value there", aliases.line)
		}
	}
	object, err := yaml.YAMLToJSON(text)
	var bad yaml.Error
	switch {
	case errors.As(err, &bad) && bad.GetToken() != nil:
		return nil, fmt.Errorf("line %d is not YAML", bad.GetToken().Position.Line)
	case err != nil:
		return nil, errors.New("it is not YAML")
	}
	return object, nil
}

// aliasVisitor finds the line of the last alias; 0: there is no alias.
type aliasVisitor struct{ line int }

// Visit implements ast.Visitor.
func (v *aliasVisitor) Visit(node ast.Node) ast.Visitor {
	if alias, ok := node.(*ast.AliasNode); ok {
		v.line = alias.GetToken().Position.Line
	}
	return v
}
