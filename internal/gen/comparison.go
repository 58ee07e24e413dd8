package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/onecall-mcp/onecall/internal/figure"
)

const comparisonPage = "docs/comparison.md"

// tableMark matches the place of a table in a page, with its section of bench/results and its title.
var tableMark = regexp.MustCompile(`(?s)<!-- table of bench/results/(\w+)\.json, made by go generate: ([^\n]+) -->\n.*?<!-- end -->`)

// commentsMark matches the place of comments in a page, with their section and the words that they begin with.
var commentsMark = regexp.MustCompile(`(?s)<!-- notes of bench/results/(\w+)\.json, made by go generate: ([^\n]+) -->\n.*?<!-- end -->`)

// fillComparison returns the page of the comparison, with tables and comments from the measured results.
func fillComparison(root string) ([]byte, error) {
	page, err := os.ReadFile(filepath.Join(root, comparisonPage))
	if err != nil {
		return nil, err
	}
	var failed error
	page = tableMark.ReplaceAllFunc(page, func(mark []byte) []byte {
		names := tableMark.FindSubmatch(mark)
		t, err := readTable(root, string(names[1]), string(names[2]))
		if err != nil {
			failed = fmt.Errorf("%s: %w", comparisonPage, err)
			return mark
		}
		head, _, _ := strings.Cut(string(mark), "\n")
		return fmt.Appendf(nil, "%s\n%s<!-- end -->", head, t.markdown())
	})
	page = commentsMark.ReplaceAllFunc(page, func(mark []byte) []byte {
		names := commentsMark.FindSubmatch(mark)
		text, err := readComments(root, string(names[1]), string(names[2]))
		if err != nil {
			failed = fmt.Errorf("%s: %w", comparisonPage, err)
			return mark
		}
		head, _, _ := strings.Cut(string(mark), "\n")
		return fmt.Appendf(nil, "%s\n%s<!-- end -->", head, text)
	})
	return page, failed
}

// readComments returns the comments of a section that have a prefix, as a list. There may be none.
func readComments(root, section, prefix string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "bench/results", section+".json"))
	if err != nil {
		return "", err
	}
	var results struct {
		Comments []string `json:"notes"`
	}
	if err := json.Unmarshal(text, &results); err != nil {
		return "", fmt.Errorf("the section %s: %w", section, err)
	}
	var b strings.Builder
	for _, comment := range results.Comments {
		if rest, ok := strings.CutPrefix(comment, prefix); ok {
			b.WriteString("- **" + prefix + "**" + rest + "\n")
		}
	}
	return b.String(), nil
}

// resultTable is a table of measured results.
type resultTable struct {
	Title   string
	Columns []string
	Rows    []struct {
		Name  string
		Cells []resultCell
	}
}

type resultCell struct {
	Value      float64
	Unit, Text string
}

// readTable returns the table with a title in a section.
func readTable(root, section, title string) (*resultTable, error) {
	text, err := os.ReadFile(filepath.Join(root, "bench/results", section+".json"))
	if err != nil {
		return nil, err
	}
	var results struct{ Tables []resultTable }
	if err := json.Unmarshal(text, &results); err != nil {
		return nil, fmt.Errorf("the section %s: %w", section, err)
	}
	for _, t := range results.Tables {
		if t.Title == title {
			return &t, nil
		}
	}
	return nil, fmt.Errorf("the section %s has no table %q", section, title)
}

func (t *resultTable) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.TrimSpace(strings.Join(t.Columns, " | ")), strings.Repeat("---|", len(t.Columns)))
	for _, row := range t.Rows {
		b.WriteString("| " + row.Name)
		for _, c := range row.Cells {
			b.WriteString(" | " + c.text())
		}
		b.WriteString(" |\n")
	}
	return b.String()
}

// text returns the number with its unit. The page names tokens above the table, so they have no unit.
func (c *resultCell) text() string {
	switch {
	case c.Text != "":
		return c.Text
	case c.Unit == "" || c.Unit == "tokens":
		return figure.Text(c.Value)
	default:
		return figure.Text(c.Value) + " " + c.Unit
	}
}
