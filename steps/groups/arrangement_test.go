package groups

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/steps"
)

func TestDescription(t *testing.T) {
	t.Parallel()
	d := network(t)
	for limit, want := range map[int]string{ // by limit on the text after the group's own description
		100: "Devices and racks. Omit action for help. Resources: device, rack, device.interface",
		61:  "Devices and racks. Omit action for help. Resources: device, rack",
		45:  "Devices and racks. Omit action for help. Resources: device, rack",
		44:  "Devices and racks. Omit action for help. 2 resources",
		0:   "Devices and racks. Omit action for help. 2 resources",
	} {
		if got := d.Description(limit, bytesAsTokens); got != want {
			t.Errorf("%d: got %q, want %q", limit, got, want)
		}
	}
	many := mustNew(t, &Config{Groups: []Group{{Name: "g", Resources: []string{"s"}}}}).Arrange(registry(t,
		"s.alpha.get", "s.beta.get", "s.beta.x.list", "s.gamma.get", "s.delta.get")).Dispatchers[0]
	if got := many.Description(56, bytesAsTokens); got != "Omit action for help. Resources: beta …and 3 more" {
		t.Errorf("got %q, want beta and 3 more", got)
	}
	files := mustNew(t, &Config{Autodispatch: true}).Arrange(registry(t, "fs.read", "fs.write")).Dispatchers[0]
	if got := files.Description(100, bytesAsTokens); got != "Omit action for help. Actions: read, write" {
		t.Errorf("got %q, want the actions read and write", got)
	}
	schema := gjson.ParseBytes(d.InputSchema())
	for _, keyword := range []string{"oneOf", "anyOf", "allOf", "required", "additionalProperties"} {
		if schema.Get(keyword).Exists() {
			t.Errorf("the root of the input schema has %s", keyword)
		}
	}
	if schema.Get("type").Str != "object" {
		t.Error("the root of the input schema is not an object")
	}
}

// TestArrangements: each function of a view belongs to one dispatcher or to the rest and can be called there, and no text names any other
// function of the registry.
func TestArrangements(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		names := drawnNames(rt)
		all := make([]string, 0, 2*len(names))
		for _, name := range names {
			all = append(all, name, "hidden."+strings.ReplaceAll(name, "a", "qq"), name+".qqzz")
		}
		slices.Sort(all)
		r := registry(t, slices.Compact(all)...)
		view := r.View(func(s *steps.Spec) bool { return slices.Contains(names, s.Name) })
		entries := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "ab", "a.b", "*", "a*", "b.list", "*.get", "help"}), 0, 5,
			rapid.ID).Draw(rt, "entries")
		c := &Config{Autodispatch: rapid.Bool().Draw(rt, "auto")}
		for i, e := range entries {
			c.Groups = append(c.Groups, Group{Name: fmt.Sprint("g", i), Resources: []string{e}})
		}
		a := mustNew(t, c).Arrange(view)
		limit := rapid.IntRange(0, 600).Draw(rt, "limit")
		seen := map[string]int{}
		tools := map[string]bool{"chain": true, "search": true, "info": true}
		for _, e := range a.Rest {
			seen[e.Spec().Name]++
		}
		for _, d := range a.Dispatchers {
			if tools[d.Name] || !toolName.MatchString(d.Name) {
				rt.Fatalf("the dispatcher name %s is taken or invalid", d.Name)
			}
			tools[d.Name] = true
			for _, f := range d.functions {
				seen[f.entry.Spec().Name]++
				if a.DispatcherOf(f.entry.Spec().Name) != d {
					rt.Fatalf("DispatcherOf(%q) is another dispatcher than %s", f.entry.Spec().Name, d.Name)
				}
				call, _ := json.Marshal(map[string]string{"resource": f.label, "action": callText(f)})
				if got, faults := d.Read(call); len(faults) > 0 || got.Entry != f.entry {
					rt.Fatalf("%s does not call %s: %+v %v", call, f.entry.Spec().Name, got, faults)
				}
			}
			answer, given := d.Help(nil, &HelpOptions{Limit: limit, Count: bytesAsTokens})
			minimum, _ := d.Help(nil, &HelpOptions{Limit: 0, Count: bytesAsTokens})
			if !json.Valid(answer) || len(answer) > max(limit, len(minimum)) {
				rt.Fatalf("help has %d bytes, want JSON of at most %d: %s", len(answer), max(limit, len(minimum)), answer)
			}
			_, faults := d.Read([]byte(`{"resource":"qqz","action":"qq"}`))
			leaks := string(answer) + strings.Join(given, " ") + d.Description(limit, bytesAsTokens) + d.Name + strings.Join(faults[0].Available,
				" ") + strings.Join(faults[0].Nearest, " ")
			if strings.Contains(strings.ReplaceAll(leaks, `"qqz"`, ""), "qq") || strings.Contains(leaks, "hidden") {
				rt.Fatalf("a text names a function outside the view: %s", leaks)
			}
			if duplicates := duplicateKeys(answer); duplicates != "" {
				rt.Fatalf("help repeats a key: %s: %s", duplicates, answer)
			}
		}
		for _, name := range names {
			if seen[name] != 1 {
				rt.Fatalf("%s is listed %d times, want 1", name, seen[name])
			}
		}
		if len(seen) != len(names) {
			rt.Fatalf("%d functions are listed, want %d", len(seen), len(names))
		}
	})
}
