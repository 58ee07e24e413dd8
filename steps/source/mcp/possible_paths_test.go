package mcp

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/pattern"
)

// TestReadings: what a name may be read as by itself.
func TestReadings(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"delete_issues":                   "issues.delete issu.delete issue.delete",
		"slack_delete_message":            "message.delete",
		"acme_slack_delete_replies":       "replies.delete reply.delete repli.delete replie.delete",
		"message_delete":                  "message.delete",
		"slack_message_delete":            "slack_message.delete message.delete",
		"send_delete_notice":              "delete_notice.send",
		"deleteIssue":                     "issue.delete",
		"device.delete":                   "",
		"reboot":                          "",
		"device_tree":                     "",
		"_":                               "",
		strings.Repeat("delete_", 13):     "",
		"resource_action:do_purge":        "do.purge",
		"action_resource:purge_items":     "items.purge item.purge",
		"action_resource:app_purge_items": "purge_items.app purge_item.app items.purge item.purge",
		"whole:delete_issues":             "",
	} {
		form, plain, configured := strings.Cut(name, ":")
		if !configured {
			form, plain = "", name
		}
		if got := strings.Join(possiblePaths(plain, form), " "); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestReadingsHoldEveryPath: whatever else is in the list, the path of a name is among its readings.
func TestReadingsHoldEveryPath(t *testing.T) {
	t.Parallel()
	word := rapid.SampledFrom([]string{"get", "list", "delete", "or", "a", "Device", "devices", "branches", "branch", "categories", "category", "slack", "HTTP", "é", "_", "-", "."})
	name := rapid.Custom(func(t *rapid.T) string {
		return sanitize(strings.Join(rapid.SliceOfN(word, 1, 5).Draw(t, "words"), "_"))
	})
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(name, 1, 12, rapid.ID[string]).Draw(t, "names")
		if rapid.Bool().Draw(t, "prefixed") {
			for i := range names {
				names[i] = "slack_" + names[i]
			}
		}
		configured := rapid.SampledFrom(append([]string{""}, nameForms...)).Draw(t, "configured")
		form := cmp.Or(configured, rapid.SampledFrom(nameForms).Draw(t, "form"))
		for name, path := range pathsOf(names, form, configured != "") {
			if !slices.Contains(possiblePaths(name, configured), path) {
				t.Fatalf("%s is read as %s in %v, and by itself as %v", name, path, names, possiblePaths(name, configured))
			}
		}
	})
}

// listOf are the functions of a source that lists these tools, and of one session that lists others.
func listOf(s *Source, names string) []steps.Function {
	var tools []tool
	for name := range strings.FieldsSeq(names) {
		tools = append(tools, tool{name: name})
	}
	return s.functionsOf(s.assignNames(tools))
}

func find(t *testing.T, functions []steps.Function, name string) steps.Function {
	t.Helper()
	i := slices.IndexFunc(functions, func(fn steps.Function) bool { return fn.Name == "net."+name })
	if i < 0 {
		t.Fatalf("there is no %s", name)
	}
	return functions[i]
}

// TestRulesSurviveTheList: a rule that restricts holds whatever else is in the list, and one that grants fits no more than the
// name and the path of the shared list.
func TestRulesSurviveTheList(t *testing.T) {
	t.Parallel()
	admin, hide := steps.TierAdmin, true
	for title, test := range map[string]struct {
		tool, pattern string
		before, after string // lists
	}{
		"a sibling is lost":         {"delete_issues", "net.issue.delete", "get_issue delete_issues", "delete_issues list_users"},
		"a sibling comes":           {"delete_issues", "net.issues.delete", "delete_issues list_users", "get_issue delete_issues"},
		"another would read alike":  {"delete_issues", "net.issue.delete", "get_issue delete_issues", "get_issue delete_issues delete_issue"},
		"the prefix is not shared":  {"slack_delete_message", "*.delete", "slack_delete_message slack_post_message", "slack_delete_message slack_post_message ping"},
		"too few fit at the start":  {"delete_device", "*.device.delete", "delete_device get_device", "reboot device_tree rack status delete_device"},
		"the other form at a start": {"device_delete", "*.device.delete", "device_delete device_get", "list_racks get_rack add_rack open_rack read_rack device_delete"},
	} {
		settings, _ := steps.NewSettings([]steps.Setting{{Pattern: test.pattern, Tier: &admin, Hide: &hide}})
		changed := newSource(Options{Name: "net"})
		for when, functions := range map[string][]steps.Function{
			"before":               listOf(changed, test.before),
			"after list_changed":   listOf(changed, test.after),
			"at the next start":    listOf(newSource(Options{Name: "net"}), test.after),
			"in a session's own":   changed.inSession(listOf(changed, test.after)),
			"where one session is": newSource(Options{Name: "net"}).inSession(listOf(newSource(Options{Name: "net"}), test.before)),
		} {
			if fn, hidden := settings.Apply(find(t, functions, test.tool)); fn.MinimumTier() != steps.TierAdmin || !hidden {
				t.Errorf("%s, %s: %s asks for %s, hidden %t", title, when, fn.Name, fn.MinimumTier(), hidden)
			}
		}
	}
}

// TestGrantsFollowTheSharedList: lists of access fit the whole name and the path of the shared list.
func TestGrantsFollowTheSharedList(t *testing.T) {
	t.Parallel()
	s := newSource(Options{Name: "net"})
	allows := func(fn steps.Function, pattern string) bool {
		return steps.Rights{Tier: steps.TierAdmin, Functions: pattern}.Allows(&fn.Spec)
	}
	s.functions = listOf(s, "get_issue delete_issues list_users")
	own := s.inSession(listOf(s, "delete_issues get_widget list_users"))
	lost := listOf(s, "delete_issues list_users")
	for title, test := range map[string]struct {
		functions []steps.Function
		tool      string
		pattern   string
		want      bool
	}{
		"the shared path":                     {s.functions, "delete_issues", "net.issue.delete", true},
		"a reading that is not chosen":        {s.functions, "delete_issues", "net.issues.delete", false},
		"the whole name":                      {s.functions, "delete_issues", "net.delete_*", true},
		"after the sibling is lost":           {lost, "delete_issues", "net.issue.delete", false},
		"the new path":                        {lost, "delete_issues", "net.issues.delete", true},
		"a session without the sibling":       {own, "delete_issues", "net.issue.delete", true},
		"the session's own path":              {own, "delete_issues", "net.issues.delete", false},
		"a tool of one session by its path":   {own, "get_widget", "net.widget.*", false},
		"a tool of one session by its name":   {own, "get_widget", "net.get_widget", true},
		"a tool that all lists read the same": {own, "list_users", "net.users.list", true},
	} {
		if got := allows(find(t, test.functions, test.tool), test.pattern); got != test.want {
			t.Errorf("%s: %s allows %s: %t", title, test.pattern, test.tool, got)
		}
	}
	for tool, want := range map[string]string{"delete_issues": "net.issues.delete", "get_widget": "net.widget.get", "list_users": ""} {
		if fn := find(t, own, tool); fn.SessionPath != want {
			t.Errorf("%s is shown as %q in the session, want %q", tool, fn.SessionPath, want)
		}
	}
}

// TestRulesOfALink: a tool that one session sees alone is held to the rules that its name alone gives.
func TestRulesOfALink(t *testing.T) {
	t.Parallel()
	server := fullServer()
	server.AddTool(&sdk.Tool{Name: "acme_delete_pages", InputSchema: map[string]any{"type": "object"}}, nil)
	var first atomic.Value // the source's own session, which does not see the tool
	server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			result, err := next(ctx, method, req)
			if list, ok := result.(*sdk.ListToolsResult); ok && err == nil {
				first.CompareAndSwap(nil, req.GetSession().ID())
				if req.GetSession().ID() == first.Load() {
					list.Tools = slices.DeleteFunc(slices.Clone(list.Tools), func(t *sdk.Tool) bool { return t.Name == "acme_delete_pages" })
				}
			}
			return result, err
		}
	})
	s := openSource(t, &Options{Name: "shelf", URL: listen(t, httpServer(server, nil))})
	await(t, s, steps.StateReady)
	l := openSession(t, s, nil)
	functions, err := l.Functions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(functions, func(fn steps.Function) bool { return fn.Name == "shelf.acme_delete_pages" })
	if i < 0 {
		t.Fatal("the session does not see the tool")
	}
	allows := func(patterns string) bool {
		return steps.Rights{Tier: steps.TierAdmin, Functions: patterns}.Allows(&functions[i].Spec)
	}
	if fn := &functions[i]; !slices.ContainsFunc(fn.PossiblePaths, func(path string) bool { return pattern.Fits("*.page.delete", path) }) || allows("*.page.delete") || allows("*.pages.delete") {
		t.Errorf("%+v", fn.Spec)
	}
}
