package openapi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// Any text gives a coded error that is not internal, or operations that a registry accepts.
func FuzzLoad(f *testing.F) {
	for _, name := range []string{"rules30.yaml", "rules31.yaml", "swagger20.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"openapi":"3.0.0","paths":{"/a/{b}":{"get":{"parameters":[{"$ref":"#/paths"}],` +
		`"responses":{"200":{"content":{"application/json":{"schema":{"$ref":"#/paths/~1a~1{b}/get/parameters/0"}}}}}}}}}`))
	f.Add([]byte(`{"openapi":"3.1.0","paths":{"/a":{"post":{"requestBody":{"content":{"*/*":{"schema":{"$ref":"#"}}}}}}},` +
		`"properties":{"a":{"$ref":"#"}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := load(text, &loadOptions{source: "api"})
		if err != nil {
			if e, ok := fault.As(err); !ok || e.Code == fault.Internal {
				t.Fatalf("load failed with an internal error: %v (%v)", err, e.Err)
			}
			return
		}
		register(t, d)
		seen := map[string]bool{}
		for _, o := range d.operations {
			if folded := steps.FoldName(o.name); seen[folded] || len(o.name) > longName-len("api.") || strings.ContainsAny(o.name, " /{}") {
				t.Fatalf("the name %q is taken, too long or invalid", o.name)
			}
			seen[steps.FoldName(o.name)] = true
			checkOperation(t, &o)
		}
	})
}

func FuzzNames(f *testing.F) {
	f.Add("/a/{b}/c:d", "listThings", "/a/{c}/C")
	f.Add("/{x}.json", "", "/#a&b")
	f.Fuzz(func(t *testing.T, path, id, other string) {
		list := []*operationName{{method: "get", path: path, id: id}, {method: "post", path: path, id: id}, {method: "get", path: other, id: id}}
		nameOperations(list, 40)
		for _, o := range list {
			if len(o.name) > 40 || strings.Trim(o.name, "abcdefghijklmnopqrstuvwxyz0123456789_.") != "" || strings.Contains(o.name, "..") ||
				strings.Trim(o.name, ".") != o.name {
				t.Fatalf("%q has the invalid name %q", o.path, o.name)
			}
		}
	})
}
