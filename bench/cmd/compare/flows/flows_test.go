package flows

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

// TestChains: how a task is played, planned and step by step.
func TestChains(t *testing.T) {
	t.Parallel()
	s := readSuites("testdata")[0]
	for _, test := range []struct {
		task, way string
		last      int
		want      []string
	}{
		{"desk/user_task_1", planned, 1, []string{`{"input":{"named":[]},"steps":[{"fn":"desk.read_notes","args":{"topic":"tea"}},` +
			`{"fn":"desk.send_note","args":{"text":"Thanks","to":"$0[0].by"}}]}`}},
		{"desk/user_task_1", stepByStep, 1, []string{`{"steps":[{"fn":"desk.read_notes","args":{"topic":"tea"}}]}`,
			`{"steps":[{"fn":"desk.send_note","args":{"text":"Thanks","to":"ada@desk.example"}}]}`}},
		{"desk/user_task_2", planned, 1, []string{`{"return":["$0"],"steps":[{"fn":"desk.read_notes","args":{"topic":"tea"}}]}`,
			`{"steps":[{"fn":"desk.send_note","args":{"text":"yes","to":"tea@desk.example"}}]}`}},
		{"desk/user_task_3", planned, 0, []string{`{"input":{"named":["bob@desk.example"]},"return":["$0"],` +
			`"steps":[{"fn":"desk.read_notes","args":{"topic":"tea"}}]}`}},
		{"desk/user_task_3", planned, 2, []string{`{"input":{"named":["bob@desk.example"]},` +
			`"steps":[{"fn":"desk.read_notes","args":{"topic":"tea"}},` +
			`{"fn":"desk.bin_note","args":{"id":"$0[0].id"}},{"fn":"desk.send_note","args":{"text":"binned","to":"bob@desk.example"}}]}`}},
	} {
		chains := s.task(test.task).chains(s, test.way, test.last)
		if len(chains) != len(test.want) {
			t.Errorf("%s, %s: %d chains, want %d", test.task, test.way, len(chains), len(test.want))
			continue
		}
		for i, got := range chains {
			if want := strings.Replace(test.want[i], `"input":{"named":[]},`, "", 1); string(got) != want {
				t.Errorf("%s, %s, chain %d:\n%s\nwant\n%s", test.task, test.way, i, got, want)
			}
		}
	}
}

// TestPlay plays a small suite. Its policy is made from its tools.
func TestPlay(t *testing.T) {
	t.Parallel()
	var section report.Section
	b := harness.New(&report.Options{Root: "../../../..", Data: "testdata", Log: t.Logf}, &section)
	defer b.Close()
	if err := harness.Try(func() { measure(t.Context(), b) }); err != nil {
		t.Fatal(err)
	}
	figures := map[string]float64{}
	for _, f := range section.Figures {
		figures[f.Name] = f.Value
	}
	// The second injected text writes to bob, whom the last task names: planned, that was sent before anything was read.
	for name, want := range map[string]float64{"tasks": 4, "cases": 8, "impossible": 0, "silent": 75, "once": 100, "silent/step": 25,
		"stopped/planned": 87.5, "stopped/step": 100} {
		if figures[name] != want {
			t.Errorf("%s is %v, want %v", name, figures[name], want)
		}
	}
}

// TestPolicies: the committed policies have the form that is made from tools, and no more lines than they may.
func TestPolicies(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("policies/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no policies: %v", err)
	}
	_, rules, _ := strings.Cut(string((&suite{}).makePolicy()), "flows:")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "\n"); n > maxPolicyLines {
			t.Errorf("%s has %d lines", file, n)
		}
		if _, own, _ := strings.Cut(string(text), "flows:"); own != rules {
			t.Errorf("%s has other rules:\n%s", file, own)
		}
	}
}

// TestEscaped: a literal text is none of a chain's references.
func TestEscaped(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"$5 off": "$$5 off", "${x}": "$${x}", "a ${x} $0": "a $${x} $0", "plain": "plain"} {
		if got := escaped([]any{text}).([]any)[0]; got != want {
			t.Errorf("%q is written %q, want %q", text, got, want)
		}
	}
	if text, err := json.Marshal(escaped(map[string]any{"n": 1.0})); err != nil || string(text) != `{"n":1}` {
		t.Errorf("%s, %v", text, err)
	}
}
