package mcp_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/transcript"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// pathOf returns a function's path without the source; "": the name is not split.
func pathOf(fn *steps.Function) string { return strings.TrimPrefix(fn.Path, "net.") }

// openWithNames opens a source whose server lists tools with these names; configured is Options.Names.
func openWithNames(t testing.TB, configured string, names ...string) *mcpsource.Source {
	t.Helper()
	return openRaw(t, &rawServer{}, mcpsource.Options{Names: configured}, toolList(names...))
}

// TestToolNames splits the tool names of public servers (testdata/toolnames.txt: the package, its version and the detected form) and other
// names (testdata/readings.txt: the case, and in brackets the configured form). Each name is followed by its path, and in the second file
// also by the possible paths of the name alone.
func TestToolNames(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"testdata/toolnames.txt", "testdata/readings.txt"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var sections []string
		for section := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
			sections = append(sections, readNames(t, section, strings.HasSuffix(file, "readings.txt")))
		}
		transcript.File(t, file, []byte(strings.Join(sections, "\n")+"\n"))
		if len(sections) < 10 {
			t.Errorf("%s has %d sections, want at least 10", file, len(sections))
		}
	}
}

// readNames writes a section again: the names of a server's tools with their paths.
func readNames(t *testing.T, section string, possible bool) string {
	t.Helper()
	lines := strings.Split(section, "\n")
	title, _, _ := strings.Cut(lines[0], ":")
	_, configured, _ := strings.Cut(strings.TrimSuffix(title, "]"), " [")
	var names []string
	for _, line := range lines[1:] {
		names = append(names, strings.Fields(line)[0])
	}
	s := openWithNames(t, configured, names...)
	var read strings.Builder
	fmt.Fprintf(&read, "%s: %s\n", title, s.Status().Names)
	for _, name := range names {
		fn := function(t, s, "net."+name)
		line := fmt.Sprintf("%-40s %s", name, pathOf(fn))
		if possible {
			line = fmt.Sprintf("%-40s %-30s %s", name, pathOf(fn), strings.ReplaceAll(strings.Join(fn.PossiblePaths, " "), "net.", ""))
		}
		fmt.Fprintln(&read, strings.TrimRight(line, " "))
	}
	return read.String()
}

// TestPathsAreUnique: no two tools have the same path, the order of the list does not matter, and a path is among the possible paths of the
// name alone.
func TestPathsAreUnique(t *testing.T) {
	t.Parallel()
	word := rapid.SampledFrom([]string{"get", "list", "delete", "or", "a", "Device", "devices", "issue", "issues", "branches", "categories",
		"category", "x", "HTTP", "é", "_", "-", "."})
	name := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(word, 1, 5).Draw(t, "words"), "_") })
	pathsOf := func(configured string, names []string) map[string]string {
		s := openWithNames(t, configured, names...)
		defer func() { _ = s.Close() }()
		paths := map[string]string{}
		for _, fn := range s.Functions() {
			if paths[fn.Name] = fn.Path; fn.Path != "" && !slices.Contains(fn.PossiblePaths, fn.Path) {
				t.Errorf("%s has the path %s in the list %v, want one of its possible paths %v", fn.Name, fn.Path, names, fn.PossiblePaths)
			}
		}
		return paths
	}
	rapid.Check(t, func(r *rapid.T) {
		names := rapid.SliceOfNDistinct(name, 1, 12, rapid.ID[string]).Draw(r, "names")
		if rapid.Bool().Draw(r, "prefixed") {
			for i := range names {
				names[i] = "slack_" + names[i]
			}
		}
		configured := rapid.SampledFrom([]string{"", "resource_action", "action_resource", "whole"}).Draw(r, "configured")
		paths := pathsOf(configured, names)
		takenBy := map[string]string{}
		for name, path := range paths {
			plain := path
			if plain == "" {
				plain = name
			}
			if other, taken := takenBy[steps.FoldName(plain)]; taken && (path != "" || paths[other] != "") {
				r.Fatalf("%s and %s both have the path %s", other, name, plain)
			}
			takenBy[steps.FoldName(plain)] = name
			if strings.Contains(path, "..") || strings.HasSuffix(path, ".") {
				r.Fatalf("%s has the invalid path %s", name, path)
			}
		}
		slices.Reverse(names)
		if again := pathsOf(configured, names); !maps.Equal(again, paths) {
			r.Fatalf("got paths %v, and %v in reverse order, want the same", paths, again)
		}
	})
}

// TestFormIsDeterminedOnce: the first list with a tool determines the form of the names, unless the form is configured.
func TestFormIsDeterminedOnce(t *testing.T) {
	t.Parallel()
	server := &rawServer{}
	s := openRaw(t, server, mcpsource.Options{}, "")
	for _, step := range []struct{ names, want, form string }{
		{"", "", ""},
		{"list_devices get_device", "device.list device.get", "action_resource"},
		{"device_list reboot get_rack", "  rack.get", "action_resource"},
	} {
		server.change(t, s, toolList(strings.Fields(step.names)...))
		var got []string
		for _, fn := range s.Functions() {
			got = append(got, pathOf(&fn))
		}
		if strings.Join(got, " ") != step.want || s.Status().Names != step.form {
			t.Errorf("%s: got paths %q, form %s, want %s, form %s", step.names, got, s.Status().Names, step.want, step.form)
		}
	}
	_, err := mcpsource.New(&mcpsource.Options{Name: "net", Command: "x", Names: "verb_noun"})
	if f, _ := fault.As(err); f == nil || f.At != "/names" {
		t.Errorf("got %v, want a fault at /names", err)
	}
}

// TestManyNames: a list of the longest names is split quickly.
func TestManyNames(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 20_000 {
		names = append(names, fmt.Sprintf("get_%d_a_b_c_d_e_f_g_devices", i))
	}
	s := openWithNames(t, "", names...)
	if n := len(s.Functions()); n != len(names) || s.Functions()[0].Path != "net.0_a_b_c_d_e_f_g_devices.get" {
		t.Errorf("got %d functions, the first with the path %s; want %d", n, s.Functions()[0].Path, len(names))
	}
}

// TestFunctionNames: an invalid function name is replaced by a valid one that is the same in every list.
func TestFunctionNames(t *testing.T) {
	t.Parallel()
	names := func(tools ...string) (functions []string) {
		s := openWithNames(t, "", tools...)
		for _, fn := range s.Functions() {
			functions = append(functions, strings.TrimPrefix(fn.Name, "net."))
		}
		if _, err := steps.NewRegistry(s.Functions(), nil); err != nil {
			t.Error(err)
		}
		return functions
	}
	got := names("a", "a.b", "x/y", "a b", "a_b", "ä", "..", "p/q", "p.q", strings.Repeat("n", 300))
	want := []string{"a", "a.b", "x.y", "a_b_c8687a08", "a_b"}
	if !slices.Equal(got[:5], want) || got[8] != "p.q" || !strings.HasPrefix(got[7], "p.q_") {
		t.Errorf("got names %q, want %q", got, want)
	}
	if again := names("ä", "a b"); again[0] != got[5] || again[1] != got[3] {
		t.Errorf("the names differ in another list: %q, want %q and %q", again, got[5], got[3])
	}
}

// TestHints: the effect counts as declared if readOnlyHint or destructiveHint is given, with either value, and only then.
func TestHints(t *testing.T) {
	t.Parallel()
	tests := map[string]steps.Spec{
		`null`:                      {},
		`{"title":"x"}`:             {},
		`{"idempotentHint":true}`:   {Idempotent: true},
		`{"idempotentHint":false}`:  {},
		`{"openWorldHint":true}`:    {},
		`{"openWorldHint":false}`:   {Local: true},
		`{"readOnlyHint":"yes"}`:    {},
		`{"readOnlyHint":false}`:    {EffectDeclared: true},
		`{"readOnlyHint":true}`:     {Effect: steps.Read, EffectDeclared: true},
		`{"destructiveHint":false}`: {EffectDeclared: true},
		`{"destructiveHint":true}`:  {Effect: steps.Destroy, EffectDeclared: true},
		`{"readOnlyHint":true,"destructiveHint":true,"idempotentHint":true}`: {Effect: steps.Read, EffectDeclared: true, Idempotent: true},
	}
	var tools []string
	annotations := slices.Sorted(maps.Keys(tests))
	for i, text := range annotations {
		tools = append(tools, fmt.Sprintf(`{"name":"t%d","annotations":%s}`, i, text))
	}
	s := openRaw(t, &rawServer{}, mcpsource.Options{}, strings.Join(tools, ","))
	for i, text := range annotations {
		got, want := function(t, s, fmt.Sprintf("net.t%d", i)), tests[text]
		if got.Effect != want.Effect || got.EffectDeclared != want.EffectDeclared || got.Idempotent != want.Idempotent ||
			got.Local != want.Local {
			t.Errorf("%s: got %v, declared %t, idempotent %t, local %t, want %v, %t, %t, %t", text, got.Effect, got.EffectDeclared, got.Idempotent, got.Local, want.Effect, want.EffectDeclared, want.Idempotent, want.Local)
		}
	}
}

// TestListing: a tool's definition stays as listed except for nulls and order, and the schemas are slices of it.
func TestListing(t *testing.T) {
	t.Parallel()
	s := openRaw(t, &rawServer{}, mcpsource.Options{}, `{"icons":[1],"inputSchema":{"type":"object","a":1.50},"name":"t","_meta":{"x":1},
		"execution":{"taskSupport":"optional"},"title":null,"outputSchema":{"type":"object"},"x\"y":1},{"name":"u","title":"U"},{"name":"v","inputSchema":5}`)
	spec := function(t, s, "net.t").Spec
	if want := `{"name":"t","inputSchema":{"type":"object","a":1.50},"outputSchema":{"type":"object"},"icons":[1],"_meta":{"x":1},"execution":{"taskSupport":"optional"},"x\"y":1}`; string(spec.Listing) != want {
		t.Errorf("got listing %s, want %s", spec.Listing, want)
	}
	if string(spec.Input) != `{"type":"object","a":1.50}` || string(spec.Output) != `{"type":"object"}` {
		t.Errorf("got schemas %s, %s, want {\"type\":\"object\",\"a\":1.50} and {\"type\":\"object\"}", spec.Input, spec.Output)
	}
	spec.Listing[len(`{"name":"t","inputSchema":{`)] = '\''
	if spec.Input[1] != '\'' {
		t.Error("the schema is not a slice of the listing")
	}
	if u, v := function(t, s, "net.u"), function(t, s, "net.v"); u.Description != "U" || v.Description == "" ||
		string(v.Input) != `{"type":"object"}` {
		t.Errorf("got %+v and %+v, want description U, and an object as input", u.Spec, v.Spec)
	}
}

// TestRulesApplyToEveryList: a rule that restricts applies whatever other tools are in the list.
func TestRulesApplyToEveryList(t *testing.T) {
	t.Parallel()
	admin, hide := steps.TierAdmin, true
	for title, test := range map[string]struct {
		tool, pattern string
		before, after string // lists
	}{
		"sibling removed":                 {"delete_issues", "net.issue.delete", "get_issue delete_issues", "delete_issues list_users"},
		"sibling added":                   {"delete_issues", "net.issues.delete", "delete_issues list_users", "get_issue delete_issues"},
		"another tool with the same path": {"delete_issues", "net.issue.delete", "get_issue delete_issues", "get_issue delete_issues delete_issue"},
		"prefix not shared":               {"slack_delete_message", "*.delete", "slack_delete_message slack_post_message", "slack_delete_message slack_post_message ping"},
		"too few tools of the form":       {"delete_device", "*.device.delete", "delete_device get_device", "reboot device_tree rack status delete_device"},
		"other form at the start":         {"device_delete", "*.device.delete", "device_delete device_get", "list_racks get_rack add_rack open_rack read_rack device_delete"},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			settings, _ := steps.NewSettings([]steps.Setting{{Pattern: test.pattern, Tier: &admin, Hide: &hide}})
			check := func(when string, functions []steps.Function) {
				fn, hidden := settings.Apply(*find(t, functions, "net."+test.tool))
				if fn.MinimumTier() != steps.TierAdmin || !hidden {
					t.Errorf("%s: %s has tier %s, hidden %t; want admin, hidden", when, fn.Name, fn.MinimumTier(), hidden)
				}
			}
			before, after := toolList(strings.Fields(test.before)...), toolList(strings.Fields(test.after)...)
			server := &rawServer{all: after}
			s := openRaw(t, server, mcpsource.Options{}, before)
			check("before", s.Functions())
			check("in a session", functionsIn(t, s))
			server.change(t, s, after)
			check("after list_changed", s.Functions())
			check("at the next start", openRaw(t, &rawServer{}, mcpsource.Options{}, after).Functions())
			check("only in a session", functionsIn(t, openRaw(t, &rawServer{all: before}, mcpsource.Options{}, "")))
		})
	}
}

// functionsIn returns the functions in a client's session with the server.
func functionsIn(t testing.TB, s *mcpsource.Source) []steps.Function {
	t.Helper()
	functions, err := openSession(t, s, nil).Functions(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return functions
}

// TestGrantsFollowTheSharedList: grants match the whole name and the path in the shared list; rules also match the possible paths.
func TestGrantsFollowTheSharedList(t *testing.T) {
	t.Parallel()
	server := &rawServer{all: toolList("delete_issues", "get_widget", "list_users")}
	s := openRaw(t, server, mcpsource.Options{}, toolList("get_issue", "delete_issues", "list_users"))
	shared, private := s.Functions(), functionsIn(t, s)
	server.change(t, s, toolList("delete_issues", "list_users"))
	afterRemoval := s.Functions()
	for title, test := range map[string]struct {
		functions []steps.Function
		tool      string
		pattern   string
		want      bool
	}{
		"the shared path":                              {shared, "delete_issues", "net.issue.delete", true},
		"a possible path that is not used":             {shared, "delete_issues", "net.issues.delete", false},
		"the whole name":                               {shared, "delete_issues", "net.delete_*", true},
		"the former path after the sibling is removed": {afterRemoval, "delete_issues", "net.issue.delete", false},
		"the new path":                                 {afterRemoval, "delete_issues", "net.issues.delete", true},
		"a session without the sibling":                {private, "delete_issues", "net.issue.delete", true},
		"the session's own path":                       {private, "delete_issues", "net.issues.delete", false},
		"a tool of one session by its path":            {private, "get_widget", "net.widget.*", false},
		"a tool of one session by its name":            {private, "get_widget", "net.get_widget", true},
		"a tool with the same path in all lists":       {private, "list_users", "net.users.list", true},
	} {
		fn := find(t, test.functions, "net."+test.tool)
		if got := (steps.Rights{Tier: steps.TierAdmin, Functions: test.pattern}).Allows(&fn.Spec); got != test.want {
			t.Errorf("%s: %s allows %s: got %t, want %t", title, test.pattern, test.tool, got, test.want)
		}
	}
	for tool, want := range map[string]string{"delete_issues": "net.issues.delete", "get_widget": "net.widget.get", "list_users": ""} {
		if fn := find(t, private, "net."+tool); fn.SessionPath != want {
			t.Errorf("%s: got session path %q, want %q", tool, fn.SessionPath, want)
		}
	}
	if paths := find(t, private, "net.get_widget").PossiblePaths; !slices.Equal(paths, []string{"net.widget.get"}) {
		t.Errorf("a tool of only one session: got possible paths %q, want net.widget.get", paths)
	}
}

// TestOwnNames: a tool whose name no function can have is found by that name, with or without its source, and patterns match it.
func TestOwnNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ctx:get-docs", "ünï", "$x", "a/b", "we.ird/na me"} {
		s := openWithNames(t, "", name, "other")
		fn := s.Functions()[0]
		for _, hidden := range []bool{false, true} {
			all, err := steps.NewRegistry(s.Functions(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if hidden {
				all = all.View(func(spec *steps.Spec) bool { return spec.Name != fn.Name })
			}
			for _, spelling := range []string{"net." + name, name, fn.Name} {
				entry, err := all.Resolve(spelling)
				if (err != nil) != hidden || err == nil && entry.Spec().Name != fn.Name {
					t.Errorf("%s, hidden %t: got %v, want %s", spelling, hidden, err, fn.Name)
				}
			}
		}
		rights := steps.Rights{Tier: steps.TierAdmin, Functions: "net." + strings.ReplaceAll(name, " ", "?")}
		if !rights.Allows(&fn.Spec) {
			t.Errorf("the pattern %s does not match %s", rights.Functions, fn.Name)
		}
	}
}
