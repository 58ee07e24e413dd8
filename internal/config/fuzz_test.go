package config

import (
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/onecall-mcp/onecall/fault"
)

// FuzzConfig: the faults of any text have codes and messages.
func FuzzConfig(f *testing.F) {
	paths, err := filepath.Glob("../../testdata/config/*.txtar")
	if err != nil || len(paths) == 0 {
		f.Fatalf("no transcripts: %v", err)
	}
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, section := range archive.Files[1:] {
			for _, one := range configurations(string(section.Data)) {
				f.Add(one.text)
			}
		}
	}
	f.Add("\"a\": [1, {b: |\n x}]")
	f.Add("groups: &g {a: [x, y], b: {resources: [*g], description: d}}\naccess: {stdio: none}\nhoist: [a]\naliases: {a: b}\n")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4<<10 {
			t.Skip()
		}
		for _, name := range []string{"onecall.yaml", "onecall.json"} {
			_, faults := decodeConfig(name, text)
			for _, f := range faults {
				if !slices.Contains(fault.Codes(), f.Code) || f.Message == "" {
					t.Errorf("%q: got fault %+v, want a known code and a message", text, f)
				}
			}
		}
	})
}
