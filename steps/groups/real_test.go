package groups

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/openapi"
)

// github returns the registry of GitHub's REST API.
func github(tb testing.TB) *steps.Registry {
	folder := os.Getenv("ONECALL_TEST_NPM")
	if folder == "" {
		tb.Skip("ONECALL_TEST_NPM is not set: it names a folder after `npm install --ignore-scripts @octokit/openapi`")
	}
	document := filepath.Join(folder, "node_modules/@octokit/openapi/generated/api.github.com.json")
	if _, err := os.Stat(document); err != nil {
		tb.Skip("ONECALL_TEST_NPM has no @octokit/openapi: ", err)
	}
	source, err := openapi.New(&openapi.Options{Name: "github", Spec: document, Client: http.DefaultClient})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = source.Close() })
	registry, err := steps.NewRegistry(source.Functions(), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return registry
}

// githubGroups are thirteen groups that together contain all of GitHub's operations.
var githubGroups = []Group{
	{Name: "repos", Resources: []string{"repo"}},
	{Name: "issues", Resources: []string{"repo.issue", "repo.label", "repo.milestone", "repo.assignee", "issue"}},
	{Name: "pulls", Resources: []string{"repo.pull"}},
	{Name: "actions", Resources: []string{"*.action", "repo.environment", "actions"}},
	{Name: "git", Resources: []string{"repo.git", "repo.branch", "repo.commit", "repo.tag", "repo.compare", "repo.content"}},
	{Name: "orgs", Resources: []string{"org", "orgs", "organization"}},
	{Name: "users", Resources: []string{"user", "email", "key", "gpg_key", "block", "follower", "social_account"}},
	{Name: "security", Resources: []string{"*.code_scanning", "*.secret_scanning", "*.dependabot", "*.security_advisory", "advisory"}},
	{Name: "enterprise", Resources: []string{"enterprise"}},
	{Name: "teams", Resources: []string{"team", "org.team"}},
	{Name: "gists", Resources: []string{"gist"}},
	{Name: "apps", Resources: []string{"app", "application", "installation", "marketplace_*"}},
	{Name: "misc", Resources: []string{"*"}},
}

func budgetCounter(tb testing.TB) budget.Counter {
	c, err := budget.NewCounter("", 0)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func counter(tb testing.TB) func([]byte) int {
	c := budgetCounter(tb)
	return func(text []byte) int { return c.Count(text, -1) }
}

// encode returns a tool as a list of tools contains it.
func encode(d *Dispatcher, limit int, count func([]byte) int) []byte {
	text := rawjson.AppendQuote([]byte(`{"description":`), d.Description(limit, count))
	text = append(append(text, `,"inputSchema":`...), d.InputSchema()...)
	return append(rawjson.AppendQuote(append(text, `,"name":`...), d.Name), "},"...)
}

// manyFunctions returns a registry of 10,000 functions.
func manyFunctions(b *testing.B) *steps.Registry {
	var specs []steps.Spec
	for i := range 10_000 {
		specs = append(specs, spec(fmt.Sprintf("source%d.resource_%d.part.action_%d", i%10, i%250, i),
			`{"type":"object","properties":{"id":{"type":"integer"}}}`))
	}
	return registryOf(b, specs...)
}

func BenchmarkArrange(b *testing.B) {
	var groups []Group
	for i := range 13 {
		groups = append(groups, Group{Name: fmt.Sprint("g", i), Resources: []string{fmt.Sprint("resource_", i), fmt.Sprintf("*_%d3", i)}})
	}
	view := manyFunctions(b)
	d, _ := New(&Config{Groups: groups, Autodispatch: true})
	b.ReportAllocs()
	for b.Loop() {
		if a := d.Arrange(view); len(a.Dispatchers) < 13 {
			b.Fatalf("%d dispatchers, want at least 13", len(a.Dispatchers))
		}
	}
}

func BenchmarkRead(b *testing.B) {
	d, _ := New(&Config{Groups: []Group{{Name: "g", Resources: []string{"*"}}}})
	one := d.Arrange(manyFunctions(b)).Dispatchers[0]
	call := []byte(`{"resource":"source1.resource_1.part","action":"action_1001","params":{"id":7}}`)
	one.Read(call) // the index is made at the first call
	b.ReportAllocs()
	for b.Loop() {
		if r, faults := one.Read(call); r == nil {
			b.Fatal(faults)
		}
	}
}

// BenchmarkReadHuge reads a call whose resource is longer than any name.
func BenchmarkReadHuge(b *testing.B) {
	d, _ := New(&Config{Groups: []Group{{Name: "g", Resources: []string{"*"}}}})
	one := d.Arrange(manyFunctions(b)).Dispatchers[0]
	for name, call := range map[string]string{
		"resource": `{"resource":"` + strings.Repeat("a", 1<<20) + `","action":"list"}`,
		"action":   `{"resource":"source1.resource_1","action":"` + strings.Repeat("a.", 1<<19) + `list"}`,
		"unknown":  `{"resource":"zzz","action":"list"}`,
	} {
		b.Run(name, func(b *testing.B) {
			one.Read([]byte(`{"action":"list"}`))
			b.ReportAllocs()
			for b.Loop() {
				if r, faults := one.Read([]byte(call)); r != nil || len(faults) != 1 {
					b.Fatalf("got %+v, %v; want one fault", r, faults)
				}
			}
		})
	}
}

func BenchmarkHelp(b *testing.B) {
	view, counter := github(b), budgetCounter(b)
	count := func(text []byte) int { return counter.Count(text, 2000) }
	d, _ := New(&Config{Groups: []Group{{Name: "all", Resources: []string{"*"}}}})
	one := d.Arrange(view).Dispatchers[0]
	b.ReportAllocs()
	for b.Loop() {
		if answer, _ := one.Help(nil, &HelpOptions{Limit: 2000, Count: count}); len(answer) < 100 {
			b.Fatalf("got %s, want at least 100 bytes", answer)
		}
	}
}

func BenchmarkFlatNames(b *testing.B) {
	entries := manyFunctions(b).All()
	b.ReportAllocs()
	for b.Loop() {
		if names := FlatNames(entries, nil); len(names) != len(entries) {
			b.Fatalf("%d names, want %d", len(names), len(entries))
		}
	}
}
