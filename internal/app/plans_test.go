package app

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/signing"
	"github.com/onecall-mcp/onecall/steps"
)

// newSigner returns a signer with a new key.
func newSigner(t *testing.T) *signing.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	signer, f := signing.ParseSigner(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if f != nil {
		t.Fatal(f)
	}
	return signer
}

// warned is a Reporter that keeps warnings.
type warned struct {
	silent
	list []string
}

func (w *warned) Warn(f *fault.Error) { w.list = append(w.list, f.Message) }

// TestPlansOfFolder: a caller of plans has the chains of the folder that an accepted key has signed as they are, under their names. What is
// wrong with any other signature is told.
func TestPlansOfFolder(t *testing.T) {
	t.Parallel()
	ann, bob := newSigner(t), newSigner(t)
	const plan, inner = `{"steps":[{"fn":"text.replace","args":{"text":"a","pattern":"a","with":"b"}},{"fn":"chain.inner"}]}`, `{"steps":[{"expr":"1"}]}`
	for name, test := range map[string]struct {
		change func(folder string)
		keys   []string
		more   string // of the configuration
		hidden string // why the plan is hidden; "": it is not
	}{
		"signed":        {},
		"more keys":     {keys: []string{bob.Key.Text, ann.Key.Text}},
		"other key":     {keys: []string{bob.Key.Text}, hidden: "is not in access.plans"},
		"no key":        {keys: []string{}, hidden: "without access.plans"},
		"reformatted":   {change: func(f string) { write(t, f, "pay.chain.json", "\n"+plan+"\n") }},
		"changed":       {change: func(f string) { write(t, f, "pay.chain.json", strings.Replace(plan, `"b"`, `"c"`, 1)) }, hidden: "another content"},
		"inner changed": {change: func(f string) { write(t, f, "inner.chain.json", `{"steps":[{"expr":"2"}]}`) }, hidden: "another content"},
		"no signature":  {change: func(f string) { os.Remove(filepath.Join(f, "pay.chain.sig")) }, hidden: "-"},
		"damaged":       {change: func(f string) { write(t, f, "pay.chain.sig", "x") }, hidden: "this is no signature"},
		"another's name": {change: func(f string) {
			write(t, f, "pay.chain.json", read(t, filepath.Join(f, "inner.chain.json")))
			write(t, f, "pay.chain.sig", read(t, filepath.Join(f, "inner.chain.sig")))
		}, hidden: "another content"},
		"given to another": {more: "functions: {chain.inner: {rename: chain.old}, chain.wrong: {rename: chain.inner}}\n", hidden: "gives the name chain.inner to chain.wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			chains := filepath.Join(folder, "chains")
			if err := os.Mkdir(chains, 0o755); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{"pay": plan, "inner": inner, "wrong": `{"steps":[{"expr":"3"}]}`} {
				write(t, chains, name+".chain.json", text)
			}
			open := func(keys []string, more string) (*App, *warned) {
				path := write(t, folder, "onecall.yaml", fmt.Sprintf("journal: {store: off}\naccess: {plans: [%s], tokens: [{name: bot, sha256: %q, plans: true}]}\n%s",
					strings.Join(keys, ", "), strings.Repeat("a", 64), more))
				reporter := &warned{}
				a, err := Open(t.Context(), &Options{Config: path, Reporter: reporter, Redactor: &Redactor{}})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { a.Close() })
				return a, reporter
			}
			a, _ := open([]string{ann.Key.Text}, "")
			for _, name := range []string{"pay", "inner"} {
				path := filepath.Join(chains, name+".chain.json")
				form, f := chain.SignedForm(steps.ChainSource+"."+name, a.ChainsBeside(path))
				if f != nil {
					t.Fatal(f)
				}
				text, err := ann.Sign(form)
				if err != nil {
					t.Fatal(err)
				}
				write(t, chains, name+".chain.sig", string(text))
			}
			if test.change != nil {
				test.change(chains)
			}
			if test.keys == nil {
				test.keys = []string{ann.Key.Text}
			}
			a, reporter := open(test.keys, test.more)
			var shown []string
			for _, entry := range (steps.Rights{Plans: true}).View(a.Catalog).Registry().All() {
				shown = append(shown, entry.Spec().Name)
			}
			if slices.Contains(shown, "chain.pay") == (test.hidden != "") || slices.Contains(shown, "text.replace") {
				t.Errorf("the plans are %v, hidden: %q", shown, test.hidden)
			}
			told := slices.ContainsFunc(reporter.list, func(text string) bool { return strings.Contains(text, test.hidden) })
			if test.hidden == "" && len(reporter.list) > 0 || test.hidden != "" && test.hidden != "-" && !told {
				t.Errorf("warnings %q, want one with %q", reporter.list, test.hidden)
			}
		})
	}
}
