package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rivo/uniseg"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/history"
)

// TestRunsAtTerminal checks which columns of a long run are shown at which width: no row is wider than the terminal.
func TestRunsAtTerminal(t *testing.T) {
	t.Parallel()
	runs := []history.Run{{ID: "run_abcdefghijklmnopqrstuvwxyz", Status: "waiting", Code: "approval_required", Began: time.Now().Add(-190 * time.Second),
		Chain: "a chain of the name 日本語 with a\ttab.chain.json", Millis: 88323.3, Writes: 12, Calls: 4096, Tokens: 1234567}}
	for width, want := range map[int]string{
		80: `RUN           CHAIN                      STATUS   WHEN       TOOK  WRITES  CALLS
run_abcdefgh  a chain of the name 日本…  waiting  3 min ago  88 s  12      4096
    approval_required
`,
		70: `RUN           CHAIN                   STATUS   WHEN       TOOK  WRITES
run_abcdefgh  a chain of the name …   waiting  3 min ago  88 s  12
    approval_required
`,
		30: `
RUN run_abcdefgh
CHAIN a chain of the name 日本語 with a tab.chain.json
STATUS waiting
WHEN 3 min ago
TOOK 88 s
WRITES 12
CALLS 4096
TOKENS 1234567
UNDOS 0
approval_required
`,
	} {
		var out strings.Builder
		c := &cli{streams: &streams{out: &out, outTerminal: true, outWidth: func() int { return width }}}
		if err := c.writeRuns(runs); err != nil || out.String() != want {
			t.Errorf("%d columns: got error %v and\n%s\nwant\n%s", width, err, out.String(), want)
		}
	}
	for width := 40; width < 200; width++ {
		var out strings.Builder
		c := &cli{streams: &streams{out: &out, outTerminal: true, outWidth: func() int { return width }}}
		if err := c.writeRuns(runs); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d columns: a line has %d:\n%s", width, n, line)
			}
		}
	}
}

// TestResultTable checks at every width that a result is a table within the terminal, or JSON that has all of it.
func TestResultTable(t *testing.T) {
	t.Parallel()
	result := gjson.Parse(`[{"id":1,"name":"日本語 and a name that is long","three":"3","four":"a fourth value"},{"id":22,"name":"b","five":false}]`)
	for width := range 120 {
		var stdout, stderr strings.Builder
		c := &cli{streams: &streams{out: &stdout, err: &stderr, outTerminal: true, outWidth: func() int { return width }}}
		out, err := c.newOutput("")
		if err == nil {
			err = errors.Join(c.showResult(out, result), out.commit())
		}
		if err != nil {
			t.Fatal(err)
		}
		isTable, isCut := strings.HasPrefix(stdout.String(), "id"), strings.Contains(stdout.String(), "…")
		if isTable != (width >= 40) || isCut != (isTable && width < 64) || isCut != strings.Contains(stderr.String(), "--json shows all") {
			t.Errorf("%d columns: table %t, cut %t:\n%s%s", width, isTable, isCut, stdout.String(), stderr.String())
		}
		for line := range strings.Lines(stdout.String()) {
			if n := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); isTable && n > width {
				t.Errorf("%d columns: a line has %d:\n%s", width, n, line)
			}
		}
	}
	for _, other := range []string{`[]`, `{"a":1}`, `[{"a":1},{"a":1,"a":2}]`, `[{"a":{}}]`, `[1]`, `"a"`, `null`} {
		if table, _ := resultTable(gjson.Parse(other)); table != nil {
			t.Errorf("%s is a table", other)
		}
	}
}
