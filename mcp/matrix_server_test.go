package mcp_test

import (
	"slices"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/groups"
	"github.com/onecall-mcp/onecall/steps/ladder"
)

var surfaces = []string{"chain", "dispatch", "flat", "hybrid"}

// worldServer is a server with the functions that exist in a world.
type worldServer struct {
	*testServer
	all []*matrixFunction
	url string
}

// serveWorld serves a world to one caller over HTTP, with a ladder. The world has the functions that exists accepts.
func serveWorld(t testing.TB, a steps.Caller, exists func(*steps.Spec) bool, change func(*mcp.Options)) *worldServer {
	t.Helper()
	return serveThrough(t, a, exists, unwrapped, change)
}

// serveThrough is serveWorld with wrap applied to the registry below the ladder.
func serveThrough(t testing.TB, a steps.Caller, exists func(*steps.Spec) bool, wrap func(*steps.Registry) (*steps.Registry, error),
	change func(*mcp.Options)) *worldServer {
	t.Helper()
	w := newWorld(t, exists, wrap, change)
	w.url = w.http(t, &a)
	return w
}

// newWorld returns a server that does not listen yet.
func newWorld(t testing.TB, exists func(*steps.Spec) bool, wrap func(*steps.Registry) (*steps.Registry, error),
	change func(*mcp.Options)) *worldServer {
	t.Helper()
	w := &worldServer{all: markedFunctions()}
	// Partial: rungs that name no function would otherwise be refused, and where hidden functions do not exist their rungs name none.
	ordered, faults := ladder.New(&ladder.Options{Mode: ladder.Enforce, Subject: "subject", Rungs: rungsOf(w.all), Partial: true})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	catalog, err := steps.NewCatalog(&steps.CatalogOptions{
		Settings: settingsOfMatrix(t, w.all), Credentials: matrixCredentials{},
		Wrap: func(r *steps.Registry) (*steps.Registry, error) {
			wrapped, err := wrap(r)
			if err != nil {
				return nil, err
			}
			return ordered.Wrap(wrapped), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	add := func(name string, source steps.Source) {
		if err := catalog.Add(name, source); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{mixedSource, writesSource, adminSource, readsSource, northSource, southSource, eastSource} {
		var offered markedSource
		for _, m := range w.all {
			if m.source() == name && exists(&m.Spec) {
				offered = append(offered, m)
			}
		}
		if len(offered) > 0 {
			add(name, offered)
		}
	}
	for _, name := range []string{brokenOpen, brokenClosed} {
		if slices.ContainsFunc(samplesOf(name), exists) {
			add(name, &brokenSource{whyBroken(name)})
		}
	}
	if slices.ContainsFunc(samplesOf(personalSource), exists) {
		add(personalSource, &personalMatrix{w.all, exists})
	}
	if saved := chainsOf(t, w.all, exists); len(saved) > 0 {
		add(steps.ChainSource, saved)
	}
	counter, results := storeOf(t)
	o := &mcp.Options{Catalog: catalog, Counter: counter, MaxTotalTokens: 4000, Version: "1.2.3",
		Options: transport.Options{Grace: 200 * time.Millisecond}, Hoist: []string{"repoId"}, SessionTokens: 100_000_000}
	if change != nil {
		change(o)
	}
	unwrapProxy(o)
	o.Dispatch, faults = groups.New(&groups.Config{Hoist: o.Hoist, Autodispatch: true, Groups: []groups.Group{
		{Name: "things", Resources: []string{"part", "thing"}, Description: "Parts and things."},
		{Name: closedGroup, Resources: []string{mixedSource + "." + lockedResource, adminSource}, Description: "All about " + closedGroup + "."},
	}})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	runs, err := journal.New(&journal.Memory{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if o.Engine, err = chain.New(&chain.Options{Functions: catalog, Counter: counter, Results: results, Journal: runs,
		MaxTotalTokens: o.MaxTotalTokens, Hoist: o.Hoist, Rung: (*steps.Entry).Rung}); err != nil {
		t.Fatal(err)
	}
	server, err := mcp.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Close()
		catalog.Close()
		results.Close()
		runs.Close()
	})
	w.testServer = &testServer{Server: server, options: o, catalog: catalog}
	return w
}

// TestMatrix sends all paths with all rights: a caller can learn nothing of a function that it may not use. Except for times and tokens,
// each answer is the same as in a world without the function.
func TestMatrix(t *testing.T) {
	t.Parallel()
	for name, a := range rightsOfMatrix() {
		for i, version := range []string{statefulVersion, statelessVersion} {
			for j, surface := range surfaces {
				t.Run(name+"/"+version+"/"+surface, func(t *testing.T) {
					t.Parallel()
					tryMatrix(t, a, surface, version, i+2*j)
				})
			}
		}
	}
}

func tryMatrix(t *testing.T, a steps.Caller, surface, version string, n int) {
	whole := serveWorld(t, a, allFunctions, nil)
	lacking := serveWorld(t, a, func(spec *steps.Spec) bool { return mayUse(a, spec) }, nil)
	tryWorlds(t, a, whole, lacking, surface, version, n)
}

// tryWorlds sends a share of all paths to both worlds. n chooses the share.
func tryWorlds(t *testing.T, a steps.Caller, whole, lacking *worldServer, surface, version string, n int) {
	all := whole.all
	m := &matrix{caller: a, words: hiddenWords(a, all), token: adminToken(t, whole), run: adminRun(t, whole)}
	var hello, helloLacking string
	m.whole, hello = newRawClient(t, whole.url, surface, version)
	m.lacking, helloLacking = newRawClient(t, lacking.url, surface, version)
	m.try(t, "the greeting", func(c *rawClient) string {
		if c == m.whole {
			return hello
		}
		return helloLacking
	})
	var hidden, known []*matrixFunction
	for _, one := range all {
		if mayUse(a, &one.Spec) {
			known = append(known, one)
		} else {
			hidden = append(hidden, one)
		}
	}
	dispatchers := []string{"things", "crate", closedGroup}
	share := oneIn(12, 97)
	sendPaths := func(paths []matrixPath, hidden, known *matrixFunction) {
		for _, p := range paths {
			if n++; hidden != nil && n%share > 0 {
				continue // it is tried with other rights, in another version, or on another surface
			}
			tools := []string{p.tool}
			if p.tool == "DISPATCHER" {
				tools = dispatchers
			}
			for _, tool := range tools {
				p.tool = tool
				m.tool(t, p.filled(hidden, known, m.token, n))
			}
		}
	}
	usable := func(i int) *matrixFunction {
		if len(known) == 0 {
			return absentFunction
		}
		return known[i%len(known)]
	}
	sendPaths(generalPaths, nil, usable(n))
	for i, h := range hidden {
		sendPaths(lookups, h, usable(i))
		if surface == "chain" {
			sendPaths(chainPaths, h, usable(i))
		} else {
			sendPaths(chainPaths[i%len(chainPaths):][:1], h, usable(i))
			sendPaths(groupPaths, h, usable(i))
			sendPaths(flatPaths, h, usable(i))
		}
	}
	for i, k := range known {
		if len(hidden) > 0 {
			sendPaths(knownPaths, hidden[i%len(hidden)], k)
		}
	}
	if len(hidden) > 0 {
		tryProtocol(t, m, hidden, usable(n))
		tryRoutes(t, m, hidden[0])
	}
	for _, h := range whole.all {
		if !mayUse(a, &h.Spec) && h.calls.Load() > 2*boolCount(h.Spec.Name == adminFunction(whole.all).Spec.Name) {
			t.Errorf("the hidden function %s was called", h.Spec.Name)
		}
	}
	t.Logf("%d requests, %d words, %d functions hidden, %d usable", m.tried, len(m.words), len(hidden), len(known))
}

// TestMatrixTimes: refusing a hidden function takes about as long as refusing one that does not exist. The two are called in turn, so that
// other load on the machine slows both.
func TestMatrixTimes(t *testing.T) {
	t.Parallel()
	w := serveWorld(t, matrixCaller("reading", steps.TierRead, ""), allFunctions, nil)
	c, _ := newRawClient(t, w.url, "chain", statelessVersion)
	const rounds, maxRatio = 201, 4
	var took [2][]time.Duration
	for range rounds {
		for i, fn := range []string{adminFunction(w.all).Spec.Name, absentFunction.Spec.Name} {
			took[i] = append(took[i], c.elapsed(t, "chain", `{"steps":[{"fn":"`+fn+`"}]}`))
		}
	}
	for i := range took {
		slices.Sort(took[i])
	}
	if hidden, absent := took[0][rounds/2], took[1][rounds/2]; hidden > maxRatio*absent || absent > maxRatio*hidden {
		t.Errorf("median time of a hidden function %v, of an absent one %v, want a ratio of at most %d", hidden, absent, maxRatio)
	}
}
