package schema

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestSignatureTypes(t *testing.T) {
	t.Parallel()
	tests := map[string]string{ // schema of one argument → its type
		`{}`: "any", `true`: "any", `false`: "never", `{"type":"string"}`: "string", `{"type":"integer","format":"int64"}`: "integer",
		`{"type":["string","null"]}`: "string|null", `{"type":"string","nullable":true}`: "string|null", `{"type":"null"}`: "null",
		`{"enum":["a","b",1,null]}`: `"a"|"b"|1|null`, `{"const":"x"}`: `"x"`, `{"type":"string","enum":["a"],"nullable":true}`: `"a"|null`,
		`{"enum":["1","2","3","4","5","6","7","8","9"]}`: `"1"|"2"|"3"|"4"|"5"|"6"|"7"|"8"|…`,
		`{"type":"array"}`: "any[]", `{"type":"array","items":{"type":"string"}}`: "string[]",
		`{"type":"array","items":{"type":["string","null"]}}`:                        "(string|null)[]",
		`{"type":"array","items":{"type":"array","items":{"enum":["a","b"]}}}`:       `("a"|"b")[][]`,
		`{"prefixItems":[{"type":"string"},{"type":"integer"}]}`:                     "[string, integer]",
		`{"type":"array","items":[{"type":"string"}]}`:                               "[string]",
		`{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"null"}}`: "[string, ...null[]]",
		`{"type":"object"}`: "object",
		`{"type":"object","additionalProperties":false}`:                                 "object",
		`{"type":"object","additionalProperties":{"type":"integer"}}`:                    "{[key]: integer}",
		`{"type":"object","patternProperties":{"^x":{"type":"string"}}}`:                 "{[key]: string}",
		`{"properties":{"b":{"type":"string"},"a":{"type":"integer"}},"required":["a"]}`: "{a: integer, b?: string}",
		`{"type":"object","properties":{"a b":{},"x-y":{},` +
			`"é":{}}}`: `{"a b"?: any, x-y?: any, "é"?: any}`,
		`{"anyOf":[{"type":"string"},{"type":"integer"},{"type":"string"}]}`:                                  "string|integer",
		`{"oneOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},{"type":"null"}]}`: "{a: string}|null",
		`{"type":"array","items":{"oneOf":[{"type":"object","properties":{"a":{}}},{"type":"object",` +
			`"properties":{"b":{}}}]}}`: "({a?: any}|{b?: any})[]",
		`{"allOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},` +
			`{"properties":{"b":{"type":"null"}}}]}`: "{a: string, b?: null}",
		`{"allOf":[{"type":"string"},{"minLength":1}]}`: "string",
		`{"type":"object","properties":{"a":{"type":"string"},"b":{}},"anyOf":[{"required":["a"]},` +
			`{"required":["b"]}]}`: "{a?: string, b?: any}",
		`{"$ref":"#/$defs/tree"}`: "{value: integer, kids?: {value: integer, kids?: {value: integer, " +
			"kids?: {…}[]}[]}[]}",
		`{"$ref":"#/$defs/loop"}`:                            "any",
		`{"$ref":"https://example.com/x"}`:                   "any",
		`{"type":"file"}`:                                    "any",
		`{"const":"` + strings.Repeat("x", 100) + `"}`:       `"` + strings.Repeat("x", 60) + `…"`,
		`{"const":{"a":"` + strings.Repeat("x", 100) + `"}}`: "…",
		`{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"object","properties":{"c":{"type":"object",` +
			`"properties":{"d":{}}}}}}}}}`: "{a?: {b?: {c?: {…}}}}",
	}
	for schema, want := range tests {
		e, _ := entry(`{"properties":{"x":`+schema+`},"required":["x"],"$defs":{"tree":{"type":"object","properties":{"value":{"type":"integer"},
			"kids":{"type":"array","items":{"$ref":"#/$defs/tree"}}},"required":["value"]},"loop":{"$ref":"#/$defs/loop"}}}`, "")
		if got := e.Signature(); got != "test.call(x: "+want+")" {
			t.Errorf("%s\n got %s\nwant test.call(x: %s)", schema, got, want)
		}
	}
}

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

// Golden signatures of real schemas: a change is seen in review. -update rewrites them.
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
		golden := strings.TrimSuffix(file, ".json") + ".golden"
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil || got != string(want) {
			t.Errorf("%s: %v\n got %swant %s", file, err, got, want)
		}
	}
}
