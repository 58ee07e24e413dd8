package console_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/console"
)

var rowID = regexp.MustCompile(`<tr><td><a href="/console/runs/(run_[^"]+)">`)

// rowsOf returns the ids of the runs that a page lists.
func rowsOf(page string) (ids []string) {
	for _, match := range rowID.FindAllStringSubmatch(page, -1) {
		ids = append(ids, match[1])
	}
	return ids
}

// begin runs a chain of a viewer, and returns its run's id.
func (s *site) begin(t *testing.T, caller, name, step string) string {
	t.Helper()
	request := fmt.Sprintf(`{"name":%q,"steps":[%s]}`, name, step)
	s.engine.Run(t.Context(), []byte(request), &chain.Caller{ID: caller})
	rows, err := s.journal.List(t.Context(), &journal.Filter{Limit: 1})
	if err != nil || len(rows) == 0 {
		t.Fatalf("%s: got %d runs and error %v", request, len(rows), err)
	}
	return rows[0].ID
}

// TestRunsPages: pages of 50 follow each other, each run once, newest first, whatever is filtered for.
func TestRunsPages(t *testing.T) {
	t.Parallel()
	all := person("all")
	all.All = true
	s := newSite(t, map[string]*console.Viewer{"all": all})
	var want []string
	for n := range 120 {
		want = append(want, s.begin(t, "token:ann", fmt.Sprint("chain-", n%2), `{"expr":"6*7"}`))
	}
	b := s.browser(t, "all")
	for _, query := range []string{"", "?chain=chain-1", "?status=ok&caller=token%3Aann"} {
		var got []string
		seen := map[string]bool{}
		for at, pages := query, 0; pages < 4; pages++ {
			status, page := b.get(at)
			ids := rowsOf(page)
			if status != http.StatusOK || len(ids) == 0 || len(ids) > 50 {
				t.Fatalf("%s: status %d, %d runs", at, status, len(ids))
			}
			for _, id := range ids {
				if seen[id] {
					t.Errorf("%s: the run %s is listed twice", at, id)
				}
				seen[id] = true
			}
			got = append(got, ids...)
			next := regexp.MustCompile(`href="/console/([^"]+)">earlier`).FindStringSubmatch(page)
			if next == nil {
				break
			}
			at = html.UnescapeString(next[1])
		}
		step, count := 1, len(want)
		if strings.Contains(query, "chain-1") {
			step, count = 2, len(want)/2
		}
		if len(got) != count || got[0] != want[len(want)-1] || step == 1 && got[len(got)-1] != want[0] {
			t.Errorf("%q lists %d runs, want %d", query, len(got), count)
		}
	}
}

// TestRunsFilters: filters, the jump to a run by the beginning of its id, and the command that lists the same.
func TestRunsFilters(t *testing.T) {
	t.Parallel()
	all := person("all")
	all.All = true
	s := newSite(t, map[string]*console.Viewer{"all": all, "bob": person("token:bob")})
	good, bad := s.begin(t, "token:ann", "good", `{"expr":"6*7"}`), s.begin(t, "token:ann", "it's bad", `{"expr":"'x'"},{"expr":"int($0)"}`)
	b := s.browser(t, "all")
	now := time.Now().UTC()
	for query, want := range map[string][]string{
		"":                 {bad, good},
		"status=failed":    {bad},
		"status=waiting":   {},
		"chain=good":       {good},
		"caller=token:bob": {},
		"since=" + now.Add(-time.Hour).Format("2006-01-02T15:04"):    {bad, good},
		"since=" + now.Add(time.Hour).Format("2006-01-02T15:04"):     {},
		"until=" + now.Add(-time.Hour).Format("2006-01-02T15:04:05"): {},
		"parent=" + good: {},
	} {
		_, page := b.get("?" + query)
		if got := rowsOf(page); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q lists %q, want %q", query, got, want)
		}
	}
	_, page := b.get("?" + url.Values{"chain": {"it's bad"}, "status": {"failed"}}.Encode())
	if want := `onecall runs --status failed --chain &#39;it&#39;\&#39;&#39;s bad&#39;`; !strings.Contains(page, want) {
		t.Errorf("the page lacks the command %s: %s", want, page)
	}
	for _, name := range []string{good, strings.TrimPrefix(good, "run_"), good[:len(good)-3]} {
		r, err := b.Get(b.site.URL + console.Path + "?run=" + name)
		if status, page := b.read(r, err); status != http.StatusOK || r.Request.URL.Path != console.Path+"runs/"+good {
			t.Errorf("looking for %s leads to %s: %s", name, r.Request.URL, page)
		}
	}
	for query, code := range map[string]fault.Code{"run=run_nothing00": fault.TokenExpired, "run=run_t": fault.BadRequest, "status=late": fault.BadRequest,
		"since=yesterday": fault.BadRequest, "before=x": fault.BadRequest, "until=2026-13-01T00:00": fault.BadRequest} {
		if status, page := b.get("?" + query); status != code.HTTP() || !strings.Contains(page, "Not shown") || strings.Contains(page, string(code)) {
			t.Errorf("%s: status %d, want %s: %s", query, status, code, page)
		}
	}
	if status, page := s.browser(t, "bob").get("?run=" + good); status == http.StatusOK || strings.Contains(page, "good") {
		t.Errorf("bob finds ann's run: %s", page)
	}
}
