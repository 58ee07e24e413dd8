package steps

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps/schema"
)

func ptr[T any](v T) *T { return &v }

func mustSettings(t testing.TB, list ...Setting) *Settings {
	t.Helper()
	s, faults := NewSettings(list)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return s
}

func TestMostExactSettingApplies(t *testing.T) {
	t.Parallel()
	s := mustSettings(t,
		Setting{Pattern: "*", Tier: ptr(TierAdmin), Timeout: ptr(time.Second), Aliases: map[string]string{"a": "far", "b": "far"},
			Defaults: json.RawMessage(`{"x":1,"y":1}`)},
		Setting{Pattern: "net.*.list", Timeout: ptr(2 * time.Second), Heavy: ptr("always"), Aliases: map[string]string{"a": "near"},
			Defaults: json.RawMessage(`{"y":2}`)},
		Setting{Pattern: "net.device.list", Effect: ptr(Destroy), Description: ptr("d"), Rename: ptr("net.devices")},
		Setting{Pattern: "net.*", Heavy: ptr("never"), CacheTTL: ptr(time.Minute), Hide: ptr(true)},
		Setting{Pattern: "net.device.l?st", Hide: ptr(false)},
	)
	fn, hidden := s.Apply(Function{Spec: Spec{Name: "net.device.list", Effect: Read}})
	if hidden || fn.Name != "net.devices" || fn.Effect != Destroy || !fn.EffectDeclared || fn.Tier != TierAdmin || fn.Heavy != "always" ||
		fn.Timeout != 2*time.Second || fn.CacheTTL != time.Minute || fn.Description != "d" {
		t.Errorf("hidden %t, %+v, want false and the most exact setting of each field", hidden, fn.Spec)
	}
	if fn.Aliases["a"] != "near" || fn.Aliases["b"] != "far" || string(fn.Defaults) != `{"x":1,"y":2}` {
		t.Errorf("aliases %v, defaults %s, want near and far, {\"x\":1,\"y\":2}", fn.Aliases, fn.Defaults)
	}
	if other, hidden := s.Apply(Function{Spec: Spec{Name: "net.site.delete"}}); !hidden || other.Heavy != "never" {
		t.Errorf("hidden %t, %+v, want true and never", hidden, other.Spec)
	}
	if other, _ := s.Apply(Function{Spec: Spec{Name: "netz.list"}}); other.Heavy != "" || other.Tier != TierAdmin {
		t.Errorf("a setting applies to another source: %+v", other.Spec)
	}
	if unused := s.Unused(nil); len(unused) != 0 {
		t.Errorf("unused: %v, want none", unused)
	}
}

// TestAnswerSetting: the most exact setting replaces an excerpt as a whole, which restricts no possible path, and one that shows everything
// or has an empty path is a fault.
func TestAnswerSetting(t *testing.T) {
	t.Parallel()
	s := mustSettings(t, Setting{Pattern: "net.*", Answer: &Excerpt{Drop: []string{"a"}, Top: 3}},
		Setting{Pattern: "net.list", Answer: &Excerpt{Keep: []string{"b"}}})
	for name, want := range map[string]int{"net.list": 0, "net.get": 3} {
		if fn, _ := s.Apply(Function{Spec: Spec{Name: name}}); fn.Answer == nil || fn.Answer.Top != want || len(fn.Answer.Drop) != want/3 {
			t.Errorf("%s: got %+v, want top %d", name, fn.Answer, want)
		}
	}
	if fn, _ := s.Apply(Function{Spec: Spec{Name: "x.y", PossiblePaths: []string{"net.list"}}}); fn.Answer != nil {
		t.Errorf("a possible path gives the excerpt %+v", fn.Answer)
	}
	for at, e := range map[string]*Excerpt{"/0/answer": {}, "/0/answer/keep/1": {Keep: []string{"a", ""}},
		"/0/answer/drop/0": {Drop: []string{""}}, "/0/answer/top": {Top: -1}} {
		_, faults := NewSettings([]Setting{{Pattern: "a", Answer: e}})
		if len(faults) != 1 || faults[0].At != at || faults[0].Code != fault.BadRequest {
			t.Errorf("%+v: got %v, want bad_request at %s", e, faults, at)
		}
	}
}

// TestSettingsByPath: a pattern matches a name or a path, so that rules still apply when a name is split into a path.
func TestSettingsByPath(t *testing.T) {
	t.Parallel()
	s := mustSettings(t,
		Setting{Pattern: "*.delete", Effect: ptr(Destroy)},
		Setting{Pattern: "net.list_*", Heavy: ptr("always")},
		Setting{Pattern: "net.device.get", Rename: ptr("net.one")},
	)
	for _, test := range []struct {
		name, path string
		want       Spec
	}{
		{"net.delete_devices", "net.device.delete",
			Spec{Name: "net.delete_devices", Path: "net.device.delete", Effect: Destroy, EffectDeclared: true}},
		{"net.list_devices", "net.device.list", Spec{Name: "net.list_devices", Path: "net.device.list", Heavy: "always"}},
		{"net.get_device", "net.device.get", Spec{Name: "net.one"}},
	} {
		got, _ := s.Apply(Function{Spec: Spec{Name: test.name, Path: test.path}})
		if got.Name != test.want.Name || got.Path != test.want.Path || got.Effect != test.want.Effect || got.Heavy != test.want.Heavy {
			t.Errorf("%s: got %+v, want %+v", test.name, got.Spec, test.want)
		}
	}
	if unused := s.Unused(nil); len(unused) != 0 {
		t.Errorf("unused: %v, want none", unused)
	}
}

func TestCommonAliases(t *testing.T) {
	t.Parallel()
	s := mustSettings(t,
		Setting{Pattern: "*", CommonAliases: map[string]string{"repo_id": "repoId", "n": "limit", "who": "owner"}},
		Setting{Pattern: "net.*", Aliases: map[string]string{"n": "page"}},
	)
	input := json.RawMessage(`{"properties":{"repoId":{}},"anyOf":[{"properties":{"limit":{}}}]}`)
	for _, test := range []struct {
		name  string
		input json.RawMessage
		want  map[string]string
	}{
		{"a.b", input, map[string]string{"repo_id": "repoId", "n": "limit"}},
		{"net.b", input, map[string]string{"repo_id": "repoId", "n": "page"}},
		{"a.b", json.RawMessage(`{"type":"object"}`), nil},
		{"a.b", nil, nil},
		{"a.b", json.RawMessage(`{`), nil},
	} {
		fn, _ := s.Apply(Function{Spec: Spec{Name: test.name, Input: test.input}})
		if !maps.Equal(fn.Aliases, test.want) || (fn.Aliases == nil) != (test.want == nil) {
			t.Errorf("%s with %s: aliases %v, want %v", test.name, test.input, fn.Aliases, test.want)
		}
	}
}

func TestSettingsFaults(t *testing.T) {
	t.Parallel()
	_, faults := NewSettings([]Setting{
		{Pattern: "a.b", Heavy: ptr("sometimes")},
		{Pattern: "a.*", Rename: ptr("a.c")},
		{Pattern: "a.b", Timeout: ptr(-time.Second), Defaults: json.RawMessage(`[1]`)},
		{Pattern: "", Rename: ptr("x y")},
	})
	got := map[string]bool{}
	for _, f := range faults {
		if f.Code != fault.BadRequest {
			t.Errorf("got %v, want bad_request", f)
		}
		got[f.At] = true
	}
	for _, at := range []string{"/0/heavy", "/1/rename", "/2/timeoutMs", "/2/defaults", "/3", "/3/rename"} {
		if !got[at] {
			t.Errorf("got faults %v, want one at %s", faults, at)
		}
	}
	if len(faults) != 6 {
		t.Errorf("got %d faults, want 6: %v", len(faults), faults)
	}
}

func TestUnusedSettings(t *testing.T) {
	t.Parallel()
	s := mustSettings(t, Setting{Pattern: "fs.*"}, Setting{Pattern: "gihtub.issue.list"})
	s.Apply(Function{Spec: Spec{Name: "fs.grep"}})
	unused := s.Unused([]string{"fs.grep", "github.issue.list"})
	if len(unused) != 1 || unused[0].At != "/1" || unused[0].Nearest[0] != "github.issue.list" {
		t.Errorf("got unused settings %v, want one", unused)
	}
}

// TestSpellingVariants: case and separators of arguments do not matter, at the top level only, and only if the argument is unambiguous.
func TestSpellingVariants(t *testing.T) {
	t.Parallel()
	const properties = `"properties":{"pageSize":{"type":"integer"},"owner_id":{"type":"string"},"filter":{"type":"object"},"aB":{},"a_b":{}}`
	for _, test := range []struct{ schema, args, want string }{
		{`{` + properties + `}`, `{"page_size":3,"ownerId":"x"}`, `{"pageSize":3,"owner_id":"x"}`},
		{`{` + properties + `}`, `{"PAGE-SIZE":3}`, `{"pageSize":3}`},
		{`{` + properties + `}`, `{"page_size":3,"pageSize":4}`, `{"page_size":3,"pageSize":4}`},
		{`{` + properties + `}`, `{"filter":{"page_size":3}}`, `{"filter":{"page_size":3}}`},
		{`{` + properties + `}`, `{"A-B":3}`, `{"A-B":3}`},
		{`{"additionalProperties":{"type":"integer"},` + properties + `}`, `{"page_size":3}`, `{"page_size":3}`},
		{`{"additionalProperties":false,` + properties + `}`, `{"page_size":3}`, `{"pageSize":3}`},
		{`{"patternProperties":{"^x":{}},` + properties + `}`, `{"page_size":3}`, `{"page_size":3}`},
		{`{"type":"object"}`, `{"page_size":3}`, `{"page_size":3}`},
		{``, `{"page_size":3}`, `{"page_size":3}`},
	} {
		r, err := NewRegistry([]Function{{Spec: Spec{Name: "x.list", Effect: Read, Input: json.RawMessage(test.schema)}, Call: echo}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		entry, _ := r.Resolve("x.list")
		got, err := entry.Call(t.Context(), []byte(test.args))
		if err != nil || string(got) != test.want {
			t.Errorf("%s with %s gives %s, %v; want %s", test.args, test.schema, got, err, test.want)
		}
		if faults := entry.Check([]byte(test.args), nil); len(faults) > 0 {
			t.Errorf("%s with %s: %v, want none", test.args, test.schema, faults)
		}
	}
}

func TestAliasesAndDefaults(t *testing.T) {
	t.Parallel()
	r, err := NewRegistry([]Function{{Spec: Spec{
		Name: "issue.list", Effect: Read,
		Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["repoId","owner"],` +
			`"properties":{"repoId":{"type":"string"},"owner":{"type":"string"},"limit":{"type":"integer","default":3}}}`),
		Aliases:  map[string]string{"repo_id": "repoId", "limit": "owner"},
		Defaults: json.RawMessage(`{"owner":"me","limit":10}`),
	}, Call: echo}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	entry, _ := r.Resolve("issue.list")
	for _, test := range []struct{ args, want string }{
		{`{"repo_id":"r"}`, `{"repoId":"r","owner":"me","limit":10}`},
		{`{"repoId":"r","owner":"you","limit":1}`, `{"repoId":"r","owner":"you","limit":1}`},
		{`{"limit":7,"repo_id":"\u00e9"}`, `{"limit":7,"repoId":"\u00e9","owner":"me"}`}, // limit is declared, so its alias does not apply
	} {
		got, err := entry.Call(t.Context(), []byte(test.args))
		if err != nil || string(got) != test.want {
			t.Errorf("%s gives %s, %v; want %s", test.args, got, err, test.want)
		}
		if faults := entry.Check([]byte(test.args), nil); len(faults) > 0 {
			t.Errorf("Check(%s) = %v, want none", test.args, faults)
		}
	}
	// If both names are given, nothing is dropped silently.
	_, err = entry.Call(t.Context(), []byte(`{"repo_id":"a","repoId":"b"}`))
	if f, _ := fault.As(err); f == nil || f.At != "/repo_id" {
		t.Errorf("call with both names: got %v, want a fault at /repo_id", err)
	}
	// A fault's position uses the caller's name for the argument, and so does the position of an unknown value.
	_, err = entry.Call(t.Context(), []byte(`{"repo_id":7}`))
	if f, _ := fault.As(err); f == nil || f.At != "/repo_id" {
		t.Errorf("call with a wrong type: got %v, want a fault at /repo_id", err)
	}
	if faults := entry.Check([]byte(`{"repo_id":null}`), []schema.Unknown{{At: "/repo_id"}}); len(faults) > 0 {
		t.Errorf("Check of an unknown value reports %v, want none", faults)
	}
	if want := `issue.list(repoId: string, owner?: string = "me", limit?: integer = 10)`; entry.Signature() != want {
		t.Errorf("got signature %s, want %s", entry.Signature(), want)
	}
	var warnings []string
	_, err = NewRegistry([]Function{{Spec: Spec{
		Name: "a.b", Input: json.RawMessage(`{"type":"object","required":["m"],"properties":{"n":{"type":"integer"},"m":{}}}`),
		Aliases: map[string]string{"x": "nn"}, Defaults: json.RawMessage(`{"n":"no number"}`),
	}, Call: echo}}, &RegistryOptions{Warn: func(f *fault.Error) { warnings = append(warnings, f.Message) }})
	if err != nil || len(warnings) != 2 || !strings.Contains(warnings[0], `"nn"`) || !strings.Contains(warnings[1], "/n") {
		t.Errorf("got %v, warnings %q, want 2", err, warnings)
	}
	if _, err := NewRegistry([]Function{{Spec: Spec{Name: "a.b", Defaults: json.RawMessage(`[]`)}, Call: echo}},
		nil); fault.CodeOf(err) != fault.BadRequest {
		t.Errorf("defaults that are no object: got %v, want bad_request", err)
	}
}
