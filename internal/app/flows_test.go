package app

import (
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
)

// suspectsOf returns the places and messages of what is suspect in a configuration, as openWith opens it.
func suspectsOf(t *testing.T, text string) []string {
	t.Helper()
	a, _ := openWith(t, text, "search", "send")
	var got []string
	for _, f := range a.Suspects() {
		got = append(got, f.At+" "+f.Message+" "+strings.Join(f.Nearest, ","))
	}
	return got
}

// TestIdleFlows: a rule that no function can break is told, unless one of a source that is down or disabled may have its label or role.
func TestIdleFlows(t *testing.T) {
	t.Parallel()
	const rule = "\nflows: {rules: [{from: outside, to: place, do: deny}]}\n"
	for name, test := range map[string]struct {
		text string
		want []string // the places
	}{
		"here":                    {`functions: {fs.cat: {gives: [outside]}, fs.grep: {takes: {pattern: place}}}` + rule, nil},
		"absent":                  {`{mcpServers: {off: {command: x, disabled: true}}, functions: {off.*: {gives: [outside], takes: {to: place}}}`, nil},
		"partly":                  {`{mcpServers: {off: {command: x, disabled: true}}, functions: {off.*: {gives: [outside]}, fs.car: {takes: {to: place}}}`, []string{"/flows/rules/0/to"}},
		"of no source":            {`{functions: {of.*: {gives: [outside]}, fs.cat: {takes: {path: place}}}`, []string{"/flows/rules/0/from"}},
		"presets of what is down": {`{mcpServers: {off: {command: /nowhere, labels: mail}}`, nil},
	} {
		text := test.text
		if body, ok := strings.CutPrefix(text, "{"); ok {
			text = "{" + body + ", flows: {rules: [{from: outside, to: place, do: deny}]}}"
		}
		if name == "presets of what is down" {
			text = strings.ReplaceAll(strings.ReplaceAll(text, "outside", "untrusted"), "place", "recipient")
		}
		var got []string
		for _, suspect := range suspectsOf(t, text) {
			if at, _, _ := strings.Cut(suspect, " "); strings.HasPrefix(at, "/flows") {
				got = append(got, at)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestMisspelledLabels: what guards nothing since it is misspelled is told with the nearest name: a label or a role that no rule names, beside
// others, and the name of a source in a pattern.
func TestMisspelledLabels(t *testing.T) {
	t.Parallel()
	got := suspectsOf(t, `
mcpServers: {mailbox: {url: SERVER}}
functions:
  mailbox.search: {gives: [untrusted, privat]}
  fs.cat: {gives: [private]}
  mailbox.send: {takes: {to: recipient, cc: recipeint}}
  "maibox.*": {gives: [private]}
flows: {rules: [{from: untrusted, to: recipient, do: deny}, {from: private, to: recipient, do: deny}]}
`)
	for i, want := range []string{
		"/functions/mailbox.search/gives no flow rule is about the label privat private",
		"/functions/mailbox.send/takes no flow rule leads to the role recipeint recipient",
		`/functions/maibox.* "maibox.*" matches no function mailbox.*`,
	} {
		if i >= len(got) || got[i] != want {
			t.Errorf("%q, want at %d %q", got, i, want)
		}
	}
	if len(got) != 3 {
		t.Errorf("%q, want 3", got)
	}
}

// TestPresetsOfTools: what presets say of tools of well-known servers.
func TestPresetsOfTools(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ preset, tool, gives, takes string }{
		{"files", "read_text_file", `["private"]`, ""},
		{"files", "get_file_info", `["private"]`, ""},
		{"files", "edit_file", `["private"]`, `{"path":"destination","destination":"destination","source":"destination","*":"content"}`},
		{"files", "move_file", "", `{"path":"destination","destination":"destination","source":"destination","*":"content"}`},
		{"mail", "search_emails", `["untrusted","private"]`, ""},
		{"mail", "list_filters", `["untrusted","private"]`, `"action":"recipient"`},
		{"mail", "create_filter", "", `"action":"recipient"`},
		{"mail", "create_inbox_rule", "", `"actions":"recipient"`},
		{"mail", "create_forwarding_address", "", `"forwardingEmail":"recipient"`},
		{"mail", "forward_email", "", `"to":"recipient"`},
	} {
		a, _ := openWith(t, "mcpServers: {s: {url: SERVER, labels: "+test.preset+"}}", test.tool)
		entry, err := a.Catalog.Registry().Resolve("s." + test.tool)
		if err != nil {
			t.Fatal(err)
		}
		gives, takes := string(steps.GivesJSON(entry.Spec().Gives)), string(steps.TakesJSON(entry.Spec().Takes))
		if gives != test.gives || !strings.Contains(takes, test.takes) || (takes == "") != (test.takes == "") {
			t.Errorf("%s %s gives %s and takes %s, want %s and %s", test.preset, test.tool, gives, takes, test.gives, test.takes)
		}
	}
}
