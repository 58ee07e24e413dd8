package app

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
)

// TestSavedChainsOfFolder: the chains in the folder beside the configuration are functions with its settings. Broken ones are reported
// and do not affect others.
func TestSavedChainsOfFolder(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	chains := filepath.Join(folder, "chains")
	if err := os.MkdirAll(filepath.Join(chains, "folder.chain.json"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"good.chain.json": `{"steps":[{"expr":"1"}]}`, "closed.chain.yaml": "steps: [{expr: '2'}]",
		"hidden.chain.jsonc": `{"steps":[{"expr":"3"}]} // none`,
		"good.chain.yaml":    "steps: [{expr: '1'}]", "round.chain.json": `{"steps":[{"fn":"chain.round"}]}`,
		"a b.chain.json":  `{"steps":[{"expr":"4"}]}`,
		"find.chain.json": `{"steps":[{"expr":"5"}]}`, "plain.json": `{"steps":[]}`, "empty.chain.yaml": "",
	} {
		write(t, chains, name, text)
	}
	path := write(t, folder, "onecall.yaml",
		"journal: {store: off}\nfunctions: {chain.closed: {tier: admin, effect: destroy}, chain.hidden: {hide: true}}")
	a, err := Open(t.Context(), &Options{Config: path, Reporter: silent{}, Redactor: &Redactor{}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	var names []string
	for _, e := range a.Catalog.Registry().All() {
		if e.Spec().Saved != nil {
			names = append(names, e.Spec().Name+" "+e.Spec().Effect.String()+" "+e.Spec().MinimumTier().String())
		}
	}
	if want := []string{"chain.closed read admin", "chain.find read read", "chain.good read read"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	var broken []string
	for _, f := range a.BrokenChains() {
		broken = append(broken, strings.TrimPrefix(f.Message, chains+string(filepath.Separator)))
	}
	for i, want := range []string{"a b.chain.json: ", "empty.chain.yaml: line 1, column 1: the file is empty",
		"good.chain.yaml: good.chain.json already holds a chain with this name", "round.chain.json: saved chains call each other in a cycle"} {
		if i >= len(broken) || !strings.HasPrefix(broken[i], want) {
			t.Errorf("broken chain %d: want %q in %q", i, want, broken)
		}
	}
	suspect := a.SuspectChains()
	if len(suspect) != 2 || !strings.Contains(suspect[1].Message, "find alone means the function fs.find") {
		t.Errorf("got suspect chains %v, want 2, the second saying that find means fs.find", suspect)
	}
	for _, source := range a.Catalog.Sources() {
		if source.Name == steps.ChainSource &&
			(source.State != steps.StateReady || source.Error == nil ||
				!strings.HasPrefix(source.Error.Message, "a b.chain.json, empty.chain.yaml, good.chain.yaml, round.chain.json are broken; ")) {
			t.Errorf("got status %+v, want ready with the 4 broken files in the error", source.Status)
		}
	}
}

// TestRenamedSavedChain: a saved chain under another name is still known by its file, broken or not.
func TestRenamedSavedChain(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	chains := filepath.Join(folder, "chains")
	if err := os.Mkdir(chains, 0o755); err != nil {
		t.Fatal(err)
	}
	good := write(t, chains, "foo.chain.json", `{"steps":[{"expr":"1"}]}`)
	broken := write(t, chains, "bar.chain.json", `{"steps":[{"fn":"none.such"}]}`)
	path := write(t, folder, "onecall.yaml", "journal: {store: off}\nfunctions: {chain.foo: {rename: greet}, chain.bar: {rename: part}}")
	a, err := Open(t.Context(), &Options{Config: path, Reporter: silent{}, Redactor: &Redactor{}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if !a.Catalog.Registry().Has("greet") || a.ChainFile("greet") != good {
		t.Errorf("the file of greet is %q, want %q", a.ChainFile("greet"), good)
	}
	if files, list := a.chains.broken(); !slices.Equal(files, []string{"bar.chain.json"}) || !strings.HasPrefix(list[0].Message, broken+": ") {
		t.Errorf("got the broken files %q, %v, want bar.chain.json, with a fault of %s", files, list, broken)
	}
	if list := a.SuspectChains(); len(list) != 1 || !strings.HasPrefix(list[0].Message, broken+": ") {
		t.Errorf("got suspect chains %v, want one, %s", list, broken)
	}
}

// TestSavedChainReadsState: a saved chain reads $state of its caller, unless nothing is kept.
func TestSavedChainReadsState(t *testing.T) {
	t.Parallel()
	for store, want := range map[string]string{"memory": `"from main"`, "off": `"error"`} {
		folder := t.TempDir()
		if err := os.Mkdir(filepath.Join(folder, "chains"), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, "chains"), "last.chain.json", `{"steps":[{"expr":"'from ' + $state.branch"}]}`)
		path := write(t, folder, "onecall.yaml", `journal: {store: "`+store+`"}`)
		a, err := Open(t.Context(), &Options{Config: path, Reporter: silent{}, Redactor: &Redactor{}})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		if broken := a.BrokenChains(); len(broken) > 0 != (store == "off") {
			t.Errorf("%s: broken chains %v", store, broken)
		}
		a.Run(t.Context(), []byte(`{"steps":[{"fn":"state.set","args":{"key":"branch","value":"main"}}]}`), nil)
		got := a.Run(t.Context(), []byte(`{"steps":[{"fn":"chain.last"}],"lite":true}`), nil)
		if !strings.Contains(string(got.JSON), want) {
			t.Errorf("%s: %s, want %s", store, got.JSON, want)
		}
	}
}
