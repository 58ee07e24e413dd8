package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// measured is bench/compare/results.json.
type measured struct {
	Rounds   int
	Versions map[string]string
	Arms     map[string]struct {
		List, RoundTrips, Wrote, Read int
		Failure                       struct {
			OK, SaysWhere, SaysWhatWasWritten bool
			Answer, Files, WrittenAgain       int
		}
		Mistake   struct{ Files int }
		Dependent struct{ Fastest, Median float64 } // milliseconds
	}
}

// arms are what is compared, in the order of the tables.
var arms = []struct{ key, name, pkg string }{
	{"bare", "bare MCP", "@modelcontextprotocol/sdk"},
	{"onecall", "onecall", ""},
	{"cloudflare", "Cloudflare code mode", "@cloudflare/codemode"},
	{"aiSDK", "AI SDK code mode", "@ai-sdk/code-mode"},
	{"utcp", "UTCP code mode", "@utcp/code-mode"},
}

const comparisonPage = "docs/comparison.md"

// comparison is the page of the comparison, whose tables are made from what was measured.
func comparison(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, "bench/compare/results.json"))
	if err != nil {
		return nil, err
	}
	var m measured
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, err
	}
	page, err := os.ReadFile(filepath.Join(root, comparisonPage))
	if err != nil {
		return nil, err
	}
	for name, table := range map[string]string{"task": m.task(), "failure": m.failure(), "time": m.time()} {
		begin, end := "<!-- "+name+": made by go generate from bench/compare/results.json -->\n", "<!-- end -->"
		before, rest, found := strings.Cut(string(page), begin)
		_, after, ended := strings.Cut(rest, end)
		if !found || !ended {
			return nil, fmt.Errorf("%s lacks the mark of the table %q", comparisonPage, name)
		}
		page = fmt.Appendf(nil, "%s%s%s%s%s", before, begin, table, end, after)
	}
	return page, nil
}

// table writes a row for each arm, under a head.
func (m *measured) table(head string, row func(key string) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| | %s |\n|---|%s\n", head, strings.Repeat("---|", strings.Count(head, " | ")+1))
	for _, arm := range arms {
		name := arm.name
		if version := m.Versions[arm.pkg]; version != "" {
			name += " (`" + arm.pkg + "` " + version + ")"
		}
		fmt.Fprintf(&b, "| %s | %s |\n", name, row(arm.key))
	}
	return b.String()
}

func (m *measured) task() string {
	return m.table("tools, at the start | round trips | written | read", func(key string) string {
		a := m.Arms[key]
		return fmt.Sprintf("%s | %d | %d | %d", thousands(a.List), a.RoundTrips, a.Wrote, a.Read)
	})
}

func (m *measured) failure() string {
	says := func(does bool) string {
		if does {
			return "yes"
		}
		return "no"
	}
	const head = "reported as a failure | names the failed file | says what was written | files written again | " +
		"files written before the misspelled tool is noticed"
	return m.table(head, func(key string) string {
		f, mistake := m.Arms[key].Failure, m.Arms[key].Mistake
		return fmt.Sprintf("%s | %s | %s | %d of %d | %d of 10",
			says(!f.OK), says(f.SaysWhere), says(f.SaysWhatWasWritten), f.WrittenAgain, f.Files, mistake.Files)
	})
}

func (m *measured) time() string {
	head := fmt.Sprintf("fastest of %d rounds | against bare MCP | median", m.Rounds)
	return m.table(head, func(key string) string {
		d := m.Arms[key].Dependent
		return fmt.Sprintf("%.1f ms | %.1f times | %.1f ms", d.Fastest, d.Fastest/m.Arms["bare"].Dependent.Fastest, d.Median)
	})
}

// thousands writes a number below a million with a comma.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}
