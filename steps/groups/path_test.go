package groups

import (
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// tools are functions of an MCP server whose names are split into a resource and an action.
func tools(t testing.TB) *steps.Registry {
	t.Helper()
	var specs []steps.Spec
	for name, path := range map[string]string{
		"list_devices": "device.list", "get_device": "device.get", "delete_device": "device.delete",
		"list_racks": "racks.list", "reboot": "",
	} {
		s := spec("net."+name, `{"type":"object","properties":{"site":{}}}`)
		if path != "" {
			s.Path = "net." + path
		}
		specs = append(specs, s)
	}
	return registryOf(t, specs...)
}

func TestPaths(t *testing.T) {
	t.Parallel()
	view := tools(t)
	for _, test := range []struct {
		c    Config
		want string
	}{
		{Config{Groups: []Group{{Name: "dcim", Resources: []string{"device"}}}},
			"dcim: device/delete device/get device/list\n- net.list_racks\n- net.reboot\n"},
		{Config{Autodispatch: true},
			"device: device/delete device/get device/list\nnet: net/reboot\nracks: racks/list\n"},
		{Config{Groups: []Group{{Name: "lists", Resources: []string{"list_*"}}, {Name: "gone", Resources: []string{"*.delete"}}}, Hide: true},
			"lists: device/list racks/list\ngone: device/delete\n"},
		{Config{Groups: []Group{{Name: "one", Resources: []string{"net.get_device"}}, {Name: "all", Resources: []string{"net"}}}},
			"one: device/get\nall: device/delete device/list racks/list net/reboot\n"},
	} {
		d := mustNew(t, &test.c)
		expect(t, contents(d.Arrange(view)), test.want)
		if unmatched := d.Unmatched(view); len(unmatched) > 0 {
			t.Errorf("got unmatched entries %v, want none", unmatched)
		}
	}
}

// TestPathCalls: a call names a function by its path or by its name.
func TestPathCalls(t *testing.T) {
	t.Parallel()
	d := mustNew(t, &Config{Groups: []Group{{Name: "all", Resources: []string{"net"}}}}).Arrange(tools(t)).Dispatchers[0]
	for call, want := range map[string]string{
		`{"resource":"device","action":"list","params":{"site":1}}`:         "net.list_devices",
		`{"resource":"Device","action":"LIST"}`:                             "net.list_devices",
		`{"action":"device.list","site":1}`:                                 "net.list_devices",
		`{"action":"list_devices","site":1}`:                                "net.list_devices",
		`{"action":"listDevices"}`:                                          "net.list_devices",
		`{"action":"net.list_devices"}`:                                     "net.list_devices",
		`{"resource":"device","action":"list_devices","params":{"site":1}}`: "net.list_devices",
		`{"action":"delete"}`:                                               "net.delete_device",
		`{"action":"reboot"}`:                                               "net.reboot",
	} {
		r, faults := d.Read([]byte(call))
		if len(faults) > 0 || r.Entry == nil || r.Entry.Spec().Name != want {
			t.Errorf("%s: %+v %v, want %s", call, r, faults, want)
		}
	}
	if _, faults := d.Read([]byte(`{"resource":"racks","action":"list_devices","params":{}}`)); len(faults) != 1 ||
		faults[0].Code != fault.UnknownFunction {
		t.Errorf("got faults %v, want unknown_function", faults)
	}
	answer, _ := helpOf(t, d, `{"resource":"device"}`, HelpOptions{Lite: true})
	expect(t, answer, `{"resources":{"device":["delete","get","list"]}}`)
	answer, _ = helpOf(t, d, `{}`, HelpOptions{})
	if !strings.Contains(answer, `"device":{"delete":"(site?: any) // Does net.delete_device"`) {
		t.Errorf("help lacks the action of device: %s", answer)
	}
}

// TestRenamed: in a group's name, _ replaces characters that tool names may not have.
func TestRenamed(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 65)
	d := mustNew(t, &Config{Groups: []Group{
		{Name: "sdl.query", Resources: []string{"device"}}, {Name: "with space", Resources: []string{"racks"}},
		{Name: "as-it_is", Resources: []string{"reboot"}},
		{Name: long, Resources: []string{"z"}},
	}})
	var names, at []string
	for _, one := range d.Arrange(tools(t)).Dispatchers {
		names = append(names, one.Name)
	}
	for _, f := range d.Renamed() {
		at = append(at, f.At)
		if f.Code != fault.BadRequest {
			t.Errorf("got %v, want bad_request", f)
		}
	}
	if want := []string{"sdl_query", "with_space", "as-it_is"}; !slices.Equal(names, want) {
		t.Errorf("tools %q, want %q", names, want)
	}
	if want := []string{"/groups/sdl.query", "/groups/with space", "/groups/" + long}; !slices.Equal(at, want) {
		t.Errorf("faults at %q, want %q", at, want)
	}
	for _, pair := range [][2]string{{"sdl.query", "sdl_query"}, {"a b", "a.b"}} {
		_, faults := New(&Config{Groups: []Group{{Name: pair[0], Resources: []string{"a"}}, {Name: pair[1], Resources: []string{"b"}}}})
		if len(faults) != 1 || faults[0].At != "/groups/"+pair[1] {
			t.Errorf("groups %q: got faults %v, want one", pair, faults)
		}
	}
}

// TestSessionPath: SessionPath, the path in a client's own session, determines the resource and the action.
func TestSessionPath(t *testing.T) {
	t.Parallel()
	s := spec("net.delete_issues", `{"type":"object"}`)
	s.Path, s.SessionPath = "net.issue.delete", "net.issues.delete"
	d := mustNew(t, &Config{Autodispatch: true})
	expect(t, contents(d.Arrange(registryOf(t, s))), "issues: issues/delete\n")
}
