package telemetry_test

import (
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/telemetry"
	"github.com/onecall-mcp/onecall/steps"
)

// TestAlerts checks that the example rules name existing metrics, labels and codes.
func TestAlerts(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	b := start(t, slog.LevelError, telemetry.Options{Dropped: func() int { return 0 }, Sources: func() []steps.SourceInfo {
		return []steps.SourceInfo{{Name: "files", Status: steps.Status{State: steps.StateReady}}}
	}})
	b.run(t.Context(), mixed)
	b.Refused("token")
	b.Stored(t.Context(), "results", "get", 0, nil)
	page, codes := page(t, b), map[string]bool{}
	for _, code := range fault.Codes() {
		codes[string(code)] = true
	}
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) < 5 {
		t.Fatalf("%d groups, want 1 with at least 5 rules", len(file.Groups))
	}
	operate, err := os.ReadFile("../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(operate), "\n## 9. ")
	for _, rule := range file.Groups[0].Rules {
		if !strings.Contains(section, "`"+rule.Alert+"`") {
			t.Errorf("section 9 of docs/operate.md lacks the alert %s", rule.Alert)
		}
		if rule.Labels["severity"] == "page" && strings.Contains(rule.Expr, "unavailable") &&
			strings.HasSuffix(strings.TrimSpace(rule.Expr), "> 0") {
			t.Errorf("%s: a single failure raises a page: %s", rule.Alert, rule.Expr)
		}
		if rule.Labels["severity"] != "page" && rule.Labels["severity"] != "ticket" || rule.Annotations["summary"] == "" ||
			strings.Count(rule.Expr, "(") != strings.Count(rule.Expr, ")") {
			t.Errorf("got rule %+v, want page or ticket, a summary and balanced parentheses", rule)
		}
		metric := ""
		for _, metric = range regexp.MustCompile(`onecall_\w+`).FindAllString(rule.Expr, -1) {
			if !strings.Contains(page, "\n"+metric+"{") && !strings.Contains(page, "\n"+metric+" ") {
				t.Errorf("%s: no such metric: %s", rule.Alert, metric)
			}
		}
		for _, by := range regexp.MustCompile(`by \(([\w, ]+)\)`).FindAllStringSubmatch(rule.Expr, -1) {
			for label := range strings.SplitSeq(by[1], ", ") {
				if label != "instance" && !regexp.MustCompile(`(?m)^`+metric+`\{.*\b`+label+`="`).MatchString(page) {
					t.Errorf("%s: %s has no label %s", rule.Alert, metric, label)
				}
			}
		}
		for _, match := range regexp.MustCompile(`code=~?"([^"]+)"`).FindAllStringSubmatch(rule.Expr, -1) {
			for code := range strings.SplitSeq(match[1], "|") {
				if !codes[code] {
					t.Errorf("%s: no such code: %s", rule.Alert, code)
				}
				if code == string(fault.Timeout) && rule.Labels["severity"] == "page" {
					t.Errorf("%s: the timeout of a caller raises a page", rule.Alert)
				}
			}
		}
	}
}
