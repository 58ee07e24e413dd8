package search

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/exprs"
	"github.com/onecall-mcp/onecall/steps/source/files"
	httpsource "github.com/onecall-mcp/onecall/steps/source/http"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
	"github.com/onecall-mcp/onecall/steps/source/openapi"
)

// labelledQuery is a query and the functions that it should find.
type labelledQuery struct {
	query  string
	wanted []string
}

// readLabels reads a section of testdata/queries.txt.
func readLabels(tb testing.TB, section string) (all []labelledQuery) {
	tb.Helper()
	text, err := os.ReadFile("testdata/queries.txt")
	if err != nil {
		tb.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "["+section+"]\n")
	rest, _, _ = strings.Cut(rest, "\n[")
	for line := range strings.Lines(rest) {
		if query, wanted, ok := strings.Cut(strings.TrimSpace(line), " | "); ok {
			all = append(all, labelledQuery{query, strings.Fields(wanted)})
		}
	}
	return all
}

func registry(tb testing.TB, functions ...steps.Function) *steps.Registry {
	tb.Helper()
	r, err := steps.NewRegistry(functions, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func embedded(tb testing.TB) *steps.Registry {
	fs, err := files.New(nil)
	if err != nil {
		tb.Fatal(err)
	}
	web, err := httpsource.New(nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { fs.Close(); web.Close() })
	return registry(tb, slices.Concat(fs.Functions(), web.Functions(), exprs.New().Functions())...)
}

// npm returns the node_modules below the folder that ONECALL_TEST_NPM names.
func npm(tb testing.TB, path string) string {
	tb.Helper()
	folder := os.Getenv("ONECALL_TEST_NPM")
	if folder == "" {
		tb.Skip("ONECALL_TEST_NPM does not name a folder with the packages of testdata/npm")
	}
	path = filepath.Join(folder, "node_modules", filepath.FromSlash(path))
	if _, err := os.Stat(path); err != nil {
		tb.Skipf("not installed: %v", err)
	}
	return path
}

func github(tb testing.TB) *steps.Registry {
	s, err := openapi.New(&openapi.Options{Name: "github", Client: http.DefaultClient,
		Spec: npm(tb, "@octokit/openapi/generated/api.github.com.json")})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return registry(tb, s.Functions()...)
}

// npmServers returns the tools of five MCP servers.
func npmServers(t *testing.T) *steps.Registry {
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is not installed")
	}
	catalog, err := steps.NewCatalog(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { catalog.Close() })
	for name, args := range map[string][]string{
		"filesystem": {"@modelcontextprotocol/server-filesystem/dist/index.js", t.TempDir()},
		"memory":     {"@modelcontextprotocol/server-memory/dist/index.js"},
		"thinking":   {"@modelcontextprotocol/server-sequential-thinking/dist/index.js"},
		"everything": {"@modelcontextprotocol/server-everything/dist/index.js", "stdio"},
		"commander":  {"@wonderwhy-er/desktop-commander/dist/index.js", "--no-onboarding"},
	} {
		args[0] = npm(t, args[0])
		s, err := mcpsource.New(&mcpsource.Options{Name: name, Command: "node", Args: args, Env: map[string]string{"HOME": t.TempDir()},
			StartTimeout: polltest.TooLong})
		if err != nil {
			t.Fatal(err)
		}
		if err := catalog.Add(name, s); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), polltest.TooLong)
	defer cancel()
	return steps.Await(ctx, catalog, nil)
}

// quality measures a search: the share of the wanted functions among the first five, and the mean of 1/rank of the first wanted function.
type quality struct{ recall, rank float64 }

func measure(t *testing.T, queries []labelledQuery, find func(query string) []string) (q quality) {
	for _, l := range queries {
		recall, rank := 0.0, 0.0
		for i, name := range find(l.query) {
			if slices.Contains(l.wanted, name) {
				rank = cmp.Or(rank, 1/float64(i+1))
				if i < 5 {
					recall++
				}
			}
		}
		q.recall += recall / float64(len(l.wanted)) / float64(len(queries))
		q.rank += rank / float64(len(queries))
		if testing.Verbose() && recall == 0 {
			t.Logf("%q does not find %v: %q", l.query, l.wanted, find(l.query)[:min(3, len(find(l.query)))])
		}
	}
	return q
}

// substring is the simplest search: the functions whose name or description contains all words of the query or, if there are none, the most
// words.
func substring(r *steps.Registry, query string) []string {
	words, maximum := strings.Fields(strings.ToLower(query)), 1
	var names []string
	for _, entry := range r.All() {
		text, matched := strings.ToLower(entry.Spec().Name+" "+entry.Spec().Description), 0
		for _, word := range words {
			if strings.Contains(text, word) {
				matched++
			}
		}
		if matched > maximum {
			names, maximum = nil, matched
		}
		if matched == maximum {
			names = append(names, entry.Spec().Name)
		}
	}
	return names
}

// TestQuality checks the results for the labelled queries, and compares them with a search for substrings.
func TestQuality(t *testing.T) {
	t.Parallel()
	for section, c := range map[string]struct {
		registry func(t *testing.T) *steps.Registry
		minimum  quality
	}{
		"embedded": {func(t *testing.T) *steps.Registry { return embedded(t) }, quality{0.92, 0.76}},
		"github":   {func(t *testing.T) *steps.Registry { return github(t) }, quality{0.82, 0.74}},
		"npm":      {npmServers, quality{0.96, 0.88}},
	} {
		t.Run(section, func(t *testing.T) {
			t.Parallel()
			r, queries := c.registry(t), readLabels(t, section)
			for _, l := range queries {
				for _, name := range l.wanted {
					if !r.Has(name) {
						t.Errorf("the label of %q names %s, which is not a function", l.query, name)
					}
				}
			}
			x := New(r)
			got := measure(t, queries, func(query string) []string { return names(x.Find(query, nil, 20)) })
			baseline := measure(t, queries, func(query string) []string { return substring(r, query) })
			var halves [2]quality
			for i := range halves {
				var half []labelledQuery
				for j := i; j < len(queries); j += 2 {
					half = append(half, queries[j])
				}
				halves[i] = measure(t, half, func(query string) []string { return names(x.Find(query, nil, 20)) })
			}
			t.Logf("%d functions, %d queries: %.3f; substrings: %.3f; tuned half %.3f, other half %.3f", r.Len(), len(queries), got, baseline,
				halves[0], halves[1])
			if len(queries) < 15 || got.recall < c.minimum.recall || got.rank < c.minimum.rank {
				t.Errorf("%d queries: got %.3f, want at least %.3f", len(queries), got, c.minimum)
			}
			if got.recall < baseline.recall || got.rank < baseline.rank {
				t.Errorf("got %.3f, want at least %.3f, as a search for substrings", got, baseline)
			}
		})
	}
}

func names(hits []Hit) (names []string) {
	for _, hit := range hits {
		names = append(names, hit.Entry.Spec().Name)
	}
	return names
}
