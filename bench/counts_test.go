package bench

import (
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/internal/tally"
	"github.com/onecall-mcp/onecall/internal/transcript"
)

// counts are the token counts of a section of the comparison that need nothing but this repository. They are exact, so a file of testdata
// holds them, in the form of bench/results: RESULTS.md and the documents show both.
type counts struct {
	Name     string            `json:"name"` // the section of the figures
	Title    string            `json:"title"`
	Question string            `json:"question"`
	Command  string            `json:"command"` // writes the file again
	Versions map[string]string `json:"versions,omitempty"`
	Corpus   []string          `json:"corpus"`
	Tables   []countTable      `json:"tables"`
	Figures  []countFigure     `json:"figures"`
	Notes    []string          `json:"notes,omitempty"`
}

type countTable struct {
	Title   string     `json:"title"`
	Columns []string   `json:"columns"`
	Rows    []countRow `json:"rows"`
}

type countRow struct {
	Name  string      `json:"name"`
	Cells []countCell `json:"cells"`
}

type countCell struct {
	Value float64 `json:"value,omitempty"`
	Unit  string  `json:"unit,omitempty"`
	Low   float64 `json:"low,omitempty"`
	High  float64 `json:"high,omitempty"`
	How   string  `json:"how,omitempty"`
	Text  string  `json:"text,omitempty"`
}

type countFigure struct {
	Name   string  `json:"name"`
	Title  string  `json:"title"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	How    string  `json:"how"`
	AtMost float64 `json:"atMost,omitempty"`
	Why    string  `json:"why,omitempty"`
}

// hold compares the counts with their file, or writes it with -update.
func (c *counts) hold(t *testing.T) {
	t.Helper()
	c.Command = "go test ./bench -run " + t.Name() + " -update"
	text, err := json.MarshalIndent(c, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	transcript.File(t, filepath.Join("testdata", c.Name+".json"), append(text, '\n'))
}

func (c *counts) table(title string, columns []string, rows ...countRow) {
	c.Tables = append(c.Tables, countTable{title, columns, rows})
}

// tokens adds the figure of a count.
func (c *counts) tokens(name, title string, n int) {
	c.Figures = append(c.Figures, countFigure{Name: name, Title: title, Value: float64(n), Unit: "tokens", How: "measured"})
}

// ratio adds the figure of one count to another.
func (c *counts) ratio(name, title string, ours, theirs int) *countFigure {
	c.Figures = append(c.Figures, countFigure{Name: name, Title: title, Value: float64(ours) / float64(theirs), Unit: "×", How: "computed"})
	return &c.Figures[len(c.Figures)-1]
}

// Cells of tables.

func tokenCell(n int) countCell { return countCell{Value: float64(n), Unit: "tokens", How: "measured"} }

func numberCell(n int) countCell { return countCell{Value: float64(n), How: "measured"} }

func shareCell(a, b int) countCell {
	return countCell{Value: float64(a) / float64(b), Unit: "×", How: "computed"}
}

// spread sets the 10th and the 90th percentile of values.
func (c countCell) spread(values []float64) countCell {
	sorted := slices.Sorted(slices.Values(values))
	at := func(share float64) float64 {
		whole, part := math.Modf(share * float64(len(sorted)-1))
		i := int(whole)
		return sorted[i]*(1-part) + sorted[min(i+1, len(sorted)-1)]*part
	}
	c.Low, c.High = at(0.1), at(0.9)
	return c
}

// together returns the tokens that a model writes and reads.
func together(s tally.Side) int { return s.Written + s.Read }

// newCounter returns a counter of tokens of o200k_base.
func newCounter(t *testing.T) budget.Counter {
	t.Helper()
	counter, err := budget.NewCounter("o200k_base", 0)
	if err != nil {
		t.Fatal(err)
	}
	return counter
}

// TestServedCounts counts tasks over MCP: each is done on the flat surface, with a tool for each function, and by chains.
func TestServedCounts(t *testing.T) {
	t.Parallel()
	c := &counts{
		Name: "tables", Title: "Answers, pages and writes, counted by a test",
		Question: "What do lean answers, pages and chains come to over services with answers of usual size? Each part does one task in two " +
			"or more ways, and checks what comes back. *Written* is each call as a model writes it, `{\"name\":…,\"arguments\":…}`; *read* is " +
			"the text of each answer. Tokens are of o200k_base and exact.",
		Corpus: []string{
			"an inventory of sites, racks and devices, a service on loopback with an OpenAPI document; an object has some 90 tokens",
			"eight services on loopback, which answer fifty fields each",
		},
	}
	for _, count := range []func(*testing.T, *counts){countProvisioning, countLarge, countWrite, countHealth} {
		count(t, c)
	}
	c.hold(t)
}
