package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/pelletier/go-toml/v2"
	"github.com/tidwall/jsonc"
)

// format is how a client's file is written.
type format string

const (
	jsonFormat format = "JSON" // with comments, and commas too many
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

// json is a text of the format as JSON, {} for an empty one. Errors quote nothing of the text, which may hold secrets.
func (f format) json(text []byte) (object []byte, err error) {
	switch f {
	case tomlFormat:
		object, err = tomlToJSON(text)
	case yamlFormat:
		object, err = yamlToJSON(text)
	default:
		object = jsonc.ToJSON(text)
	}
	switch {
	case err != nil:
		return nil, err
	case len(bytes.TrimSpace(object)) == 0 || f == yamlFormat && string(bytes.TrimSpace(object)) == "null":
		return []byte("{}"), nil
	case !json.Valid(object):
		return nil, fmt.Errorf("it is not %s", f)
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

func yamlToJSON(text []byte) ([]byte, error) {
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
