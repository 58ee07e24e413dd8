package groups

import (
	"maps"
	"math/rand"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/steps"
)

// tool returns the function of an MCP server's tool.
func tool(name, listed string) steps.Spec {
	s := spec(name, "")
	s.Listing = []byte(`{"name":"` + listed + `","inputSchema":{"type":"object"}}`)
	return s
}

func TestFlatNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 70)
	view := registryOf(t,
		tool("memory.read_graph", "read_graph"),
		tool("memory.search", "search"),              // reserved
		tool("memory.open", "open"),                  // two servers have it
		tool("files.open", "open"),                   //
		tool("files.renamed", "read_file"),           // renamed by the configuration
		tool("sdl.symbol.getCard", "symbol.getCard"), // not a valid tool name
		tool("api.device_list", "device_list"),
		spec("netbox.device.list", ""),
		spec("fs.grep", ""),
		spec("a.b_c", ""), spec("a_b.c", ""), // both become the same name
		spec("dcim.get", ""), // like the name of the next tool
		tool("x.dcim_get", "dcim_get"),
		spec("x."+long, ""),
		tool("y."+long, long),
		spec("é.ü", ""), spec("ß.ü", ""),
	)
	want := map[string]string{
		"memory.read_graph": "read_graph", "memory.search": "memory_search", "memory.open": "memory_open", "files.open": "files_open",
		"files.renamed": "files_renamed", "sdl.symbol.getCard": "sdl_symbol_getCard", "api.device_list": "device_list",
		"netbox.device.list": "netbox_device_list", "fs.grep": "fs_grep", "a.b_c": "a_b_c_", "a_b.c": "a_b_c_",
		"dcim.get": "dcim_get_", "x.dcim_get": "dcim_get", "x." + long: "x_" + long[:42] + "_", "y." + long: "y_" + long[:42] + "_",
		"é.ü": "____", "ß.ü": "____",
	}
	got := FlatNames(view.All(), []string{"chain", "search", "info"})
	for function, name := range want {
		hashed := strings.HasSuffix(name, "_")
		if got[function] != name && (!hashed || !regexp.MustCompile("^"+name+"[0-9a-f]{7}$").MatchString(got[function])) {
			t.Errorf("%s is %s, want %s", function, got[function], name)
		}
	}
	checkNames(t, got, len(view.All()))
}

func checkNames(t interface{ Fatalf(string, ...any) }, names map[string]string, count int) {
	used := map[string]bool{"chain": true, "search": true, "info": true}
	for function, name := range names {
		if used[name] || !toolName.MatchString(name) {
			t.Fatalf("the name of %s is taken or invalid: %q", function, name)
		}
		used[name] = true
	}
	if len(names) != count {
		t.Fatalf("%d names for %d functions, want as many", len(names), count)
	}
}

func TestFlatNamesProperties(t *testing.T) {
	t.Parallel()
	reserved := []string{"chain", "search", "info"}
	rapid.Check(t, func(rt *rapid.T) {
		piece := rapid.SampledFrom([]string{"a", "b", "a_b", "chain", "info", "é", "search", strings.Repeat("l", 40), "B"})
		name := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(piece, 1, 3).Draw(t, "parts"), ".") })
		names := rapid.SliceOfNDistinct(name, 1, 15, rapid.ID).Draw(rt, "names")
		var specs []steps.Spec
		for _, name := range names {
			if _, tail, _ := strings.Cut(name, "."); rapid.Bool().Draw(rt, "has a tool name") {
				specs = append(specs, tool(name, tail))
			} else {
				specs = append(specs, spec(name, ""))
			}
		}
		entries := registryOf(t, specs...).All()
		got := FlatNames(entries, reserved)
		checkNames(rt, got, len(names))
		rand.New(rand.NewSource(1)).Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
		if !maps.Equal(got, FlatNames(entries, reserved)) {
			rt.Fatalf("the names depend on the order")
		}
		// If no other function could have a name of a function, that function keeps its name, whatever is added or removed.
		claims := map[string]int{}
		for _, e := range entries {
			_, tail, _ := strings.Cut(e.Spec().Name, ".")
			for _, claim := range []string{tail, sanitize(e.Spec().Name)} {
				claims[claim]++
			}
		}
		for function, name := range FlatNames(entries[:len(entries)/2], reserved) {
			_, tail, _ := strings.Cut(function, ".")
			if claims[tail] == 1 && claims[sanitize(function)] == 1 && name != got[function] {
				rt.Fatalf("%s is named %s, and with fewer functions %s, want the same", function, got[function], name)
			}
		}
	})
}
