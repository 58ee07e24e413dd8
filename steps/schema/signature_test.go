package schema

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/internal/transcript"
)

func TestSignatureArguments(t *testing.T) {
	t.Parallel()
	tests := []struct{ input, output, want string }{
		{``, ``, "test.call(…)"},
		{`{"type":"object"}`, ``, "test.call()"},
		{`{"type":"object","properties":{}}`, `{}`, "test.call()"},
		{`{"type":"object","additionalProperties":{"type":"string"}}`, ``, "test.call([key]: string)"},
		{`{"properties":{"a":{"type":"string","default":"x"},"b":{"type":"integer","default":5},"c":{"default":null},"d":{"default":"` +
			strings.Repeat("y", 30) + `"},"e":{"$ref":"#/$defs/e"}},"required":["b"],"$defs":{"e":{"type":"boolean","default":true}}}`, ``,
			`test.call(b: integer, a?: string = "x", c?: any, d?: any, e?: boolean = true)`},
		{`{"oneOf":[{"properties":{"id":{"type":"integer"}},"required":["id"]},{"properties":{"name":{"type":"string"}},` +
			`"required":["name"]}]}`, ``,
			"test.call(id?: integer, name?: string)"},
		{`{"type":"object"}`, `{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}}`,
			"test.call(): {id: integer}[]"},
		{`{"type":"object"}`, `{"type":"string"}`, "test.call(): string"},
	}
	for _, test := range tests {
		e, _ := entry(test.input, test.output)
		if got := e.Signature(); got != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.input, got, test.want)
		}
	}
}

// Golden signatures of real schemas, so that changes are seen in review. -update rewrites them.
func TestSignatureGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "signature", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no schemas: %v", err)
	}
	for _, file := range files {
		schema, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		e, warnings := entry(string(schema), string(schema))
		got := strings.Join(append([]string{e.Signature()}, warnings...), "\n") + "\n"
		transcript.File(t, strings.TrimSuffix(file, ".json")+".golden", []byte(got))
	}
}
