package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/onecall-mcp/onecall/budget"
)

// TestUpToDate checks that the generated files are up to date.
func TestUpToDate(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	files, err := generate(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s is out of date: run go generate ./...", name)
		}
	}
}

// TestSkillSize bounds the tokens that an agent reads for the skill.
func TestSkillSize(t *testing.T) {
	t.Parallel()
	skill, err := os.ReadFile("../../../" + skillFile)
	if err != nil {
		t.Fatal(err)
	}
	counter, err := budget.NewCounter("", 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := counter.Count(skill, -1); n >= 1500 {
		t.Errorf("the skill has %d tokens, want fewer than 1500", n)
	}
}
