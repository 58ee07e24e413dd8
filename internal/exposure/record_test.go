package exposure_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/internal/exposure"
	"github.com/onecall-mcp/onecall/steps"
)

func labels(r *exposure.Record, value string) string {
	return strings.Join(r.Labels(gjson.Parse(value)), " ")
}

// TestRecord: a value that a client sends has the labels of what it was shown, but for what it had sent before.
func TestRecord(t *testing.T) {
	t.Parallel()
	r := exposure.Of(&steps.Session{})
	r.Send([]byte(`{"steps":[{"fn":"mail.send","args":{"to":"ann@example.com","n":[12,true,"ada"]}}]}`), 2)
	r.Show([]string{"untrusted"})
	r.Send([]byte(`{"args":{"to":"bob@example.com"}}`), 2)
	r.Show([]string{"secret", "untrusted"})
	r.Send([]byte(`["late"]`), 2)
	for value, want := range map[string]string{
		`"ann@example.com"`:      "",
		`"\u0061nn@example.com"`: "", // the same text
		`12`:                     "",
		`"mail.send"`:            "",
		`"bob@example.com"`:      "untrusted",
		`"late"`:                 "untrusted secret",
		`"ann@example.org"`:      "untrusted secret",
		`"ann@example.com "`:     "untrusted secret",
		`"ada"`:                  "untrusted secret", // too short
		`"12"`:                   "untrusted secret", // a text, not the number
		`12.0`:                   "untrusted secret",
		`true`:                   "untrusted secret",
		`null`:                   "untrusted secret",
	} {
		if got := labels(r, value); got != want {
			t.Errorf("%s has %q, want %q", value, got, want)
		}
	}
}

// TestRecordBound: of a client that sends very much, not all is remembered, and what is not counts as made of what it was shown.
func TestRecordBound(t *testing.T) {
	t.Parallel()
	var all []string
	for i := range 20_000 {
		all = append(all, fmt.Sprintf("%q", fmt.Sprint("value ", i)))
	}
	r := &exposure.Record{}
	r.Send([]byte("["+strings.Join(all, ",")+"]"), 1)
	r.Show([]string{"a"})
	if first, last := labels(r, all[0]), labels(r, all[len(all)-1]); first != "" || last != "a" {
		t.Errorf("the first has %q and the last %q, want none and a", first, last)
	}
}

// TestRecordModel compares a record with a list of all that happened.
func TestRecordModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c"}
		values := []string{`"one text"`, `"another"`, `7`, `"ab"`, `false`}
		r := &exposure.Record{}
		var shown []string
		sent := map[string][]string{} // by value: the labels that had been shown when it was first sent
		for range rapid.IntRange(0, 20).Draw(t, "events") {
			if rapid.Bool().Draw(t, "show") {
				some := rapid.SliceOfN(rapid.SampledFrom(names), 0, 2).Draw(t, "labels")
				r.Show(some)
				for _, label := range some {
					if !slices.Contains(shown, label) {
						shown = append(shown, label)
					}
				}
				continue
			}
			value := rapid.SampledFrom(values).Draw(t, "value")
			r.Send([]byte(`{"x":[`+value+`]}`), len(names))
			if _, known := sent[value]; !known {
				sent[value] = slices.Clone(shown)
			}
		}
		for _, value := range values {
			want := shown
			if before, known := sent[value]; known && len(value) > 4 || known && value == `7` {
				want = before
			}
			if value == `false` {
				want = shown
			}
			got := r.Labels(gjson.Parse(value))
			slices.Sort(got)
			want = slices.Sorted(slices.Values(want))
			if !slices.Equal(got, want) {
				t.Fatalf("%s has %q, want %q", value, got, want)
			}
		}
	})
}
