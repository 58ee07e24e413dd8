package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/transcript"
	"github.com/onecall-mcp/onecall/steps"
)

// formatDocument returns all of a document as text, for a golden file.
func formatDocument(d *document) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s\n", d.title, d.version, d.format)
	for _, name := range slices.Sorted(maps.Keys(d.schemes)) {
		fmt.Fprintf(&b, "scheme %s %+v\n", name, d.schemes[name])
	}
	for _, o := range d.operations {
		fmt.Fprintf(&b, "\n%s: %s", o.name, o.label)
		if o.id != "" {
			fmt.Fprintf(&b, " (%s)", o.id)
		}
		fmt.Fprintf(&b, "\n  %s\n  %v %v %+v\n", o.description, o.servers, o.security, o.effect)
		for _, p := range o.parameters {
			fmt.Fprintf(&b, "  %+v\n", p)
		}
		if o.body != nil {
			fmt.Fprintf(&b, "  body %+v\n", *o.body)
		}
		fmt.Fprintf(&b, "  in  %s\n  out %s\n", o.input, o.output)
	}
	for _, s := range d.skipped {
		fmt.Fprintf(&b, "\nskipped %s: %s", s.label, s.reason)
	}
	for _, n := range d.warnings {
		fmt.Fprintf(&b, "\nnote %s: %s", n.function, n.what)
	}
	return b.String() + "\n"
}

func mustLoad(tb testing.TB, text []byte, o *loadOptions) *document {
	tb.Helper()
	d, err := load(text, o)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// register returns a registry of the document's operations. It fails the test if the registry rejects an operation.
func register(tb testing.TB, d *document) *steps.Registry {
	tb.Helper()
	functions := make([]steps.Function, len(d.operations))
	for i, o := range d.operations {
		functions[i] = steps.Function{Spec: steps.Spec{Name: "api." + o.name, Input: o.input, Output: o.output},
			Call: func(context.Context, []byte) ([]byte, error) { return nil, errors.New("not called") }}
	}
	registry, err := steps.NewRegistry(functions, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return registry
}

func TestLoadedDocuments(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"rules30.yaml", "rules31.yaml", "swagger20.json"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			d := mustLoad(t, text, nil)
			got := formatDocument(d)
			transcript.File(t, filepath.Join("testdata", name+".loaded"), []byte(got))
			register(t, d)
			if again := formatDocument(mustLoad(t, text, nil)); again != got {
				t.Error("a second load gives another document")
			}
		})
	}
}

// The schemas of arguments accept valid arguments and reject invalid ones.
func TestInputsAreChecked(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/rules30.yaml")
	if err != nil {
		t.Fatal(err)
	}
	registry := register(t, mustLoad(t, text, nil))
	for _, test := range []struct {
		function, args string
		valid          bool
	}{
		{"api.thing.list", `{}`, true},
		{"api.thing.list", `{"limit":1,"shared":true,"filter_name":{"a":"b"},"ids":[1],"where":{"left":{"left":{}}},"X-Trace":null}`, true},
		{"api.thing.list", `{"limit":0}`, false},
		{"api.thing.list", `{"shared":"text"}`, false},
		{"api.thing.list", `{"where":{"left":{"left":1}}}`, false},
		{"api.thing.list", `{"Authorization":"x"}`, false},
		{"api.thing.create", `{"name":"a","parent":null,"state":null,"price":1.1}`, true},
		{"api.thing.create", `{"name":"a","parent":{"name":"b","parent":{"name":"c"}}}`, true},
		{"api.thing.create", `{"name":"a","id":1}`, false},
		{"api.thing.create", `{"name":"a","parent":{}}`, false},
		{"api.thing.create", `{"name":"longer than ten"}`, false},
		{"api.thing.create", `{"state":"on"}`, false},
		{"api.thing.create", `{"name":"a","price":1.2}`, false},
		{"api.thing.bulk_replace", `{"body":[{"name":"a"}]}`, true},
		{"api.thing.bulk_replace", `{"body":[{}]}`, false},
		{"api.thing.bulk_replace", `{}`, false},
		{"api.thing.update", `{"id":"a","id_query":1,"id_header":2,"id_body":3,"id_query_body":"x"}`, true},
		{"api.thing.update", `{"id":1}`, false},
		{"api.thing.delete", `{"id":"a"}`, true},
		{"api.thing.delete", `{"other":"a"}`, false},
		{"api.upload.create", `{"file":"aGk=","meta":{"tag":"a"}}`, true},
		{"api.upload.create", `{"file":{"name":"a.txt","data":"aGk="}}`, true},
		{"api.upload.create", `{"file":{"name":"a.txt"}}`, false},
		{"api.shape.create", `{"kind":"circle","r":1}`, true},
		{"api.shape.create", `{"kind":"oval"}`, false},
		{"api.map.create", `{"body":{"a":1,"b":"x"}}`, true},
		{"api.map.create", `{"body":{"b":1}}`, false},
		{"api.odd.get", `{"a":"x","b":[1],"c":{},"d":1,"g":null,"h":null}`, true},
		{"api.odd.get", `{"h":1}`, false},
	} {
		entry, err := registry.Resolve(test.function)
		if err != nil {
			t.Fatal(err)
		}
		if faults := entry.Check([]byte(test.args), nil); (len(faults) == 0) != test.valid {
			t.Errorf("%s %s: got faults %v, want valid %t", test.function, test.args, faults, test.valid)
		}
	}
}

func TestBadDocuments(t *testing.T) {
	t.Parallel()
	bomb := "openapi: 3.0.0\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 12; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [*a%[3]d,*a%[3]d,*a%[3]d,*a%[3]d,*a%[3]d,*a%[3]d,*a%[3]d,*a%[3]d]\n", i, i, i-1)
	}
	many := `{"openapi":"3.0.0","x":[` + strings.Repeat("[],", maxValues) + `[]]}`
	for name, test := range map[string]struct {
		text string
		code fault.Code
		line int
	}{
		"empty":          {"", fault.BadRequest, 0},
		"blanks":         {" \n\t ", fault.BadRequest, 0},
		"only a comment": {"# nothing\n", fault.BadRequest, 0},
		"text":           {"hello", fault.BadRequest, 0},
		"page":           {"<html><body>404</body></html>", fault.BadRequest, 0},
		"array":          {"[]", fault.BadRequest, 0},
		"other JSON":     {`{"name":"left-pad"}`, fault.BadRequest, 0},
		"truncated":      {"{\"openapi\":\"3.0.0\",\n\"paths\":{", fault.BadRequest, 2},
		"syntax":         {"{\"openapi\":\"3.0.0\",\n \"paths\":{,}}", fault.BadRequest, 2},
		"after the end":  {`{"openapi":"3.0.0"} {}`, fault.BadRequest, 1},
		"YAML":           {"openapi: 3.0.0\npaths:\n  - a: [\n", fault.BadRequest, 3},
		"YAML tab":       {"openapi: 3.0.0\npaths:\n\t/a: 1\n", fault.BadRequest, 3},
		"YAML bomb":      {bomb, fault.LimitExceeded, 0},
		"YAML cycle":     {"openapi: 3.0.0\na: &a\n  b: *a\n", fault.BadRequest, 0},
		"YAML deep":      {"a: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000), fault.BadRequest, 0},
		"version":        {`{"openapi":"4.0.0"}`, fault.NotSupported, 0},
		"old version":    {`{"swagger":"1.2"}`, fault.NotSupported, 0},
		"paths array":    {"{\"openapi\":\"3.0.0\",\n\"paths\":[]}", fault.BadRequest, 2},
		"deep JSON":      {strings.Repeat("[", 200_000), fault.BadRequest, 0},
		"deep object": {`{"openapi":"3.0.0","a":` + strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000) + "}",
			fault.BadRequest, 1},
		"100 MB":           {`{"openapi":"3.0.0","x":"` + strings.Repeat("x", 100<<20) + `"}`, fault.LimitExceeded, 0},
		"100 MB YAML":      {"openapi: 3.0.0\nx: " + strings.Repeat("x", 100<<20), fault.LimitExceeded, 0},
		"too many values":  {many, fault.LimitExceeded, 0},
		"keys not strings": {"openapi: 3.0.0\n? [a]\n: b\n", fault.BadRequest, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := load([]byte(test.text), nil)
			f, ok := fault.As(err)
			if !ok || f.Code != test.code {
				t.Fatalf("got %v, want %s", err, test.code)
			}
			if test.line != 0 && f.Line != test.line {
				t.Errorf("got line %d, want %d: %v", f.Line, test.line, err)
			}
			if len(f.Message) > 500 || !strings.Contains(f.Message, " ") {
				t.Errorf("got a message of %d bytes, want at most 500 and several words: %q", len(f.Message), f.Message)
			}
		})
	}
	if _, err := load([]byte("\n<!doctype html><html>"), nil); fault.CodeOf(err) != fault.BadRequest ||
		!strings.Contains(err.Error(), "a page") {
		t.Errorf("an HTML page: got %v, want bad_request with \"a page\"", err)
	}
	if _, err := load([]byte(`{"openapi":"3.0.0"}`), &loadOptions{exclude: []string{"a", ""}}); fault.CodeOf(err) != fault.BadRequest {
		t.Errorf("an empty pattern: got %v, want bad_request", err)
	}
}

// TestUnusualDocuments checks which operations, skipped operations and warnings unusual documents have.
func TestUnusualDocuments(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 300)
	for name, test := range map[string]struct {
		text              string
		operations        int
		skipped, warnings string // substrings of the reasons and warnings, joined by spaces; skipped "": nothing is skipped
	}{
		"no paths": {`{"openapi":"3.1.0","webhooks":{}}`, 0, "", ""},
		"same ids": {`{"openapi":"3.0.0","paths":{"/a":{"get":{"operationId":"x"}},"/b":{"get":{"operationId":"x"}}}}`, 2, "", ""},
		"long names": {`{"openapi":"3.0.0","paths":{"/` + long + `/{` + long + `}":{"get":{"operationId":"` + long + `"}}}}`, 1, "",
			"is not described"},
		"repeated keys": {`{"openapi":"3.0.0","paths":{"/a":{"get":{"summary":"1"}},"/a":{"get":{"summary":"2"},"put":{}}}}`, 2, "",
			`"/a" in line 1`},
		"bad UTF-8":   {"{\"openapi\":\"3.0.0\",\"paths\":{\"/a\xff\":{\"get\":{}}}}", 1, "", ""},
		"BOM":         {"\ufeff" + `{"openapi":"3.0.0","paths":{"/a":{"get":{}}}}`, 1, "", ""},
		"no slash":    {`{"openapi":"3.0.0","paths":{"a":{"get":{}},"x-a":{"get":{}}}}`, 1, "", ""},
		"not objects": {`{"openapi":"3.0.0","paths":{"/a":[],"/b":{"get":1,"put":{}}}}`, 1, "/a: it is not an object GET /b: it is not an object", ""},
		"path cycle":  {`{"openapi":"3.0.0","paths":{"/a":{"$ref":"#/paths/~1b"},"/b":{"$ref":"#/paths/~1a"}}}`, 0, "is circular", ""},
		"allOf itself": {`{"openapi":"3.0.0",` +
			`"paths":{"/a":{"post":{"requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/A"}}}}}}},` +
			`"components":{"schemas":{"A":{"allOf":[{"$ref":"#/components/schemas/A"}],"properties":{"x":{}}}}}}`, 1, "", ""},
		"refers to root": {`{"openapi":"3.0.0","paths":{"/a":{"get":{"parameters":[{"name":"a","in":"query","schema":{"$ref":"#"}}]}}}}`, 1,
			"", ""},
		"YAML merge": {"openapi: 3.0.0\nx: &p {get: {summary: a}, put: {}}\npaths:\n  /a: {<<: *p, put: {summary: own}}\n  " +
			"/b: {<<: [*p]}\n", 4, "", ""},
		"numbers as keys": {"swagger: 2.0\npaths:\n  /a:\n    get: {responses: {200: {schema: {type: object}}}}\n", 1, "", ""},
		"unused pattern":  {`{"openapi":"3.0.0","paths":{"/a":{"get":{}}}}`, 1, "", "matches no operation"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &loadOptions{source: "api"}
			if name == "unused pattern" {
				o.exclude = []string{"devcie.*"}
			}
			d := mustLoad(t, []byte(test.text), o)
			register(t, d)
			var reasons, warnings []string
			for _, s := range d.skipped {
				reasons = append(reasons, s.label+": "+s.reason)
			}
			for _, n := range d.warnings {
				warnings = append(warnings, n.what)
			}
			if len(d.operations) != test.operations || !strings.Contains(strings.Join(reasons, " "), test.skipped) ||
				(test.skipped == "") != (reasons == nil) ||
				!strings.Contains(strings.Join(warnings, " "), test.warnings) {
				t.Errorf("got %d operations, skipped %q, warnings %q, want %d, %q, %q", len(d.operations), reasons, warnings,
					test.operations, test.skipped, test.warnings)
			}
			for _, o := range d.operations {
				if len(o.name)+len("api.") > longName {
					t.Errorf("the name api.%s has %d bytes, want at most %d", o.name, len(o.name)+len("api."), longName)
				}
			}
		})
	}
}

// TestLargeSchemas checks that a schema that is too large loses the parts that are farthest from the arguments, and its inner descriptions.
func TestLargeSchemas(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`{"openapi":"3.0.0",` +
		`"paths":{"/a":{"post":{"requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/S0"}}}}}}},` +
		`"components":{"schemas":{`)
	for i := range 400 {
		fmt.Fprintf(&b, `"S%d":{"type":"object","description":"%s","properties":{"next":{"$ref":"#/components/schemas/S%d"},`+
			`"n":{"type":"integer","description":"%s"}}},`,
			i, strings.Repeat("d", 200), i+1, strings.Repeat("e", 1000))
	}
	b.WriteString(`"S400":{"type":"object"}}}}`)
	d := mustLoad(t, []byte(b.String()), nil)
	if size := len(d.operations[0].input); size > schemaLimits[0].input+10_000 {
		t.Errorf("the schema has %d bytes, want at most %d", size, schemaLimits[0].input+10_000)
	}
	registry := register(t, d)
	entry, _ := registry.Resolve("api.a.create")
	if faults := entry.Check([]byte(`{"next":{"next":{"next":{"n":"text"}}}}`), nil); len(faults) == 0 {
		t.Error("a nested argument is not checked")
	}
	if bytes.Contains(d.operations[0].input, []byte("ddd")) {
		t.Error("inner descriptions were not dropped from a schema that is too large")
	}
}

func TestExternalFiles(t *testing.T) {
	t.Parallel()
	main := `{"openapi":"3.0.0","paths":{"/a":{"get":{"parameters":[{"name":"a","in":"query","schema":{"$ref":"models/x.yaml#/a"}},
		{"name":"b","in":"query","schema":{"$ref":"gone.json"}}]}}}}`
	files := map[string]string{"models/x.yaml": "a: {type: array, items: {$ref: 'deep/y.json#/b'}}\n",
		"models/deep/y.json": `{"b":{"type":"object","properties":{"up":{"$ref":"../x.yaml#/a"}}}}`}
	var requested []string
	d := mustLoad(t, []byte(main), &loadOptions{external: func(ref string) ([]byte, error) {
		requested = append(requested, ref)
		if text, ok := files[ref]; ok {
			return []byte(text), nil
		}
		return nil, errors.New("there is no such file")
	}})
	if want := []string{"models/x.yaml", "models/deep/y.json", "gone.json"}; !slices.Equal(slices.Sorted(slices.Values(requested)),
		slices.Sorted(slices.Values(want))) {
		t.Errorf("got requests for %q, want %q", requested, want)
	}
	entry, err := register(t, d).Resolve("api.a.get")
	if err != nil {
		t.Fatal(err)
	}
	if faults := entry.Check([]byte(`{"a":[{"up":[{"up":1}]}],"b":1}`), nil); len(faults) != 1 || faults[0].At != "/a/0/up/0/up" {
		t.Errorf("got faults %v, want one at /a/0/up/0/up", faults)
	}
	if len(d.warnings) != 1 || !strings.Contains(d.warnings[0].what, "gone.json") {
		t.Errorf("got warnings %v, want one about gone.json", d.warnings)
	}
	d = mustLoad(t, []byte(main), nil)
	if len(d.operations) != 1 || len(d.warnings) != 1 || !strings.Contains(d.warnings[0].what, "models/x.yaml") {
		t.Errorf("without files: got %d operations, warnings %v, want 1 operation and a warning about models/x.yaml", len(d.operations), d.warnings)
	}
}

// TestRelative checks how a reference to a file is resolved against the document that contains it.
func TestRelative(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"https://a.example/x/y.json": "https://a.example/x/z.json",
		"x/y.json":                   "x/z.json",
		"y.json":                     "z.json",
	} {
		if got := resolveFile(base, "z.json"); got != want {
			t.Errorf("resolveFile(%q, z.json) = %s, want %s", base, got, want)
		}
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	text := []byte(`{"openapi":"3.0.0","paths":{"/api/dcim/devices/":{"get":{"operationId":"dcim_devices_list"},"post":{}},` +
		`"/api/dcim/racks/":{"get":{}},"/api/ipam/vlans/{id}":{"get":{},"delete":{}}}}`)
	for _, test := range []struct {
		include, exclude []string
		want             string
	}{
		{nil, nil, "device.list device.create rack.list vlan.get vlan.delete"},
		{[]string{"dcim.*"}, nil, "device.list device.create rack.list"},
		{[]string{"device.*", "vlan.get"}, nil, "device.list device.create vlan.get"},
		{[]string{"dcim.*"}, []string{"*.create"}, "device.list rack.list"},
		{nil, []string{"*.LIST", "vlan.?et"}, "device.create vlan.delete"},
		{[]string{"dcim_devices_*"}, nil, "device.list"},
		{[]string{"none"}, nil, ""},
	} {
		d := mustLoad(t, text, &loadOptions{include: test.include, exclude: test.exclude})
		var names []string
		for _, o := range d.operations {
			names = append(names, o.name)
		}
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("include %q, exclude %q gives %q, want %q", test.include, test.exclude, got, test.want)
		}
	}
}

// A schema keeps the document's numbers, order and escapes.
func TestSpellingIsPreserved(t *testing.T) {
	t.Parallel()
	d := mustLoad(t, []byte(`{"openapi":"3.0.0","paths":{"/a":{"get":{"parameters":[{"name":"z","in":"query","schema":{"maximum":12345678901234567890,
		"default": 1.10, "enum":[1.10, 1e2 ,"\u00e9" ]}},{"name":"a","in":"query","schema":{}}]}}}}`), nil)
	want := `{"type":"object","properties":{"z":{"maximum":12345678901234567890,"default":1.10,"enum":[1.10,1e2,"\u00e9"]},"a":{}},` +
		`"additionalProperties":false}`
	if got := d.operations[0].input; !bytes.Equal(got, json.RawMessage(want)) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
