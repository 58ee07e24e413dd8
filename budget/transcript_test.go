package budget_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/transcript"
)

// TestTranscripts reads ../testdata/budget. In a section whose name begins with fetch, each line has a stored value, the fetch and its
// answer: `VALUE ← FETCH ⇒ ANSWER`. In a section whose name begins with probe, each line has a value, and the shape, count and modes of its
// probe. A fault is written with its code, its place, its message, and the nearest names. OBJECTS and LINES with a number are long values.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	transcript.Each(t, "../testdata/budget/*.txtar", func(t *testing.T, archive *txtar.Archive) {
		transcript.Replay(t, archive.Files, func(t *testing.T, section *txtar.File) string {
			r := results(t, &budget.ResultsOptions{PageSize: 2})
			return transcript.Arrow(t, string(section.Data), func(question string) string {
				if value, how, fetched := strings.Cut(question, " ← "); fetched {
					return fetchAs(t, r, valueOf(value), how)
				}
				return probeOf(t, r, valueOf(question))
			})
		})
	})
}

var long = regexp.MustCompile(`^(OBJECTS|LINES) (\d+)$`)

func valueOf(text string) string {
	m := long.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	n, _ := strconv.Atoi(m[2])
	if m[1] == "LINES" {
		return string(lineText(n))
	}
	return string(numbered(n))
}

// fetchAs makes the fetch that a JSON text describes; `within` is the room for the answer in bytes.
func fetchAs(t *testing.T, r *budget.Results, value, how string) string {
	var f struct {
		Mode, Query    string
		Page, PageSize *int
		Keys           []string
		Within         int
	}
	if err := json.Unmarshal([]byte(how), &f); err != nil {
		t.Fatal(how, err)
	}
	request := budget.Fetch{Mode: f.Mode, Query: f.Query, FilterKeys: f.Keys, PageSet: f.Page != nil, PageSizeSet: f.PageSize != nil}
	if f.Page != nil {
		request.Page = *f.Page
	}
	if f.PageSize != nil {
		request.PageSize = *f.PageSize
	}
	got, err := fetch(t, r, value, request, within(f.Within))
	if err == nil {
		return got
	}
	e, ok := fault.As(err)
	if !ok {
		t.Fatalf("%s: %v, want an error with a code", how, err)
	}
	text := fmt.Sprintf("!%s at %s: %s", e.Code, e.At, e.Message)
	if len(e.Nearest) > 0 {
		text += fmt.Sprintf(" nearest %q", e.Nearest)
	}
	if len(e.Available) > 0 {
		text += fmt.Sprintf(" of %q", e.Available)
	}
	return text
}

func probeOf(t *testing.T, r *budget.Results, value string) string {
	answer, err := r.Probe(context.Background(), "me", []byte(value), 200)
	must(t, err)
	p := decode[probe](t, answer)
	return fmt.Sprintf("%q; %d; %s", p.Shape, p.Count, strings.Join(p.Modes, " "))
}
