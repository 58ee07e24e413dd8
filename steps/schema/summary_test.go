package schema_test

import (
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/steps/schema"
)

func TestSummary(t *testing.T) {
	t.Parallel()
	for description, want := range map[string]string{
		"":                                 "",
		"Lists devices.":                   "Lists devices",
		"Lists devices. Paged by cursor.":  "Lists devices",
		"Uses e.g. this one. And more.":    "Uses e.g. this one",
		"Needs v1.2 of it. More.":          "Needs v1.2 of it",
		"Two\nlines\n\nof text":            "Two lines of text",
		"Really? Yes.":                     "Really?",
		strings.Repeat("word ", 40):        strings.TrimSpace(strings.Repeat("word ", 23)) + "…",
		strings.Repeat("é", 200):           strings.Repeat("é", 119) + "…",
		"See https://example.com/a.b now.": "See https://example.com/a.b now",
	} {
		if got := schema.Summary(description); got != want {
			t.Errorf("Summary of %q is %q, want %q", description, got, want)
		}
	}
}
