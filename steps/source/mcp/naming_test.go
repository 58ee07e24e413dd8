package mcp

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/steps"
)

var update = flag.Bool("update", false, "write what is read into testdata")

// TestToolNames reads the tools of public servers (testdata/toolnames.txt: the package, its version and the form that is
// found, then the names of the tools, each with what it is read as).
func TestToolNames(t *testing.T) {
	t.Parallel()
	const file = "testdata/toolnames.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var read strings.Builder
	servers := 0
	for section := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		lines := strings.Split(section, "\n")
		title, _, _ := strings.Cut(lines[0], ":")
		var names []string
		for _, line := range lines[1:] {
			names = append(names, strings.Fields(line)[0])
		}
		form := detectForm(names)
		paths := pathsOf(names, form, false)
		fmt.Fprintf(&read, "%s: %s\n", title, form)
		for _, name := range names {
			fmt.Fprintln(&read, strings.TrimRight(fmt.Sprintf("%-40s %s", name, paths[name]), " "))
		}
		read.WriteString("\n")
		servers++
	}
	if *update {
		if err := os.WriteFile(file, []byte(read.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := read.String(); got != string(text) && !*update {
		t.Errorf("names are read otherwise than %s says (-update writes it):\n%s", file, got)
	}
	if servers < 10 {
		t.Errorf("%d servers", servers)
	}
}

// TestReadNames: the ways to write names.
func TestReadNames(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		names, form string
		want        string
	}{
		"resource and action":      {"device_list device_get device_interface_list", "", "device.list device.get device_interface.list"},
		"action and resource":      {"list_devices get_device delete_device", "", "device.list device.get device.delete"},
		"camel case":               {"listDevices getDevice getHTMLPage", "", "device.list device.get HTMLPage.get"},
		"Pascal case":              {"ListDevices GetDevice", "", "device.list device.get"},
		"with hyphens":             {"list-pull-requests get-pull-request", "", "pull-request.list pull-request.get"},
		"ies":                      {"list_categories get_category", "", "category.list category.get"},
		"es":                       {"list_branches create_branch", "", "branch.list branch.create"},
		"no singular anywhere":     {"get_file_contents delete_file list_news", "", "file_contents.get file.delete news.list"},
		"part of another name":     {"list_issues add_issue_comment", "", "issue.list issue_comment.add"},
		"both would get one":       {"get_issue get_issues list_issues", "", "- - issue.list"},
		"one is another's whole":   {"list_x get_x x_list", "", "- - -"},
		"one word before all":      {"slack_list_channels slack_post_message slack_get_channel", "", "channel.list message.post channel.get"},
		"a verb before all":        {"get_user_name get_user_id", "", "user_name.get user_id.get"},
		"two verbs":                {"create_or_update_file get_file", "", "file.create_or_update file.get"},
		"an article":               {"retrieve-a-block delete-a-block", "", "block.retrieve block.delete"},
		"no form for so few":       {"list_devices get_device reboot device_tree", "", "- - - -"},
		"four of five":             {"list_devices get_device add_device set_device reboot", "", "device.list device.get device.add device.set -"},
		"whole":                    {"list_devices get_device", "whole", "- -"},
		"configured":               {"frobnicate_devices reboot_device ping", "action_resource", "device.frobnicate device.reboot -"},
		"configured the other way": {"devices_frobnicate device_reboot", "resource_action", "device.frobnicate device.reboot"},
		"dots":                     {"device.list get_device", "action_resource", "- device.get"},
		"only separators":          {"_ __ -", "action_resource", "- - -"},
	} {
		names := strings.Fields(test.names)
		form := test.form
		if form == "" {
			form = detectForm(names)
		}
		paths := pathsOf(names, form, test.form != "")
		for i, want := range strings.Fields(test.want) {
			if got := paths[names[i]]; got != strings.Trim(want, "-") {
				t.Errorf("%s: %s is read as %q, want %q", name, names[i], got, want)
			}
		}
	}
}

// TestNamesStayApart: whatever the names, no two tools are read alike, and the order of the list is of no importance.
func TestNamesStayApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"get", "list", "or", "a", "Device", "devices", "issue", "issues", "x", "HTTP", "é", "_", "-", "."})
		name := rapid.Custom(func(t *rapid.T) string {
			return sanitize(strings.Join(rapid.SliceOfN(word, 1, 5).Draw(t, "words"), "_"))
		})
		names := rapid.SliceOfNDistinct(name, 1, 12, rapid.ID[string]).Draw(t, "names")
		form := rapid.SampledFrom(nameForms).Draw(t, "form")
		configured := rapid.Bool().Draw(t, "configured")
		paths := pathsOf(names, form, configured)
		owners := map[string]string{}
		for _, name := range names {
			path := steps.FoldName(pathOr(paths, name))
			if other, taken := owners[path]; taken && (paths[name] != "" || paths[other] != "") {
				t.Fatalf("%s and %s are both read as %s", other, name, path)
			}
			owners[path] = name
			if path := paths[name]; path != "" && (strings.Contains(path, "..") || strings.HasPrefix(path, ".") || strings.HasSuffix(path, ".")) {
				t.Fatalf("%s is read as %s", name, path)
			}
		}
		slices.Reverse(names)
		if again := pathsOf(names, form, configured); !maps.Equal(again, paths) || detectForm(names) == "" {
			t.Fatalf("%v, the other way round %v", paths, again)
		}
	})
}

func pathOr(paths map[string]string, name string) string {
	if path, ok := paths[name]; ok {
		return path
	}
	return name
}

// TestFormIsFoundOnce: the first list that holds a tool decides how names are read, unless it is configured.
func TestFormIsFoundOnce(t *testing.T) {
	t.Parallel()
	list := func(s *Source, names string) (paths []string) {
		var tools []tool
		for name := range strings.FieldsSeq(names) {
			tools = append(tools, tool{name: name})
		}
		for _, fn := range s.functionsOf(s.assignNames(tools)) {
			paths = append(paths, cmp.Or(fn.Path, fn.Name))
		}
		return paths
	}
	s := newSource(Options{Name: "net"})
	for _, step := range []struct{ names, want, form string }{
		{"", "", ""},
		{"list_devices get_device", "net.device.list net.device.get", actionResource},
		{"device_list reboot get_rack", "net.device_list net.reboot net.rack.get", actionResource},
	} {
		if got := strings.Join(list(s, step.names), " "); got != step.want || s.Status().Names != step.form {
			t.Errorf("%s: %s, %s", step.names, got, s.Status().Names)
		}
	}
	if got := list(newSource(Options{Name: "net", Names: wholeNames}), "list_devices get_device"); got[0] != "net.list_devices" {
		t.Errorf("%s", got)
	}
	if _, f := (&Options{Name: "net", Command: "x", Names: "verb_noun"}).withDefaults(); f == nil || f.At != "/names" {
		t.Errorf("%v", f)
	}
}

// TestManyNames: a list of the longest names is read at once.
func TestManyNames(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 20_000 {
		names = append(names, fmt.Sprintf("get_%d_a_b_c_d_e_f_g_devices", i))
	}
	if paths := pathsOf(names, detectForm(names), false); len(paths) != len(names) {
		t.Errorf("%d are read", len(paths))
	}
}
