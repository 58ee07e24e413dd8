package mcp_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// unwrapped returns a registry unchanged, and allFunctions accepts all functions.
func unwrapped(r *steps.Registry) (*steps.Registry, error) { return r, nil }
func allFunctions(*steps.Spec) bool                        { return true }

// rungsOf returns the rungs of a ladder: functions that a reader may use, with others between them.
func rungsOf(all []*matrixFunction) (names []string) {
	pick := func(source string, effect steps.Effect, tier steps.Tier, listed bool) {
		for _, m := range all {
			if m.source() == source && m.Spec.Effect == effect && m.Spec.Tier == tier && m.listed == listed && m.oldName == "" &&
				!slices.Contains(names, m.Spec.Name) {
				names = append(names, m.Spec.Name)
				return
			}
		}
	}
	pick(readsSource, steps.Read, steps.TierDefault, true)
	pick(mixedSource, steps.Read, steps.TierDefault, false)
	pick(mixedSource, steps.Read, steps.TierAdmin, false)
	pick(mixedSource, steps.Write, steps.TierDefault, false)
	pick(mixedSource, steps.Read, steps.TierRead, false)
	pick(readsSource, steps.Read, steps.TierDefault, true)
	pick(mixedSource, steps.Write, steps.TierRead, false)
	return names
}

// samplesOf returns functions that a source whose functions are unknown might have: some that read, with names that match patterns.
func samplesOf(source string) (all []*steps.Spec) {
	for _, rest := range []string{"x", "part.x", "open", "crate.open"} {
		spec := &steps.Spec{Name: source + "." + rest, Effect: steps.Read}
		if source == brokenClosed {
			spec.Tier = steps.TierAdmin
		}
		all = append(all, spec)
	}
	return all
}

// rightsOfMatrix returns the rights that the matrix tries: each tier, and lists of functions.
func rightsOfMatrix() map[string]steps.Caller {
	return map[string]steps.Caller{
		"read":              matrixCaller("a", steps.TierRead, ""),
		"read_write":        matrixCaller("b", steps.TierReadWrite, ""),
		"admin":             matrixCaller("c", steps.TierAdmin, ""),
		"read of some":      matrixCaller("d", steps.TierRead, mixedSource+".part.* "+readsSource+".*"),
		"all of one":        matrixCaller("e", steps.TierAdmin, southSource+".*"),
		"read_write of few": matrixCaller("f", steps.TierReadWrite, "*.open "+mixedSource+".renamed.*"),
		"chains of some":    matrixCaller("h", steps.TierReadWrite, mixedSource+".part.* chain.*"),
		"nothing":           matrixCaller("g", steps.TierAdmin, "nothing.*"),
		"plans":             {ID: "p", Rights: steps.Rights{Plans: true}},
		"own credential":    withCredential(matrixCaller("i", steps.TierReadWrite, ""), ownResource),
	}
}

// matrix sends one caller's requests to both worlds.
type matrix struct {
	caller         steps.Caller
	whole, lacking *rawClient // clients of the world with all functions, and of the one without hidden ones
	words          []string   // the words that the caller must not read
	token          string     // the token of the other caller's result
	run            string     // the id of the other caller's failed run
	tried          int
}

// try sends a request to both worlds and compares the answers.
func (m *matrix) try(t *testing.T, what string, send func(c *rawClient) string) {
	t.Helper()
	m.tried++
	got, want := send(m.whole), send(m.lacking)
	m.read(t, what, got)
	if got != want && withoutVolatile(got) != withoutVolatile(want) {
		t.Errorf("%s: with hidden functions\n%s\nwithout them\n%s", what, withoutVolatile(got), withoutVolatile(want))
	}
}

// read looks for hidden words in an answer. Words that the request contained are not reported.
func (m *matrix) read(t *testing.T, what, got string) {
	t.Helper()
	sent, got := strings.ToLower(what), strings.ToLower(got)
	for _, word := range m.words {
		if strings.Contains(got, word) && !strings.Contains(sent, word) {
			t.Errorf("the answer to %s shows the hidden word %s:\n%s", what, word, got)
		}
	}
}

func (m *matrix) tool(t *testing.T, p matrixPath) {
	t.Helper()
	p.text = strings.ReplaceAll(p.text, "OTHERRUN", m.run)
	m.try(t, p.tool+" "+p.text, func(c *rawClient) string { return c.call(t, p.tool, p.text) })
}

// oneIn returns the share of a matrix that is sent, as one request in n: all with ONECALL_TEST_LONG=1, one in ci with ONECALL_TEST_CI=1, as
// .ci/run sets it, else one in otherwise.
func oneIn(ci, otherwise int) int {
	switch {
	case os.Getenv("ONECALL_TEST_LONG") != "":
		return 1
	case os.Getenv("ONECALL_TEST_CI") != "":
		return ci
	}
	return otherwise
}

// absentFunction is used in place of a function that the caller may use, if there is none. It exists in no world.
var absentFunction = newMarked(400, "absent.part", false, kindOfFunction{effect: steps.Read})

func boolCount(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// tryProtocol sends requests that are not calls of tools.
func tryProtocol(t *testing.T, m *matrix, hidden []*matrixFunction, known *matrixFunction) {
	n := 0
	for method, list := range protocolPaths() {
		for _, params := range list {
			h := hidden[n%len(hidden)]
			n++
			p := matrixPath{method, strings.ReplaceAll(params, "HIDDENUPSTREAM", adminSource)}.filled(h, known, m.token, n)
			m.try(t, p.tool+" "+p.text, func(c *rawClient) string { return c.message(t, p.tool, p.text) })
		}
	}
}

// tryRoutes requests the paths of URLs.
func tryRoutes(t *testing.T, m *matrix, h *matrixFunction) {
	for _, route := range []string{
		"/", "/mcp/FN", "/FN", "/mcp?surface=FN", "/mcp?FN=1", "/metrics", "/healthz", "/readyz", "/debug/pprof/",
		"/.well-known/oauth-protected-resource",
		"/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server", "/favicon.ico",
	} {
		p := matrixPath{"", route}.filled(h, nil, "", 0)
		m.try(t, "GET "+p.text, func(c *rawClient) string {
			return c.send(t, "GET", strings.TrimSuffix(c.url, transport.Path)+p.text, nil, nil)
		})
	}
}
