package app

import (
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
)

// TestCommandsNeedRoot: where files are left out, because callers with tokens could read the folder that onecall was started in, commands
// do not run there, and say why.
func TestCommandsNeedRoot(t *testing.T) {
	t.Parallel()
	tokens := "access: {tokens: [{name: ci, sha256: " + strings.Repeat("0123456789abcdef", 4) + "}]}\n"
	for text, runs := range map[string]bool{"": true, tokens: false, tokens + "fs: {root: .}\n": true} {
		path := write(t, t.TempDir(), "onecall.yaml", text+"commands: {git: preset}\n")
		p := processOf(Options{Config: path}, serverTraits{serve: true, overHTTP: true})
		a, err := p.open(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, source := range a.Catalog.Sources() {
			if source.Name != "sh" {
				continue
			}
			if (source.State == steps.StateReady) != runs || (source.Error == nil) != runs {
				t.Errorf("%s: commands are %s, %v", text, source.State, source.Error)
			}
			if !runs && !strings.Contains(source.Error.Message, "set fs.root") {
				t.Errorf("%s: %v names no remedy", text, source.Error)
			}
		}
		if err := a.close(); err != nil {
			t.Error(err)
		}
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}
}
