package groups

import (
	"strings"
	"testing"
)

// contents writes an arrangement: name: resource/action … for each dispatcher, then the rest.
func contents(a *Arrangement) string {
	var b strings.Builder
	for _, d := range a.Dispatchers {
		b.WriteString(d.Name + ":")
		for _, f := range d.functions {
			b.WriteString(" " + f.label + "/" + f.action)
		}
		b.WriteString("\n")
	}
	for _, e := range a.Rest {
		b.WriteString("- " + e.Spec().Name + "\n")
	}
	return b.String()
}

func TestDeviceAndDeviceType(t *testing.T) {
	t.Parallel()
	view := registry(t, "netbox.device.list", "netbox.device.get", "netbox.device.interface.list", "netbox.device_type.list",
		"netbox.devices.list", "netbox.device-bay.list", "netbox.rack.list", "netbox.front.device.list")
	for name, test := range map[string]struct {
		groups []Group
		want   string
	}{
		"segments, not characters": {[]Group{{Name: "g", Resources: []string{"device"}}}, `
			g: device/get interface/list device/list
			- netbox.device-bay.list
			- netbox.device_type.list
			- netbox.devices.list
			- netbox.front.device.list
			- netbox.rack.list`},
		"both in one group": {[]Group{{Name: "g", Resources: []string{"device", "device_type"}}}, `
			g: device/get device.interface/list device/list device_type/list
			- netbox.device-bay.list
			- netbox.devices.list
			- netbox.front.device.list
			- netbox.rack.list`},
		"longest first, whatever the order": {[]Group{{Name: "a", Resources: []string{"device"}},
			{Name: "b", Resources: []string{"device.interface", "rack"}}}, `
			a: device/get device/list
			b: device.interface/list rack/list
			- netbox.device-bay.list
			- netbox.device_type.list
			- netbox.devices.list
			- netbox.front.device.list`},
		"a pattern after a name, the rest in the last": {[]Group{{Name: "all", Resources: []string{"*"}},
			{Name: "p", Resources: []string{"device*"}}, {Name: "n", Resources: []string{"netbox.device"}}}, `
			all: front.device/list rack/list
			p: device-bay/list device_type/list devices/list
			n: device/get interface/list device/list`},
		"the first of equal patterns": {[]Group{{Name: "a", Resources: []string{"dev*"}}, {Name: "b", Resources: []string{"*ice"}}}, `
			a: device-bay/list device/get device.interface/list device/list device_type/list devices/list
			b: device/list
			- netbox.rack.list`},
		"an action": {[]Group{{Name: "gets", Resources: []string{"*.get"}}, {Name: "d", Resources: []string{"device"}}}, `
			gets: device/get
			d: interface/list device/list
			- netbox.device-bay.list
			- netbox.device_type.list
			- netbox.devices.list
			- netbox.front.device.list
			- netbox.rack.list`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := mustNew(t, &Config{Groups: test.groups})
			expect(t, contents(d.Arrange(view)), test.want)
		})
	}
}

func TestReach(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		entry, name string
		want        string // the covered part; "" if the entry does not match
	}{
		{"device", "netbox.device.list", "netbox.device"},
		{"netbox.device", "netbox.device.list", "netbox.device"},
		{"netbox", "netbox.device.list", "netbox"},
		{"device.list", "netbox.device.list", "netbox.device.list"},
		{"list", "netbox.device.list", ""},
		{"device", "netbox.device_type.list", ""},
		{"device", "netbox.dcim.device.list", ""},
		{"dcim.device", "netbox.dcim.device.list", "netbox.dcim.device"},
		{"*.device", "netbox.dcim.device.list", "netbox.dcim.device"},
		{"*.device", "netbox.device.list", "netbox.device"},
		{"netbox.*", "netbox.device.list", "netbox.device"},
		{"*", "netbox.device.list", "netbox"},
		{"*.delete", "a.b.c.delete", "a.b.c.delete"},
		{"*.delete", "a.b.c.delete_all", ""},
		{"dev??e", "netbox.device.list", "netbox.device"},
		{"dev?", "netbox.device.list", ""},
		{"(x)+", "s.(x)+.get", "s.(x)+"},
		{"read_*", "fs.read_file", "fs.read_file"},
		{"fs.read_*", "fs.read_file", "fs.read_file"},
		{"fs", "fs.read_file", "fs"},
		{"foo", "foo", "foo"},
		{"Device", "netbox.device.list", ""},
		{"repo.*", "github.repo.issue.list", "github.repo.issue"},
		{"*.*.list", "github.repo.issue.list", "github.repo.issue.list"},
	} {
		e, f := newEntry(test.entry)
		if f != nil {
			t.Fatal(f)
		}
		if got := test.name[:e.coverageOf(test.name)]; got != test.want {
			t.Errorf("%s covers %q of %s, want %q", test.entry, got, test.name, test.want)
		}
	}
}

func TestAutodispatch(t *testing.T) {
	t.Parallel()
	view := registry(t, "netbox.device.list", "netbox.device.interface.list", "netbox.rack.list", "lab.rack.list", "netbox.cable.list",
		"memory.read_graph", "memory.open_nodes", "netbox.dcim.get", "x.search.get", "alone", "odd..name", "help", "x.help", "x.ü.get")
	d := mustNew(t, &Config{Groups: []Group{{Name: "dcim", Resources: []string{"cable"}}}, Autodispatch: true})
	expect(t, contents(d.Arrange(view)), `
		dcim: cable/list
		device: interface/list device/list
		lab_rack: rack/list
		memory: memory/open_nodes memory/read_graph
		netbox_dcim: dcim/get
		netbox_rack: rack/list
		x: x/help
		x__: ü/get
		x_search: search/get
		- alone
		- help
		- odd..name`)
	hidden := mustNew(t, &Config{Groups: []Group{{Name: "dcim", Resources: []string{"cable", "help", "alone", "odd*"}}}, Hide: true})
	expect(t, contents(hidden.Arrange(view)), "dcim: /alone cable/list x/help")
	a := hidden.Arrange(view)
	if a.DispatcherOf("netbox.cable.list") != a.Dispatchers[0] || a.DispatcherOf("netbox.rack.list") != nil {
		t.Error("DispatcherOf does not return the dispatcher that calls a function")
	}
}

func TestLabels(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		names []string
		want  string
	}{
		"the common prefix is left out": {[]string{"gh.repo.issue.list", "gh.repo.pull.list", "gh.repo.pull.review.list"},
			"issue/list pull/list pull.review/list"},
		"but a resource keeps a name":   {[]string{"gh.repo.get", "gh.repo.issue.list"}, "repo/get issue/list"},
		"unless it is another's":        {[]string{"gh.repo.get", "gh.repo.repo.list"}, "repo/get repo.repo/list"},
		"one resource":                  {[]string{"gh.repo.issue.get", "gh.repo.issue.list"}, "issue/get issue/list"},
		"a server's tools":              {[]string{"fs.read", "fs.write"}, "fs/read fs/write"},
		"source of equal labels":        {[]string{"a.device.get", "b.device.get", "b.rack.get"}, "a.device/get b.device/get rack/get"},
		"source of a clashing label":    {[]string{"b.get", "a.b.get", "c.d.get"}, "a.b/get b/get d/get"},
		"a function without a resource": {[]string{"alone", "a.b.get"}, "b/get /alone"},
		"tools of servers with dots": {[]string{"sdl.symbol.getCard", "sdl.symbol.search", "sdl.echo"},
			"sdl/echo symbol/getCard symbol/search"},
		"the same resource below each": {[]string{"a.x.y.get", "b.x.y.get", "a.x.get"}, "x/get a.x.y/get b.x.y/get"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := mustNew(t, &Config{Groups: []Group{{Name: "g", Resources: []string{"*"}}}})
			expect(t, contents(d.Arrange(registry(t, test.names...))), "g: "+test.want)
		})
	}
}
