package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
)

// sample makes a value that a schema accepts, or tries to: all its members down to some depth when full, else those
// that are required.
func (v view) sample(depth int, full bool) any {
	for _, b := range v.branches(0) {
		if value, ok := b["const"]; ok {
			return value
		}
		if list, ok := b["enum"].([]any); ok && len(list) > 0 {
			return list[len(list)-1]
		}
	}
	node, _ := v.node.(map[string]any)
	for _, keyword := range []string{"oneOf", "anyOf"} {
		if list, ok := node[keyword].([]any); ok && len(list) > 0 && node["properties"] == nil {
			return view{v.root, list[0]}.sample(depth, full)
		}
	}
	switch {
	case v.is("object"):
		return v.sampleObject(depth, full)
	case v.is("array"):
		list := []any{}
		least, _ := v.number("minItems")
		for range max(int(least), 1) {
			list = append(list, v.items().sample(depth+1, full))
		}
		return list
	case v.is("integer", "number"):
		least, ok := v.number("minimum")
		if most, bounded := v.number("maximum"); !ok && bounded {
			least = min(most, 7)
		} else if !ok {
			least = 7
		}
		return json.Number(fmt.Sprint(least))
	case v.is("boolean"):
		return true
	case v.is("string"):
		return v.sampleText()
	case v.is("null"):
		return nil
	}
	return "x&y z"
}

func (v view) sampleText() string {
	texts := map[any]string{"date-time": "2026-01-02T03:04:05Z", "date": "2026-01-02", "uri": "https://example.com/a?b=c",
		"email": "a@example.com",
		"uuid":  "123e4567-e89b-12d3-a456-426614174000", "ipv4": "192.0.2.1", "hostname": "example.com", "time": "03:04:05Z"}
	for _, b := range v.branches(0) {
		if text, ok := texts[b["format"]]; ok {
			return text
		}
		if b["contentEncoding"] != nil {
			return "aGk="
		}
		for _, keyword := range []string{"example", "default"} {
			if text, ok := b[keyword].(string); ok && text != "" && b["pattern"] != nil {
				return text
			}
		}
	}
	text := "a/b c&d=é"
	if most, ok := v.number("maxLength"); ok && most < 9 {
		text = "abcdefgh"[:int(most)]
	}
	for least, _ := v.number("minLength"); len([]rune(text)) < int(least); {
		text += "x"
	}
	return text
}

func (v view) sampleObject(depth int, full bool) any {
	object := map[string]any{}
	for _, b := range v.branches(0) {
		properties, _ := b["properties"].(map[string]any)
		required, _ := b["required"].([]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			needed := slices.Contains(required, any(name))
			if object[name] == nil && (needed && depth < 8 || full && depth < 3) {
				object[name] = view{v.root, properties[name]}.sample(depth+1, full)
			}
		}
	}
	return object
}

func (v view) number(keyword string) (float64, bool) {
	for _, b := range v.branches(0) {
		if n, ok := b[keyword].(float64); ok {
			return n, true
		}
	}
	return 0, false
}

// same compares what was sent with what was understood, as far as a query or a form can tell: by texts, without what is
// null or empty, and a list of one as its element.
func same(a, b any) bool { return reflect.DeepEqual(simplified(a), simplified(b)) }

func simplified(value any) any {
	switch v := value.(type) {
	case []any:
		list := []any{}
		for _, element := range v {
			if s := simplified(element); s != nil {
				list = append(list, s)
			}
		}
		switch len(list) {
		case 0:
			return nil
		case 1:
			return list[0]
		}
		return list
	case map[string]any:
		object := map[string]any{}
		for name, member := range v {
			if s := simplified(member); s != nil {
				object[name] = s
			}
		}
		if len(object) == 0 {
			return nil
		}
		return object
	case nil:
		return nil
	}
	return fmt.Sprint(value)
}

// callAll calls each of the first operations of a document once against the mock service. It gives how many were called, and how many
// were not, since no arguments could be made up for them.
func callAll(t *testing.T, text []byte, most int) (called, unfit int) {
	t.Helper()
	d := mustLoad(t, text, &loadOptions{source: "api"})
	for i := range d.operations[:min(len(d.operations), most)] {
		op := &d.operations[i]
		service := newMock(t, "/v1", d.operations[i:i+1])
		doc := &document{operations: d.operations[i : i+1], schemes: d.schemes}
		s := sourceOf(t, Options{Client: wire{service}, BaseURL: "http://api.example.com/v1"}, doc)
		if len(s.Functions()) != 1 {
			t.Errorf("%s is left out: %v", op.label, s.current.skipped)
			continue
		}
		registry, err := steps.NewRegistry(s.Functions(), nil)
		if err != nil {
			t.Fatal(err)
		}
		entry := registry.All()[0]
		var args []byte
		for _, full := range []bool{true, false} {
			if args, err = json.Marshal(viewOf(op.input).sample(0, full)); err != nil {
				t.Fatal(err)
			}
			if len(entry.Check(args, nil)) == 0 {
				break
			}
		}
		if len(entry.Check(args, nil)) > 0 {
			unfit++
			continue
		}
		if ambiguous(op) {
			continue
		}
		called++
		result, err := entry.Call(t.Context(), args)
		if err != nil {
			t.Errorf("%s with %s: %v", op.label, args, err)
			continue
		}
		got := exact(result).(map[string]any)
		if got["operation"] != op.label || !same(exact(args), got["arguments"]) {
			t.Errorf("%s\nsent       %s\nunderstood %s", op.label, args, result)
		}
	}
	return called, unfit
}

// ambiguous reports whether a member of an object that a query takes apart has the name of another parameter: no service
// can tell them apart.
func ambiguous(op *operation) bool {
	names := map[string]bool{}
	for i := range op.parameters {
		p := &op.parameters[i]
		members := []string{p.name}
		if of := viewOf(op.input).property(p.arg); p.in == "query" && p.style == "form" && p.explode && p.mediaType == "" && of.is("object") {
			for _, b := range of.branches(0) {
				properties, _ := b["properties"].(map[string]any)
				members = slices.AppendSeq(members, maps.Keys(properties))
			}
		}
		for _, name := range members {
			if p.in == "query" && names[name] {
				return true
			}
			names[name] = p.in == "query" || names[name]
		}
	}
	return false
}

// TestEveryGitHubOperation calls every operation of GitHub's document.
func TestEveryGitHubOperation(t *testing.T) {
	t.Parallel()
	called, unfit := callAll(t, githubDocument(t), 2000)
	t.Logf("%d operations called; no arguments were made up for %d", called, unfit)
	if called < 1200 {
		t.Errorf("%d operations called, %d not", called, unfit)
	}
}

// TestDrawnOperations calls up to 50 operations of each of the hundred drawn documents.
func TestDrawnOperations(t *testing.T) {
	t.Parallel()
	called, unfit := 0, 0
	for _, file := range drawn(t, 100) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, _ := filepath.Rel(npmFolder(t), file)
		t.Run(name, func(t *testing.T) {
			c, u := callAll(t, text, 50)
			called, unfit = called+c, unfit+u
		})
	}
	t.Logf("%d operations called; no arguments were made up for %d", called, unfit)
	if called < 1400 {
		t.Errorf("%d operations called, %d not", called, unfit)
	}
}
