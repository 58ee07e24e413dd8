package budget_test

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/budget"
)

// TestEnvelopeLimits: a result fits if the whole answer fits, including its own number of tokens.
func TestEnvelopeLimits(t *testing.T) {
	t.Parallel()
	c := counter(t, 0)
	rapid.Check(t, func(t *rapid.T) {
		before, after := `{"ok":true,"result":`, `,"usage":{"tokens":,"ms":1}}`
		limit, number := rapid.IntRange(0, 60).Draw(t, "limit"), 0
		envelope := &budget.Envelope{Meter: budget.NewMeter(c, limit), Before: []byte(before), After: []byte(after)}
		if rapid.Bool().Draw(t, "numbered") {
			number = strings.Index(after, ":,") + 1
			envelope.Number = number
		}
		result := jsonText(1).Draw(t, "result")
		whole := before + result + after
		if number > 0 {
			n := envelope.Meter.SelfCount([]byte(before+result+after[:number]), []byte(after[number:]))
			whole = before + result + after[:number] + strconv.Itoa(n) + after[number:]
		}
		if cost := c.Count([]byte(whole), -1); envelope.Allows([]byte(result)) != (limit == 0 || cost <= limit) {
			t.Fatalf("%d tokens, limit %d: Allows returns %v, want %v: %s", cost, limit, envelope.Allows([]byte(result)), limit == 0 || cost <= limit, whole)
		}
	})
}

func TestEnvelopeInCharacters(t *testing.T) {
	t.Parallel()
	envelope := &budget.Envelope{Meter: budget.NewMeter(counter(t, 0), 0), Before: []byte("é"), After: []byte("é"), MaxRunes: 10}
	if !envelope.Allows(bytes.Repeat([]byte("é"), 8)) || envelope.Allows(bytes.Repeat([]byte("é"), 9)) {
		t.Error("an envelope of 10 characters, 2 of them used, does not allow exactly 8")
	}
	var none *budget.Envelope
	if !none.Allows(numbered(10_000)) {
		t.Error("a nil envelope does not allow a large result")
	}
}
