package schema

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const grepSchema = `{"type":"object","properties":{"pattern":{"type":"string","minLength":1},"path":{"type":"string","default":"."},
	"limit":{"type":"integer","minimum":1,"maximum":1000,"default":100},"mode":{"enum":["lines","files","counts"]},
	"labels":{"type":"array","items":{"type":"string"},"maxItems":2,"uniqueItems":true},
	"who":{"anyOf":[{"type":"string","pattern":"^@"},{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"],
	"additionalProperties":false}]},
	"port":{"oneOf":[{"type":"integer"},{"type":"null"}]},"kind":{"oneOf":[{"const":"a"},{"type":"string","maxLength":3}]}},
	"required":["pattern"],"dependentRequired":{"mode":["path"]},"additionalProperties":false}`

// BenchmarkValidate checks a small arguments object; the baseline is the validator alone, with its own decoder.
func BenchmarkValidate(b *testing.B) {
	e, _ := entry(grepSchema, "")
	b.Run("library", func(b *testing.B) {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(grepSchema))
		if err != nil {
			b.Fatal(err)
		}
		compiler := jsonschema.NewCompiler()
		if err := compiler.AddResource(schemaURL, doc); err != nil {
			b.Fatal(err)
		}
		schema := compiler.MustCompile(schemaURL)
		b.ReportAllocs()
		for b.Loop() {
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader(benchArgs))
			if err != nil || schema.Validate(value) != nil {
				b.Fatal("valid arguments are rejected")
			}
		}
	})
	b.Run("accept", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := e.Call(b.Context(), benchArgs); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("misfit", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if faults := e.Check([]byte(`{"patern":"x","limit":0}`), nil); len(faults) != 2 {
				b.Fatalf("got %v, want 2 faults", faults)
			}
		}
	})
}

// Messages are bounded and stable, and do not show what may be secret.
func TestCheckBounds(t *testing.T) {
	t.Parallel()
	e, _ := entry(`{"properties":{"a":{"items":{"type":"integer"}},"b":{"enum":["x"]},"c":{"const":5}},"additionalProperties":false}`, "")
	many := `{"a":[` + strings.TrimSuffix(strings.Repeat(`"x",`, 5000), ",") + `]}`
	faults := e.Check([]byte(many), nil)
	if len(faults) != maxFaults || faults[0].At != "/a/0" || faults[11].At != "/a/11" ||
		!strings.HasSuffix(faults[19].Message, "(and 4980 more)") {
		t.Errorf("got %d faults, want 20 that count the rest: %v", len(faults), faults)
	}
	secret := strings.Repeat("s", 59) + strings.Repeat("ecret", 100)
	args := fmt.Appendf(nil, `{"b":%q,"c":%q,%q:1}`, secret, secret, secret)
	for range 5 {
		for _, f := range e.Check(args, nil) {
			if strings.Contains(f.Message, "ecret") || len(f.Message) > 300 {
				t.Errorf("message of %d bytes, want at most 300 without the value: %q", len(f.Message), f.Message)
			}
		}
	}
	for _, f := range hiding(t, string(e.Schema())).Check([]byte(`{"b":"hunter2","c":"hunter2"}`), nil) {
		if strings.Contains(f.Message, "hunter2") || len(f.Nearest) > 0 {
			t.Errorf("the fault shows a hidden value: %+v", f)
		}
	}
}

// The work on hostile schemas is bounded, and a warning reports them.
func TestHostileSchemas(t *testing.T) {
	t.Parallel()
	var wide strings.Builder
	for i := range maxSubschemas + 10 {
		fmt.Fprintf(&wide, `,"p%d":{"type":"string"}`, i)
	}
	branches := func(reference string) string { return strings.Repeat(`{"$ref":"`+reference+`"},`, 20) + "{}" }
	schemas := map[string]string{
		"wide":      `{"properties":{` + wide.String()[1:] + `}}`,
		"long":      `{"description":"` + strings.Repeat("x", maxSchemaBytes) + `"}`,
		"branching": `{"$defs":{"a":{"anyOf":[` + branches("#/$defs/b") + `]},"b":{"allOf":[` + branches("#/$defs/a") + `]}},"$ref":"#/$defs/a"}`,
		"members": `{"$defs":{"a":{"type":"object","properties":{"x":{"oneOf":[` + branches("#/$defs/a") +
			`]},"y":{"$ref":"#/$defs/a"}}}},"$ref":"#/$defs/a"}`,
	}
	for name, schema := range schemas {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done := make(chan struct{})
			go func() {
				defer close(done)
				e, _ := entry(schema, schema)
				if n := len([]rune(e.Signature())); n > maxSignature {
					t.Errorf("the signature has %d characters, want at most %d", n, maxSignature)
				}
				_ = e.Names()
				_, _ = e.Produces([]Element{{Key: "x"}, {Key: "y"}, {Each: true}})
				_ = e.Check([]byte(`{"x":{"y":{"x":1}}}`), nil)
			}()
			select {
			case <-done:
			case <-time.After(30 * time.Second):
				t.Fatal("the work on the schema does not end")
			}
		})
	}
}

// Long signatures first lose depth, then the result, then defaults, then arguments from the end.
func TestSignatureLength(t *testing.T) {
	t.Parallel()
	wide := func(n int, property string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(`,"argument_` + string(rune('a'+i%26)) + strings.Repeat("x", i/26) + `":` + property)
		}
		return `{"type":"object","properties":{"first":{"type":"string"}` + b.String() + `},"required":["first"]}`
	}
	for name, schema := range map[string]string{"wide": wide(100, `{"type":"string","default":"value"}`),
		"deep":  wide(10, wide(10, `{"type":"integer"}`)),
		"one":   `{"properties":{"` + strings.Repeat("n", 900) + `":{"type":"string"}}}`,
		"union": `{"properties":{"u":{"anyOf":[` + strings.Repeat(wide(5, "true")+",", 20) + `{}]}}}`} {
		e, _ := entry(schema, schema)
		got := e.Signature()
		if n := len([]rune(got)); n > maxSignature || !strings.HasPrefix(got, "test.call(") {
			t.Errorf("%s: the signature has %d characters, want at most %d: %s", name, n, maxSignature, got)
		}
		if name != "union" && name != "one" && (!strings.Contains(got, "first: string") || !strings.Contains(got, "…")) {
			t.Errorf("%s: the signature lacks the required argument or the ellipsis: %s", name, got)
		}
		again, _ := entry(schema, schema)
		if again.Signature() != got {
			t.Errorf("%s: the second signature is %s, want %s", name, again.Signature(), got)
		}
	}
}
