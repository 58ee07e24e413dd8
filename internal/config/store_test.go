package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// TestStoresNotShown: an invalid store may be a URL with a password anywhere in it. Of such a value, the fault shows only the scheme, and
// its line nothing, even if the key or the YAML is wrong.
func TestStoresNotShown(t *testing.T) {
	t.Parallel()
	for _, store := range []string{
		"redis:/usr-name:qq-hidden-1@h", "rediss//usr-name:qq-hidden-1@h", "Redis://usr-name:qq-hidden-1@h",
		" redis://usr-name:qq-hidden-1@h", "redis:usr-name:qq-hidden-1@h",
		"redis//:qq-hidden-1@h", "usr-name:qq-hidden-1@h", "qq-hidden-1@h", "qq-hidden-1", "mysql://usr-name:qq/hidden-1@h",
		"redis ://usr-name:qq#hidden-1@h", "redis:/usr-name:qq?hidden-1@h",
		"redis://usr-name:qq-#hidden-1@h", "redis://usr-name:qq/hidden-1@h:1", "rediss://qq-hidden-1@[", "redis:\\\\usr-name:qq-hidden-1@h",
		"x ${TOKEN} redis://:qq-hidden-1@h",
	} {
		for _, key := range []string{"results: {store: %s}", "results: {stor: %s}", "results:\n  store: %s\n  ttl: 5", "results: {store: [%s]}",
			"results: {store: {url: %s}}", "x: &s %s\nresults: {store: *s}", "results: {store: %s"} {
			written := "'" + store + "'"
			if strings.Contains(key, "stor:") && !nearlyStore.MatchString(store) || strings.Contains(key, "&s") && strings.Contains(store, "\\") {
				continue // what it is cannot be told
			}
			for _, name := range []string{"onecall.yaml", "onecall.json"} {
				text := fmt.Sprintf(key, written)
				shown := linesOfFaults(t, name, text)
				if strings.Contains(shown, "hidden-1") || strings.Contains(shown, "usr-name") || shown == "" {
					t.Errorf("%s\nis shown as\n%s", text, shown)
				}
			}
		}
	}
	for text, want := range map[string]string{
		"results: {store: 'redis:/u:p@h'}":  `unknown store redis:/…: use memory or disk or redis://…`,
		"results: {store: 'mysql://u:p@h'}": `unknown store mysql:/…: use memory or disk or redis://…`,
		"results: {store: ' memory'}":       `unknown store, with a blank before or after it: use memory or disk or redis://…`,
		"results: {store: disc}":            `unknown store: use memory or disk or redis://…`,
		"results: {store: disk, ttl: 5}":    "results: {store: disk, ttl: 5}",
	} {
		if shown := linesOfFaults(t, "onecall.yaml", text); !strings.Contains(shown, want) {
			t.Errorf("%s\nis shown as\n%s", text, shown)
		}
	}
}

// TestStoresByVariables: a store may be a variable. Its value is validated like a literal one and never shown.
func TestStoresByVariables(t *testing.T) {
	t.Parallel()
	environment := map[string]string{"GOOD": "rediss://usr-name:qq-hidden-1@h:6379/0", "BAD": "redis:/usr-name:qq-hidden-1@h",
		"WORD": "disk", "HOST": "h", "BLANK": "redis://h\n "}
	for _, test := range []struct {
		written, want string // "": a fault
	}{
		{"${GOOD}", environment["GOOD"]},
		{"redis://${HOST}:1/0", "redis://h:1/0"},
		{"${WORD}", "disk"},
		{"${NONE:-memory}", "memory"},
		{"${BAD}", ""},
		{"${NONE}", ""},
		{"${HOST}", ""},
	} {
		text := fmt.Sprintf("results: {store: \"%s\"}", test.written)
		c, faults := decodeIn(environment, "onecall.yaml", text)
		if store := c.Results.Store; test.want != "" {
			if len(faults) > 0 || store == nil || *store != test.want {
				t.Errorf("%s: %v", text, faults)
			}
			continue
		}
		if len(faults) != 1 || faults[0].Code != fault.BadRequest || faults[0].At != "/results/store" || faults[0].Line != 1 {
			t.Errorf("%s: %v", text, faults)
		}
		if shown := shownFaults(c, faults); strings.Contains(shown, "hidden-1") || strings.Contains(shown, "usr-name") ||
			!strings.Contains(shown, test.written) && test.written[0] == '$' {
			t.Errorf("%s\nis shown as\n%s", text, shown)
		}
	}
	c := mustDecode(t, `results: {store: "redis://:${TOKEN}@h"}`)
	if len(c.Secrets) != 1 || c.Secrets[0] != testEnvironment["TOKEN"] {
		t.Errorf("secrets %q", c.Secrets)
	}
}
