package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/internal/console"
	"github.com/onecall-mcp/onecall/steps"
)

// TestCompare: a run is compared with the one before it of its chain, or with one that is named; nobody compares another's runs.
func TestCompare(t *testing.T) {
	t.Parallel()
	lowered := actor("token:ann")
	lowered.Rights = steps.Rights{Tier: steps.TierAdmin, Functions: "shop.get"}
	s := newShop(t, map[string]*console.Viewer{"ann": person("token:ann"), "bob": person("token:bob"), "lowered": lowered}, withValues)
	chain := func(note, last string) string {
		return `{"name":"pair","steps":[{"fn":"shop.add","forEach":"1..3","args":{"k":"$item"}},{"fn":"shop.get","args":{"k":5,"note":"` + note + `"}}` + last + `]}`
	}
	first, _ := s.run(t, "token:ann", chain("<b>one", ""))
	second, _ := s.run(t, "token:ann", chain("two", `,{"fn":"shop.send","args":{"k":6}}`))
	foreign, _ := s.run(t, "token:bob", chain("one", ""))
	ann, bob := s.browser(t, "ann"), s.browser(t, "bob")
	_, page := ann.get("runs/" + second + "/compare")
	wantText(t, textOf(page), first, "They differ", "0[*] shop.add ×3 applied", "~ 1 shop.get ok", "+ 2 shop.send", `args/note "<b>one" "two"`)
	wantText(t, page, "!<b>one", "!"+foreign)
	_, page = ann.get("runs/" + second + "/compare?with=" + second)
	wantText(t, textOf(page), "Both did the same")
	_, page = ann.get("runs/" + first + "/compare")
	wantText(t, textOf(page), "No earlier run of the same chain is kept")
	for path, b := range map[string]*browser{"runs/" + second + "/compare": bob, "runs/" + foreign + "/compare?with=" + second: bob,
		"runs/" + second + "/compare?with=" + foreign: ann} {
		if status, page := b.get(path); status == http.StatusOK || strings.Contains(page, "pair") {
			t.Errorf("%s: status %d: %s", path, status, page)
		}
	}
	_, page = s.browser(t, "lowered").get("runs/" + second + "/compare")
	wantText(t, textOf(page), "a function that you may not use", "!shop.add", "!shop.send")
}
