package cli

import (
	"strings"
	"testing"
	"unicode"

	"github.com/rivo/uniseg"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

func TestDrawPlan(t *testing.T) {
	t.Parallel()
	p := &chain.DryRun{Hash: "5d18", Bound: chain.Bound{Calls: chain.Interval{Low: 3, Likely: 4, High: 7},
		Bytes:  chain.Interval{Low: 4, Likely: chain.Unknown, High: chain.Unknown},
		Tokens: chain.Interval{Low: 1, Likely: 310, High: 2000}, Millis: chain.Interval{Likely: chain.Unknown, High: 60_000}},
		Counts: map[steps.Effect]int{steps.Read: 2, steps.Write: 1, steps.Destroy: 1},
		DryChain: chain.DryChain{Waves: [][]int{{0, 1}, {2}, {3}}, Steps: []chain.DryStep{
			{ID: "hosts", Function: "fs.cat", Effect: steps.Read},
			{Function: "memory.read_graph", Effect: steps.Read},
			{Effect: steps.Write, After: []int{1, 0}, Chain: &chain.DryChain{Waves: [][]int{{0}, {1}}, Steps: []chain.DryStep{
				{Function: "memory.create_entities", Effect: steps.Write, Undo: []byte(`{"fn":"memory.delete_entities","args":{}}`)},
				{ID: "n", Function: "expr", Effect: steps.Read, After: []int{0}}}}},
			{Function: "memory.delete_entities", Effect: steps.Destroy, After: []int{2}, Approve: true}}},
		Resume: &chain.ResumePreview{Reused: []int{0, 1}, Made: []int{2, 3}, Conflicts: []*journal.PastCall{
			{Event: journal.Event{StepPath: "3[1]", Function: "memory.create_relations"}, Outcome: fault.Applied}}}}
	const want = `Plan 5d18

Wave 1
  0 hosts  fs.cat                  read, reused
  1        memory.read_graph       read, reused

Wave 2
  2        chain                   write, made, after 0-1
  2.0      memory.create_entities  write, undo by memory.delete_entities
  2.1 n    expr                    read, after 2.0

Wave 3
  3        memory.delete_entities  destroy, made, after 2, needs approval

Steps: 2 read, 1 write, 1 destroy
Bound: calls 3 to 7, likely 4; tokens at most 2,000, likely 310; time at most 60
  s
Conflict: the run made these calls, but the chain does not; set their outcomes
  with --assume
  3[1] memory.create_relations applied
`
	if got := drawPlan(p, 80); got != want {
		t.Errorf("drawn:\n%s\nwant:\n%s", got, want)
	}
	const narrow = `Plan 5d18

Wave 1
  0 hosts fs.cat
    read, reused
  1
    memory.read_grap
    h
    read, reused
`
	if got := drawPlan(p, 20); !strings.HasPrefix(got, narrow) {
		t.Errorf("drawn on 20 columns:\n%s\nwant:\n%s", got, narrow)
	}
}

// TestDrawPlanFitsTerminal checks that no line is too wide or has control characters, whatever names upstreams use.
func TestDrawPlanFitsTerminal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 40, -1)
		n := rapid.IntRange(1, 5).Draw(t, "steps")
		p := &chain.DryRun{Hash: "5d18"}
		for i := range n {
			p.Waves = append(p.Waves, []int{i})
			p.Steps = append(p.Steps, chain.DryStep{ID: text.Draw(t, "id"), Function: text.Draw(t, "function"), Undo: []byte(`{"fn":"\u001b[2J"}`)})
		}
		width := rapid.IntRange(20, 120).Draw(t, "width")
		for line := range strings.Lines(drawPlan(p, width)) {
			line = strings.TrimSuffix(line, "\n")
			if uniseg.StringWidth(line) > width {
				t.Errorf("%q is wider than %d columns", line, width)
			}
			if strings.ContainsFunc(line, func(c rune) bool { return !unicode.IsPrint(c) }) {
				t.Errorf("%q has control characters", line)
			}
		}
	})
}
