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

// operation is what an OpenAPI document says about an operation's arguments: their types by name, and which are required. It is read
// independently of onecall's own reader.
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
	d.document.Get("components").ForEach(func(kind, all gjson.Result) bool { // searching from the beginning each time would take long
		all.ForEach(func(name, one gjson.Result) bool {
			d.known["#/components/"+kind.String()+"/"+name.String()] = one
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

// operation reads one operation; nil if it is left out.
func (d *operationReader) operation(o gjson.Result) *operation {
	one, given, short := &operation{types: map[string][]string{}}, 0, true
	add := func(name string, schema gjson.Result, required bool) {
		one.types[name] = d.typesOf(schema)
		given++
		short = short && len(name) < 57
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
	if given != len(one.types) || !short {
		return nil
	}
	return one
}

// operationReader follows the references of a document, each once.
type operationReader struct {
	document gjson.Result
	known    map[string]gjson.Result
}

func (d *operationReader) deref(v gjson.Result) gjson.Result {
	for v.Get("$ref").Exists() {
		ref := v.Get("$ref").String()
		if _, known := d.known[ref]; !known {
			d.known[ref] = d.document.Get(strings.ReplaceAll(strings.TrimPrefix(ref, "#/"), "/", "."))
		}
		v = d.known[ref]
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
	known := operationsBySummary(s.T, document)
	summaries := slices.Sorted(maps.Keys(known))
	slices.SortStableFunc(summaries, func(a, b string) int { return len(known[a].types) - len(known[b].types) })
	names := map[string]string{}
	for _, fn := range functions.Array() {
		names[fn.Get("description").String()] = fn.Get("name").String()
	}
	compared, arguments := 0, 0
	for i := 0; i < samples; i++ {
		summary := summaries[i*(len(summaries)-1)/(samples-1)]
		name := names[summary]
		if name == "" {
			continue // it is marked as deprecated, or its summary is cut
		}
		text, failed := w.tool(s, "search", map[string]any{"names": []string{name}, "schema": true})
		schema := gjson.Get(text, "functions.0.inputSchema")
		if failed || !schema.Exists() {
			s.Fatalf("%s: %s", name, text)
		}
		s.compareSchema(name, schema, known[summary])
		compared++
		arguments += len(known[summary].types)
	}
	s.Logf("%d schemas with %d arguments are as the document has them", compared, arguments)
	if compared < samples/2 || arguments < samples {
		s.Errorf("too few to tell")
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
		s.Errorf("%s: %s, the document has %s", name, a, b)
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
		s.Errorf("%d operations are in the groups %q", grouped, got)
	}
}
