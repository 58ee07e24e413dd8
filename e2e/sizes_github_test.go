//go:build e2e && unix

package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// operation describes the arguments of an operation in an OpenAPI document: their types by name, and which are required. The test reads
// them without onecall's code.
type operation struct {
	types    map[string][]string
	required []string
}

// operationsBySummary returns the operations of a document with unique summaries. It leaves out operations whose body is not a plain
// object, and those whose arguments have other names in a function: names over 57 bytes, or two of one name.
func operationsBySummary(t *testing.T, path string) map[string]*operation {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := &operationReader{gjson.ParseBytes(text), map[string]gjson.Result{}}
	d.document.Get("components").ForEach(func(kind, all gjson.Result) bool { // searching the document for each reference would take long
		all.ForEach(func(name, one gjson.Result) bool {
			d.resolved["#/components/"+kind.String()+"/"+name.String()] = one
			return true
		})
		return true
	})
	operations, times := map[string]*operation{}, map[string]int{}
	d.document.Get("paths").ForEach(func(_, item gjson.Result) bool {
		item.ForEach(func(method, o gjson.Result) bool {
			summary := o.Get("summary").String()
			if slices.Contains([]string{"get", "put", "post", "delete", "patch"}, method.String()) {
				times[summary]++
				if one := d.operation(o); one != nil {
					operations[summary] = one
				}
			}
			return true
		})
		return true
	})
	maps.DeleteFunc(operations, func(summary string, _ *operation) bool { return times[summary] > 1 })
	return operations
}

// operation reads one operation. It returns nil for those that operationsBySummary leaves out.
func (d *operationReader) operation(o gjson.Result) *operation {
	one, count, namesFit := &operation{types: map[string][]string{}}, 0, true
	add := func(name string, schema gjson.Result, required bool) {
		one.types[name] = d.typesOf(schema)
		count++
		namesFit = namesFit && len(name) < 57
		if required {
			one.required = append(one.required, name)
		}
	}
	for _, p := range o.Get("parameters").Array() {
		p = d.deref(p)
		add(p.Get("name").String(), p.Get("schema"), p.Get("required").Bool())
	}
	body := d.deref(o.Get("requestBody"))
	if body.Exists() {
		schema := d.deref(body.Get("content.application/json.schema"))
		if !schema.Get("properties").IsObject() || schema.Get("oneOf").Exists() || schema.Get("anyOf").Exists() || schema.Get("allOf").Exists() ||
			body.Get("content.@keys.#").Int() != 1 {
			return nil
		}
		required := schema.Get("required").Array()
		schema.Get("properties").ForEach(func(name, property gjson.Result) bool {
			add(name.String(), property, body.Get("required").Bool() &&
				slices.ContainsFunc(required, func(r gjson.Result) bool { return r.String() == name.String() }))
			return true
		})
	}
	if count != len(one.types) || !namesFit {
		return nil
	}
	return one
}

// operationReader resolves the references of a document, each once.
type operationReader struct {
	document gjson.Result
	resolved map[string]gjson.Result
}

func (d *operationReader) deref(v gjson.Result) gjson.Result {
	for v.Get("$ref").Exists() {
		ref := v.Get("$ref").String()
		if _, ok := d.resolved[ref]; !ok {
			d.resolved[ref] = d.document.Get(strings.ReplaceAll(strings.TrimPrefix(ref, "#/"), "/", "."))
		}
		v = d.resolved[ref]
	}
	return v
}

// typesOf returns the types that a schema names, sorted.
func (d *operationReader) typesOf(schema gjson.Result) []string {
	schema = d.deref(schema)
	var types []string
	for _, one := range schema.Get("type").Array() {
		types = append(types, one.String())
	}
	if len(types) > 0 && schema.Get("nullable").Bool() && !slices.Contains(types, "null") {
		types = append(types, "null")
	}
	slices.Sort(types)
	return types
}

// checkAgainstDocument compares the input schemas that search returns with the document, for some operations of each size.
func (s *sizes) checkAgainstDocument(w *rawClient, functions gjson.Result, document string) {
	s.Helper()
	const samples = 40
	operations := operationsBySummary(s.T, document)
	summaries := slices.Sorted(maps.Keys(operations))
	slices.SortStableFunc(summaries, func(a, b string) int { return len(operations[a].types) - len(operations[b].types) })
	names := map[string]string{}
	for _, fn := range functions.Array() {
		names[fn.Get("description").String()] = fn.Get("name").String()
	}
	compared, arguments := 0, 0
	for i := 0; i < samples; i++ {
		summary := summaries[i*(len(summaries)-1)/(samples-1)]
		name := names[summary]
		if name == "" {
			continue // it is deprecated, or its summary is shortened
		}
		text, failed := w.tool(s, "search", map[string]any{"names": []string{name}, "schema": true})
		schema := gjson.Get(text, "functions.0.inputSchema")
		if failed || !schema.Exists() {
			s.Fatalf("search for %s: %s", name, text)
		}
		s.compareSchema(name, schema, operations[summary])
		compared++
		arguments += len(operations[summary].types)
	}
	s.Logf("compared %d schemas with %d arguments", compared, arguments)
	if compared < samples/2 || arguments < samples {
		s.Errorf("too few schemas compared: %d, with %d arguments", compared, arguments)
	}
}

func (s *sizes) compareSchema(name string, schema gjson.Result, want *operation) {
	s.Helper()
	d := &operationReader{schema, map[string]gjson.Result{}}
	got := &operation{types: map[string][]string{}}
	schema.Get("properties").ForEach(func(key, property gjson.Result) bool {
		got.types[key.String()] = d.typesOf(property)
		return true
	})
	for _, one := range schema.Get("required").Array() {
		got.required = append(got.required, one.String())
	}
	slices.Sort(got.required)
	slices.Sort(want.required)
	if !slices.Equal(got.required, want.required) || !maps.EqualFunc(got.types, want.types, slices.Equal) {
		a, _ := json.Marshal(map[string]any{"types": got.types, "required": got.required})
		b, _ := json.Marshal(map[string]any{"types": want.types, "required": want.required})
		s.Errorf("%s: search returned %s, the document has %s", name, a, b)
	}
}

// checkGrouped checks that each operation is in a group.
func (s *sizes) checkGrouped(w *rawClient) {
	s.Helper()
	hybrid := *w
	hybrid.url += "?surface=hybrid"
	groups, grouped := map[string]bool{}, 0
	for _, tool := range gjson.Get(hybrid.listed(s), "tools").Array() {
		if text, marked := strings.CutPrefix(tool.Get("description").String(), "[Legacy: prefer "); marked {
			group, _, _ := strings.Cut(text, "]")
			groups[group] = true
			grouped++
		}
	}
	if got := slices.Sorted(maps.Keys(groups)); grouped != gitHubOperations || !slices.Equal(got, slices.Sorted(maps.Keys(gitHubGroups))) {
		s.Errorf("%d operations in the groups %q, want %d in all groups", grouped, got, gitHubOperations)
	}
}
