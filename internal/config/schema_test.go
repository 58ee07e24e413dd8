package config

import (
	"bytes"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"
	"golang.org/x/tools/txtar"

	"github.com/onecall-mcp/onecall/mcp/transport"
)

// TestConfigSchema: of the configurations of schema.txtar, the published schema accepts those that the decoder does.
func TestConfigSchema(t *testing.T) {
	t.Parallel()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("config.schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("config.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	archive, err := txtar.ParseFile("../../testdata/config/schema.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range archive.Files[1:] {
		for _, one := range configurations(string(section.Data)) {
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(one.text))
			if err != nil {
				t.Fatal(err)
			}
			invalid := schema.Validate(value)
			if _, faults := decodeConfig(section.Name, one.text); (invalid == nil) != (len(faults) == 0) {
				t.Errorf("%sfaults of the decoder: %v; of the schema: %v, want both or neither", one.text, faults, invalid)
			}
		}
	}
}

// TestHiddenKeys: the tags of keys determine which values are not shown.
func TestHiddenKeys(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]bool{
		"args": true, "env": true, "headers": true, "auth": true, "oauth": true, "value": true, "token": true, "password": true,
		"clientSecret": true, "sha256": true,
		"tokens": false, "maxTokens": false, "maxTotalTokens": false, "tokenUrl": false, "session": false, "maxSessions": false, "jwt": false,
		"keys": false, "mcpServers": false, "openapi": false,
	} {
		if got, known := hiddenKeys[key]; !known || got != want {
			t.Errorf("%s: hidden is %v, known is %v, want %v, true", key, got, known, want)
		}
	}
}

// TestLimitDefaults compares the limits in the schema with the server's.
func TestLimitDefaults(t *testing.T) {
	t.Parallel()
	var o transport.Options
	if err := o.ApplyDefaults(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"access.properties.limits.properties.calls": o.Limits(true).Calls,
		"limits.properties.maxSessions": o.MaxSessions} {
		if got := gjson.GetBytes(schema, "properties."+path+".default").Int(); got != int64(want) {
			t.Errorf("%s: the default is %d, the schema says %d", path, want, got)
		}
	}
}
