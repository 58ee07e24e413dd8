package steps

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
)

// echo returns its arguments.
func echo(_ context.Context, args []byte) ([]byte, error) { return slices.Clone(args), nil }

// functions returns echo functions with these names.
func functions(names ...string) []Function {
	var fns []Function
	for _, name := range names {
		fns = append(fns, Function{Spec: Spec{Name: name}, Call: echo})
	}
	return fns
}

func registry(t testing.TB, fns ...Function) *Registry {
	t.Helper()
	r, err := NewRegistry(fns, &RegistryOptions{Warn: func(f *fault.Error) { t.Errorf("got the warning %v, want none", f) }})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// entry registers one function with these schemas and returns it with the warnings.
func entry(t testing.TB, input, output string) (e *Entry, warnings []string) {
	t.Helper()
	fn := Function{Spec: Spec{Name: "test.call", Input: []byte(input), Output: []byte(output)}, Call: echo}
	r, err := NewRegistry([]Function{fn}, &RegistryOptions{Warn: func(f *fault.Error) { warnings = append(warnings, f.Message) }})
	if err != nil {
		t.Fatal(err)
	}
	return r.All()[0], warnings
}

func TestResolve(t *testing.T) {
	t.Parallel()
	r := registry(t, functions("fs.grep", "symbol.search", "symbol.getCard", "netbox.device.list", "netbox.device_type.list",
		"netbox.rack.list", "git.log", "log.git", "a.b.c", "x.abc", "case.One", "müller.straße")...)
	tests := []struct {
		name string
		want string // names after "?" are those that the fault of an ambiguous name lists
	}{
		{"fs.grep", "fs.grep"}, {"FS.Grep", "fs.grep"}, {"fs_grep", "fs.grep"}, {"fsgrep", "fs.grep"}, {"fs/grep", "fs.grep"},
		{"grep", "fs.grep"}, {"symbolSearch", "symbol.search"}, {"symbolGetCard", "symbol.getCard"}, {"symbol_get_card", "symbol.getCard"},
		{"get-card", "symbol.getCard"}, {"device.list", "netbox.device.list"}, {"deviceList", "netbox.device.list"},
		{"type.list", "netbox.device_type.list"}, {"type_list", "netbox.device_type.list"}, {"netbox.devicetype.list", "netbox.device_type.list"},
		{"list", "?netbox.device.list,netbox.device_type.list,netbox.rack.list"},
		{"git.log", "git.log"}, {"log", "git.log"}, {"gitlog", "git.log"}, {"loggit", "log.git"},
		{"abc", "a.b.c"}, {"ABC", "a.b.c"}, {"x.a.b.c", "x.abc"}, {"one", "case.One"}, {"MÜLLER.STRAßE", "müller.straße"},
		{"fs.grp", ""}, {"", ""}, {"...", ""}, {"vice.list", ""}, {"fs", ""}, {strings.Repeat("fs.grep", 100), ""},
	}
	for _, test := range tests {
		got, err := r.Resolve(test.name)
		if listed, ambiguous := strings.CutPrefix(test.want, "?"); ambiguous || test.want == "" {
			f, _ := fault.As(err)
			if f == nil || f.Code != fault.UnknownFunction || got != nil {
				t.Errorf("Resolve(%q) = %v, %v, want unknown_function", test.name, got, err)
			} else if strings.Join(f.Available, ",") != listed || ambiguous && len(f.Nearest) == 0 {
				t.Errorf("Resolve(%q) lists %v, nearest %v, want %s", test.name, f.Available, f.Nearest, listed)
			}
			continue
		}
		if err != nil || got.Spec().Name != test.want {
			t.Errorf("Resolve(%q) = %v, %v, want %s", test.name, got, err, test.want)
		}
	}
	_, err := r.Resolve("fs.grp")
	if f, _ := fault.As(err); len(f.Nearest) == 0 || f.Nearest[0] != "fs.grep" || len(f.Nearest) > 3 ||
		!strings.Contains(f.Message, "fs.grep") {
		t.Errorf("got %+v, want at most 3 nearest, fs.grep first and in the message", f)
	}
}

// TestResolveRanks: a full name wins over a name without its source, and that over a suffix. A name that begins with a source means one of
// its functions or none ("-"), so that a rule for "fs.*" covers everything that "fs.x" can mean.
func TestResolveRanks(t *testing.T) {
	t.Parallel()
	ranked := registry(t, functions("a.bc", "x.a.bc", "y.z.a-bc", "bc.d")...)
	sources := registry(t, functions("fs.cat", "chain.fs-report", "team-fs.write_it", "chain.fs.cat-all", "git-hub.look", "github.list")...)
	for _, test := range []struct {
		r          *Registry
		name, want string
	}{
		{ranked, "abc", "a.bc"}, {ranked, "aBc", "a.bc"}, {ranked, "bc", "a.bc"}, {ranked, "d", "bc.d"}, {ranked, "z.abc", "y.z.a-bc"},
		{sources, "fs.report", "-"}, {sources, "FS.report", "-"}, {sources, "fs.write_it", "-"}, {sources, "fs.Cat", "fs.cat"},
		{sources, "fs-report", "chain.fs-report"}, {sources, "write_it", "team-fs.write_it"}, {sources, "fs.cat-all", "-"},
		{sources, "git_hub.look", "git-hub.look"}, {sources, "github.look", "git-hub.look"},
	} {
		got, err := test.r.Resolve(test.name)
		if test.want == "-" && fault.CodeOf(err) != fault.UnknownFunction ||
			test.want != "-" && (err != nil || got.Spec().Name != test.want) {
			t.Errorf("Resolve(%q) = %v, %v, want %q", test.name, got, err, test.want)
		}
	}
}

func TestRegistryWarnsOfSimilarNames(t *testing.T) {
	t.Parallel()
	var warnings []string
	o := &RegistryOptions{Warn: func(f *fault.Error) { warnings = append(warnings, f.Message) }}
	r, err := NewRegistry(functions("a.getUser", "a.get_user"), o)
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "a.getUser and a.get_user") {
		t.Fatalf("got %v, warnings %q, want one that names both functions", err, warnings)
	}
	for _, name := range []string{"a.getUser", "a.get_user"} {
		if got, err := r.Resolve(name); err != nil || got.Spec().Name != name {
			t.Errorf("Resolve(%q) = %v, %v, want %s", name, got, err, name)
		}
	}
	if _, err := r.Resolve("getuser"); fault.CodeOf(err) != fault.UnknownFunction {
		t.Errorf("ambiguous name: %v, want unknown_function", err)
	}
}

func TestViewWrapAndWith(t *testing.T) {
	t.Parallel()
	all := registry(t, functions("fs.cat", "fs.grep", "net.get")...)
	view := all.View(func(s *Spec) bool { return s.Source() == "fs" })
	var wrapped []string
	logged := view.Wrap(func(s *Spec, next Call) Call {
		wrapped = append(wrapped, s.Name)
		return func(ctx context.Context, args []byte) ([]byte, error) {
			result, err := next(ctx, args)
			return append([]byte(`["`+s.Name+`",`), append(result, ']')...), err
		}
	})
	full, err := logged.With(functions("net.get", "zip.pack")...)
	if err != nil {
		t.Fatal(err)
	}
	names := func(r *Registry) string {
		var names []string
		for _, e := range r.All() {
			names = append(names, e.Spec().Name)
		}
		if len(names) != r.Len() {
			t.Errorf("Len is %d, want %d", r.Len(), len(names))
		}
		return strings.Join(names, " ")
	}
	for want, r := range map[string]*Registry{"fs.cat fs.grep net.get": all, "fs.cat fs.grep": view, "fs.cat fs.grep net.get zip.pack": full} {
		if got := names(r); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if !slices.Equal(wrapped, []string{"fs.cat", "fs.grep"}) {
		t.Errorf("wrapped %v, want the functions of the view", wrapped)
	}
	for name, want := range map[string]string{"cat": `["fs.cat",{"a":1}]`, "net.get": `{"a":1}`} {
		e, err := full.Resolve(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := e.Call(t.Context(), []byte(`{"a": 1}`)); err != nil || string(got) != want {
			t.Errorf("%s answers %s, %v, want %s", name, got, err, want)
		}
	}
	if e, _ := all.Resolve("cat"); e != nil {
		if got, err := e.Call(t.Context(), []byte(`{}`)); err != nil || string(got) != `{}` {
			t.Errorf("Wrap changed its receiver: got %s, %v, want {}", got, err)
		}
	}
	if _, err := view.Resolve("net.get"); fault.CodeOf(err) != fault.UnknownFunction {
		t.Errorf("hidden function: %v, want unknown_function", err)
	}
	if empty, err := NewRegistry(nil, nil); err != nil || empty.Len() != 0 {
		t.Errorf("NewRegistry(nil) = %v, %v, want an empty one", empty, err)
	} else if _, err := empty.Resolve("a"); fault.CodeOf(err) != fault.UnknownFunction {
		t.Errorf("Resolve in an empty registry: got %v, want unknown_function", err)
	}
}

// Hidden functions leave no trace in any answer, and do not make a visible name ambiguous.
func TestViewHides(t *testing.T) {
	t.Parallel()
	word := rapid.StringMatching(`[a-c]{1,2}([._-][a-cA-C]{1,2}){0,3}`)
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(word, 1, 12, rapid.ID[string]).Draw(t, "names")
		all, err := NewRegistry(functions(names...), nil)
		if err != nil {
			t.Fatal(err)
		}
		visible := map[string]bool{}
		for _, name := range names {
			visible[name] = rapid.Bool().Draw(t, name)
		}
		view := all.View(func(s *Spec) bool { return visible[s.Name] })
		var shown []Function
		for _, name := range names {
			if visible[name] {
				shown = append(shown, functions(name)...)
			}
		}
		alone, err := NewRegistry(shown, nil)
		if err != nil {
			t.Fatal(err)
		}
		query := rapid.OneOf(word, rapid.SampledFrom(names)).Draw(t, "query")
		got, err := view.Resolve(query)
		want, wantErr := alone.Resolve(query)
		if (err == nil) != (wantErr == nil) || err == nil && got.Spec().Name != want.Spec().Name {
			t.Fatalf("Resolve(%q) = %v, %v in the view, %v, %v in a registry of its own", query, got, err, want, wantErr)
		}
		if err != nil {
			f, _ := fault.As(err)
			g, _ := fault.As(wantErr)
			if f.Message != g.Message || !slices.Equal(f.Available, g.Available) || !slices.Equal(f.Nearest, g.Nearest) {
				t.Fatalf("Resolve(%q): %+v in the view, %+v in a registry of its own, want the same", query, f, g)
			}
		}
	})
}

func FuzzResolveName(f *testing.F) {
	all, err := NewRegistry(functions("fs.grep", "fs.cat", "netbox.device.list", "netbox.device_type.list", "a.b", "A.B", "x/y-z"), nil)
	if err != nil {
		f.Fatal(err)
	}
	view := all.View(func(s *Spec) bool { return s.Name != "fs.cat" })
	for _, name := range []string{"fs.grep", "cat", "device_list", "ab", "", "...", "É\xff", "list"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		e, err := view.Resolve(name)
		if err == nil {
			if !slices.Contains(view.All(), e) {
				t.Fatalf("%q resolves to %s, which is not in the view", name, e.Spec().Name)
			}
			return
		}
		coded, ok := fault.As(err)
		if !ok || coded.Code != fault.UnknownFunction {
			t.Fatalf("Resolve(%q): got %v, want unknown_function", name, err)
		}
		if listed := slices.Concat(coded.Available, coded.Nearest); slices.Contains(listed, "fs.cat") {
			t.Fatalf("%q: a hidden name is listed: %v", name, listed)
		}
	})
}

// Replacements are guarded like functions, and observers receive what callers get.
func TestReplaceAndObserve(t *testing.T) {
	t.Parallel()
	fn := Function{Spec: Spec{Name: "a.b", Input: []byte(`{"required":["x"]}`)}, Call: func(context.Context, []byte) ([]byte, error) {
		t.Error("the replaced function was called")
		return nil, nil
	}}
	r, err := NewRegistry([]Function{fn}, &RegistryOptions{MaxResultBytes: 20})
	if err != nil {
		t.Fatal(err)
	}
	var observed []string
	observe := func(_ context.Context, spec *Spec, args, result []byte, err error) {
		observed = append(observed, fmt.Sprintf("%s %s %s %s", spec.Name, args, result, fault.CodeOf(err)))
	}
	r = r.Observe(observe).Replace(func(*Spec) Call {
		return func(_ context.Context, args []byte) ([]byte, error) {
			switch {
			case bytes.Contains(args, []byte("panic")):
				panic("oh")
			case bytes.Contains(args, []byte("long")):
				return []byte(`"12345678901234567890"`), nil
			}
			return []byte(`{ "y" : 1 }`), nil
		}
	}).Observe(observe)
	e := r.All()[0]
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for args, want := range map[string]string{
		`{"x": 1}`: `a.b {"x":1} {"y":1} `, `{"x":"panic"}`: `a.b {"x":"panic"}  internal`,
		`{"x":"long"}`: `a.b {"x":"long"}  limit_exceeded`, `{}`: "",
	} {
		observed = nil
		result, err := e.Call(t.Context(), []byte(args))
		if want == "" {
			if observed != nil || fault.CodeOf(err) != fault.BadArguments {
				t.Errorf("%s: observed %q, got %v, want none, and bad_arguments", args, observed, err)
			}
			continue
		}
		if !slices.Equal(observed, []string{want, want}) || !strings.HasSuffix(want, fmt.Sprintf("%s %s", result, fault.CodeOf(err))) {
			t.Errorf("%s: observed %q, the caller got %s, %v, want %s twice", args, observed, result, err, want)
		}
	}
	observed = nil
	if _, err := e.Call(ended, []byte(`{"x":1}`)); fault.CodeOf(err) != fault.Cancelled || observed != nil {
		t.Errorf("call with an ended context: observed %q, got %v, want none, and cancelled", observed, err)
	}
}

func TestHides(t *testing.T) {
	t.Parallel()
	view := registry(t, functions("fs.cat", "fs.grep", "net.get")...).View(func(s *Spec) bool { return s.Name != "fs.grep" })
	for name, want := range map[string]bool{"fs.grep": true, "fsGrep": true, "FS_GREP": true, "grep": false, "fs.cat": false, "none": false} {
		if got := view.Hides(name); got != want {
			t.Errorf("Hides(%q) = %t, want %t", name, got, want)
		}
	}
}
