package commands

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
)

// TestOutput: of an output that comes in any pieces, the beginning, the last lines and the counts are right.
func TestOutput(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.SampledFrom([]string{"line\n", "€", "\n", "x", strings.Repeat("y", 3000), strings.Repeat("z\n", 20_000),
			"\xe2", strings.Repeat("€\n", 30_000)}), 0, 12).Draw(t, "pieces")
		whole := strings.Join(pieces, "")
		o := output{limit: rapid.Int64Range(1, 100_000).Draw(t, "limit")}
		for _, piece := range pieces {
			o.write([]byte(piece))
		}
		k := o.kept()
		if int64(len(o.head)) > o.limit || !strings.HasPrefix(whole, string(k.head)) || k.omitted != int64(len(whole)-len(k.head)) {
			t.Fatalf("of %d bytes, %d are kept of at most %d, and %d left out", len(whole), len(k.head), o.limit, k.omitted)
		}
		if !strings.HasSuffix(whole, string(k.tail)) || len(k.tail) > maxTailBytes {
			t.Fatalf("%d bytes of the end are kept, which is not %q", len(k.tail), k.tail)
		}
		lines := slices.Collect(strings.Lines(whole))
		if k.lines != int64(len(lines)) {
			t.Fatalf("%d lines, want %d", k.lines, len(lines))
		}
		var want []string
		for _, line := range lines[max(len(lines)-tailLines, 0):] {
			want = append(want, strings.TrimSuffix(line, "\n"))
		}
		got := k.last(tailLines)
		if want = want[max(len(want)-len(got), 0):]; whole == "" || len(got) == 1 && k.omitted > 0 {
			return // a part of one line, if that is longer than what is kept
		}
		for i := range want {
			if len(got) != len(want) || got[i] != fault.Clip(want[i], maxLineBytes) {
				t.Fatalf("the last lines are %q, want %q", got, want)
			}
		}
	})
}
