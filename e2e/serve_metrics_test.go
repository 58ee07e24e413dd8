//go:build e2e && unix

package e2e

import (
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/internal/sqldb/postgrestest"
)

// TestMetricsOfAlerts checks that a server with PostgreSQL has every metric of the alerting rules, and counts the operations of
// both stores. When PostgreSQL is killed it counts and logs failures, and callers see no address.
func TestMetricsOfAlerts(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile("../internal/telemetry/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	database := postgrestest.Start(t)
	s := serveHTTP(t, clitest.Write(t, t.TempDir(), "onecall.yaml", inDatabase(database.Database(t))+"mcpServers: {gone: {command: no-such-program}}\n"),
		"--metrics", "127.0.0.1:0")
	w := anyClient(t, s.url, statefulVersion)
	token := makeProbe(t, w)
	if text, failed := pageOf(t, w, token, 1); failed {
		t.Fatalf("page 1: got %s, want it without an error", text)
	}
	forged := &rawClient{url: s.url, client: httpClient(t)}
	if r := forged.send(t, http.MethodPost, []byte(`{}`),
		func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }); r.status != http.StatusForbidden {
		t.Fatalf("a forged origin: status %d, want 403: %s", r.status, r.body)
	}
	_, page := s.statusOf(t, "/metrics", "")
	for _, metric := range regexp.MustCompile(`onecall_\w+`).FindAllString(string(rules), -1) {
		if !regexp.MustCompile(`(?m)^` + metric + `(_count)?[{ ]`).MatchString(page) {
			t.Errorf("the metrics lack %s", metric)
		}
	}
	for _, operation := range []string{`code="ok",operation="put",store="results"`, `code="ok",operation="get",store="results"`} {
		if !strings.Contains(page, "onecall_store_operations_total{"+operation+"}") {
			t.Errorf("the metrics lack the operation %s", operation)
		}
	}
	database.Stop(syscall.SIGKILL)
	text, failed := pageOf(t, stateless(t, s.url), token, 2)
	if !failed || gjson.Get(text, "error.code").Str != "unavailable" || strings.Contains(text, database.Folder()) {
		t.Errorf("a page without PostgreSQL: %s, want unavailable", text)
	}
	waitForLog(t, s.stderr, `msg="a store failed" store=results`, 1)
	_, page = s.statusOf(t, "/metrics", "")
	if !regexp.MustCompile(`onecall_store_operations_total\{code="unavailable",operation="\w+",store="results"\}`).MatchString(page) {
		t.Error("the metrics lack the failure, which has the code unavailable")
	}
	if log := s.stderr.String(); !strings.Contains(log, database.Folder()+" does not answer") ||
		strings.Count(log, `msg="a store failed" store=results`) > 1+int(clitest.TooLong/(10*time.Second)) {
		t.Errorf("the log lacks the reason of the failure, or has too many failures: %s", log)
	}
}

// TestStoreCheckedAtStart checks that a server with an unusable store starts, and logs the reason before the first request.
func TestStoreCheckedAtStart(t *testing.T) {
	t.Parallel()
	right, err := url.Parse(postgrestest.Start(t).Database(t))
	if err != nil {
		t.Fatal(err)
	}
	wrong := *right
	wrong.User = url.UserPassword("onecall", "quite-wrong")
	s := serveHTTP(t, clitest.Write(t, t.TempDir(), "onecall.yaml", inDatabase(wrong.String())))
	polltest.Until(t, "the failure is logged", func() bool {
		return regexp.MustCompile(`level=ERROR msg="a store failed" store=results .*refuses the login: check the user and password`).MatchString(s.stderr.String())
	}, s.stderr)
	if log := s.stderr.String(); strings.Contains(log, "quite-wrong") {
		t.Errorf("the log shows the password: %s", log)
	}
}
