package groups

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// spec returns a spec with a name and an input schema; "" accepts any object.
func spec(name, input string) steps.Spec {
	s := steps.Spec{Name: name, Description: "Does " + name + ". It has a second sentence.", Effect: steps.Read, EffectDeclared: true}
	if input != "" {
		s.Input = []byte(input)
	}
	return s
}

func registryOf(t testing.TB, specs ...steps.Spec) *steps.Registry {
	t.Helper()
	var functions []steps.Function
	for _, s := range specs {
		functions = append(functions, steps.Function{Spec: s, Call: func(context.Context, []byte) ([]byte, error) { return []byte("null"), nil }})
	}
	r, err := steps.NewRegistry(functions, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// registry returns functions with these names, which accept any object.
func registry(t testing.TB, names ...string) *steps.Registry {
	t.Helper()
	var specs []steps.Spec
	for _, name := range names {
		specs = append(specs, spec(name, ""))
	}
	return registryOf(t, specs...)
}

func mustNew(t testing.TB, c *Config) *Dispatch {
	t.Helper()
	d, faults := New(c)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return d
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if want = strings.Join(lines, "\n"); strings.TrimSpace(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestConfigurationFaults(t *testing.T) {
	t.Parallel()
	_, faults := New(&Config{
		Groups: []Group{
			{Name: "dcim", Resources: []string{"device", "rack"}},
			{Name: "Dcim", Resources: []string{"cable"}},
			{Name: "", Resources: []string{"b"}},
			{Name: "search", Resources: []string{"d"}},
			{Name: "Chain", Resources: []string{"e"}},
			{Name: "empty"},
			{Name: "entries", Resources: []string{"", "a..b", ".a", "a b", "rack", "fine", "fine"}},
		},
		Hoist: []string{"repoId", "action", "", "schema", "page"},
	})
	var got []string
	for _, f := range faults {
		if f.Code != fault.BadRequest || f.Message == "" {
			t.Errorf("fault %v, want bad_request with a message", f)
		}
		got = append(got, f.At)
	}
	want := []string{"/groups/Dcim", "/groups/", "/groups/search", "/groups/Chain",
		"/groups/empty", "/groups/entries/resources/0", "/groups/entries/resources/1", "/groups/entries/resources/2",
		"/groups/entries/resources/3",
		"/groups/entries/resources/4", "/groups/entries/resources/6", "/hoist/1", "/hoist/2", "/hoist/3", "/hoist/4"}
	if !slices.Equal(got, want) {
		t.Errorf("faults at %q,\nwant %q", got, want)
	}
	if d, faults := New(nil); len(faults) > 0 || len(d.Arrange(registry(t, "a.b")).Rest) != 1 {
		t.Error("without a configuration, a function is missing in the rest")
	}
}

func TestUnmatched(t *testing.T) {
	t.Parallel()
	view := registry(t, "netbox.device.list", "netbox.rack.get", "fs.grep")
	d := mustNew(t, &Config{Groups: []Group{
		{Name: "dcim", Resources: []string{"device", "racks"}},
		{Name: "rest", Resources: []string{"netbox", "*.zebra"}}, // netbox matches, though dcim has one of its functions
	}})
	warnings := d.Unmatched(view)
	if len(warnings) != 2 || warnings[0].At != "/groups/dcim/resources/1" || warnings[1].At != "/groups/rest/resources/1" {
		t.Fatalf("got %v, want one at /groups/dcim/resources/1 and one at /groups/rest/resources/1", warnings)
	}
	if !slices.Equal(warnings[0].Nearest, []string{"rack"}) || !strings.Contains(warnings[0].Message, `"racks", did you mean rack?`) ||
		warnings[1].Nearest != nil {
		t.Errorf("got %v, want rack as the nearest of the first and none of the second", warnings)
	}
}
