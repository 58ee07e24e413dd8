package console_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/console"
	"github.com/onecall-mcp/onecall/steps"
)

// TestSources: the console of a server shows the states of the sources that the viewer may know, and causes only to those who see all.
func TestSources(t *testing.T) {
	t.Parallel()
	admin := person("admin")
	admin.All = true
	s := newSite(t, map[string]*console.Viewer{"ann": reader("token:ann"), "admin": admin})
	s.secretStore(t)
	secret := returning("vault.open", `1`)
	secret.Tier = steps.TierAdmin
	s.add(t, "vault", ready, secret)
	down := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
	s.add(t, "wiki", steps.Status{State: steps.StateRetrying, Error: fault.New(fault.Denied, "the server <wiki> asks for a login"),
		Since: down, Retry: down.Add(time.Minute)})
	boss := s.browser(t, "admin")
	if status, page := boss.get("sources"); status != fault.NotSupported.HTTP() || strings.Contains(page, ">Sources</a>") {
		t.Errorf("sources of a console that serves nobody: status %d: %s", status, page)
	}
	s.backend.Serves = true
	_, page := boss.get("sources")
	contains(t, page, ">Sources</a>", "the server &lt;wiki&gt; asks for a login", "2026-11-27 10:00:00", "2026-11-27 10:01:00",
		"onecall auth login wiki", "source=vault", `<td class="n">2</td>`, "", "<wiki>")
	_, page = s.browser(t, "ann").get("sources")
	contains(t, page, "source=wiki", "source=store", `<td class="n">1</td>`, "", "vault", "auth login", `<td class="n">2</td>`)
}

// TestRestartSource: those who act and are administrators of all functions of a source restart it from its page, and nobody else.
func TestRestartSource(t *testing.T) {
	t.Parallel()
	limited := func(functions string) *console.Viewer {
		v := actor("token:" + functions)
		v.Functions = functions
		return v
	}
	boss, looks := actor("admin"), person("looks")
	boss.All, looks.All = true, true
	s := newSite(t, map[string]*console.Viewer{"boss": boss, "looks": looks, "low": doer("low", steps.TierReadWrite), "store": limited("store.*"),
		"list": limited("store.list"), "wiki": limited("wiki.*")})
	s.secretStore(t)
	s.add(t, "wiki", steps.Status{State: steps.StateRetrying, Error: fault.New(fault.Unavailable, "it is away")})
	s.add(t, "notes", ready, returning("notes.page", `1`)) // is no server
	var restarted []string
	s.calls.Restart = func(source string) func() int {
		if source != "store" && source != "wiki" {
			return nil
		}
		return func() int {
			restarted = append(restarted, source)
			return 1
		}
	}
	s.backend.Serves = true
	for viewer, may := range map[string][]string{"boss": {"store", "wiki"}, "looks": nil, "low": nil, "store": {"store"}, "list": nil, "wiki": nil} {
		b := s.browser(t, viewer)
		_, page := b.get("sources")
		if got := strings.Contains(page, "Calls under way end, those of all callers."); got != (len(may) > 0) {
			t.Errorf("the page of %s says what a restart ends: %t", viewer, got)
		}
		_, form := b.get("playground") // has the key of the viewer's forms
		for _, source := range []string{"store", "wiki", "notes", "vault", "a b/c"} {
			want := slices.Contains(may, source)
			if button := `action="/console/sources/` + source + `"`; strings.Contains(page, button) != want {
				t.Errorf("the page of %s has a button that restarts %s: %t, want %t", viewer, source, !want, want)
			}
			restarted = nil
			status, answer := b.send(form, "sources/"+url.PathEscape(source), nil)
			if got := len(restarted) == 1 && restarted[0] == source; got != want || !want && (status != fault.Denied.HTTP() || len(restarted) > 0) {
				t.Errorf("%s restarts %s: status %d, restarted %q: %s", viewer, source, status, restarted, answer)
			}
		}
	}
	s.backend.Serves = false
	b := s.browser(t, "boss")
	_, form := b.get("playground")
	if status, page := b.send(form, "sources/store", nil); status != fault.NotSupported.HTTP() {
		t.Errorf("a console that serves nobody: status %d: %s", status, page)
	}
}
