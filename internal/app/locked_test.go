package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/steps"
)

// lockedConfig is personalConfig with flow rules about what only callers with a credential can do, and saved chains that do it.
func lockedConfig(t *testing.T, u *upstreams, folder string) string {
	t.Helper()
	chains := ChainsFolder(filepath.Join(folder, "onecall.yaml"))
	if err := os.Mkdir(chains, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, step := range map[string]string{"get": `{"stock.stock.get":{"id":"a"}}`, "jot": `{"http.note":{}}`, "ask": `{"desk.whoami":{}}`} {
		write(t, chains, name+".chain.json", `{"steps":[`+step+`]}`)
	}
	write(t, folder, "stock.json", personalDocument)
	return strings.Replace(strings.Replace(personalConfig(u), `functions: {`, `functions: {stock.stock.get: {takes: {id: place}, gives: [outside]}, `+
		`http.note: {takes: {big: page}}, `, 1), "desk: {", "desk: {labels: mail, ", 1) + `
flows: {rules: [{from: outside, to: place, do: warn}, {from: outside, to: page, do: warn}, {from: untrusted, to: recipient, do: deny}]}
`
}

// TestLockedAtCommands: at a command line, chains are checked against functions that need a credential of each caller, and not carried out.
func TestLockedAtCommands(t *testing.T) {
	t.Parallel()
	u, folder := startUpstreams(t), t.TempDir()
	config := write(t, folder, "onecall.yaml", lockedConfig(t, u, folder))
	a, err := Open(t.Context(), &Options{Config: config, Reporter: silent{}, Redactor: &Redactor{}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	steps.Await(t.Context(), a.Catalog, nil)
	run := func(request string, override chain.Override) string {
		return string(a.Run(t.Context(), []byte(request), &chain.Caller{Override: override}).JSON)
	}
	for name, brings := range map[string]string{"stock.stock.get": "the header X-Tenant", "http.note": "the headers Authorization and X-Tenant",
		"chain.get": "the header X-Tenant"} {
		request := chainOf(name, `{}`)
		if name == "stock.stock.get" {
			request = chainOf(name, `{"id":"a"}`)
		}
		for _, override := range []chain.Override{{Check: true}, {DryRun: true}, {Check: true, DryRun: true}} {
			expect(t, name+" checked", run(request, override), `"ok":true`)
		}
		expect(t, name, run(request, chain.Override{}), "and a command has none: callers of onecall serve that send "+brings+" can call it",
			`"ok":true`, "function_failed")
	}
	const undoes = `{"steps":[{"fn":"stock.stock.delete","args":{"id":"a"},"undo":{"fn":"http.note"}}]}`
	expect(t, "an undo checked", run(undoes, chain.Override{Check: true}), `"ok":true`)
	expect(t, "an undo", run(undoes, chain.Override{}), `"at":"/steps/0/undo/fn"`)
	expect(t, "a server", run(chainOf("desk.whoami", `{}`), chain.Override{Check: true}), "desk is called with each caller's own credential")
	expect(t, "a short name", run(chainOf("nothing", `{}`), chain.Override{Check: true}),
		"not looked for in desk, which only callers with a credential of their own see", "cannot be reached")
	if n := u.calls.Load(); n != 0 {
		t.Errorf("%d calls were made", n)
	}

	for _, f := range append(a.Suspects(), a.BrokenChains()...) {
		t.Errorf("a correct configuration: %v", f)
	}
	if away := a.AwayChains(); len(away) != 1 || !strings.Contains(away[0].Message, "ask.chain.json: desk is called with each caller's own") {
		t.Errorf("chains that are not here: %v, want ask", away)
	}
	if !a.Catalog.Registry().Has("chain.get") || !a.Catalog.Registry().Has("chain.jot") {
		t.Error("chains of what a caller's credential opens are missing")
	}
	found := map[string]int{}
	for _, f := range Examine(t.Context(), &Options{Config: config, Reporter: silent{}, Redactor: &Redactor{}}) {
		found[string(f.Status)]++
		if f.Status != StatusOK && f.Check != CheckLogin {
			t.Errorf("doctor: %+v", f)
		}
	}
	if found[string(StatusOK)] == 0 {
		t.Error("doctor found nothing")
	}
}

// TestLockedChainsOfServer: a server says of a chain what a caller must bring for it, and does not take it for broken.
func TestLockedChainsOfServer(t *testing.T) {
	t.Parallel()
	u, folder := startUpstreams(t), t.TempDir()
	g := serveIn(t, folder, lockedConfig(t, u, folder))
	for _, name := range []string{"get", "chain.get"} {
		expect(t, name, g.call(t, "ann", "", "chain", chainOf(name, `{}`)),
			"chain.get cannot be called yet: stock is called with your own credential: send the header X-Tenant with each request to onecall, "+
				"exactly once and not empty", "there is no function")
	}
	expect(t, "described", g.call(t, "ann", "", "search", `{"names":["chain.get"]}`), "send the header X-Tenant")
	for _, name := range []string{"chain.get", "chain.jot", "chain.ask"} {
		expect(t, name, g.call(t, "ann", "acme", "chain", chainOf(name, `{}`)), `"acme"`, `"ok":false`)
	}
	for _, word := range []string{"can never hold", "there is no function", "matches no function"} {
		if log := g.log.String() + g.warnings(); strings.Contains(log, word) {
			t.Errorf("the log says %q:\n%s", word, log)
		}
	}
}
