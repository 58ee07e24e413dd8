package budget_test

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"testing"

	tiktoken_loader "github.com/pkoukk/tiktoken-go-loader"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
)

func counter(t testing.TB, factor float64) budget.Counter {
	t.Helper()
	c, err := budget.NewCounter("", factor)
	must(t, err)
	return c
}

func TestNewCounter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		encoding string
		factor   float64
		code     fault.Code
	}{
		{"", 0, ""},
		{"o200k_base", 1, ""},
		{"o200k_base", 1.25, ""},
		{"", 0.001, ""},
		{"", 1000, ""},
		{"cl100k_base", 1, fault.BadRequest},
		{"O200K_BASE", 1, fault.BadRequest},
		{"", -1, fault.BadRequest},
		{"", 1e-9, fault.BadRequest},
		{"", 1e9, fault.BadRequest},
		{"", math.NaN(), fault.BadRequest},
		{"", math.Inf(1), fault.BadRequest},
		{"", math.Inf(-1), fault.BadRequest},
	} {
		c, err := budget.NewCounter(test.encoding, test.factor)
		if fault.CodeOf(err) != test.code {
			t.Errorf("NewCounter(%q, %v): %v, want %q", test.encoding, test.factor, err, test.code)
		}
		if err == nil && c.Encoding() != "o200k_base" {
			t.Errorf("NewCounter(%q, %v).Encoding() = %q, want o200k_base", test.encoding, test.factor, c.Encoding())
		}
	}
	_, err := budget.NewCounter("gpt2", 1)
	if e, _ := fault.As(err); e == nil || len(e.Available) != 1 || e.Available[0] != "o200k_base" {
		t.Errorf("NewCounter of an unknown encoding: %v, want o200k_base as available", err)
	}
}

func TestFactorRoundsUp(t *testing.T) {
	t.Parallel()
	ten := []byte(strings.Repeat(" a", 10)) // ten tokens
	for _, test := range []struct {
		factor float64
		want   int
	}{{0, 10}, {1, 10}, {1.1, 11}, {1.3, 13}, {1.01, 11}, {0.5, 5}, {0.51, 6}, {2.5, 25}, {1000, 10_000}, {0.001, 1}} {
		if n := counter(t, test.factor).Count(ten, -1); n != test.want {
			t.Errorf("10 tokens with factor %v count %d, want %d", test.factor, n, test.want)
		}
	}
}

func TestCountStopsAboveLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c, err := budget.NewCounter("", rapid.SampledFrom([]float64{0, 0.3, 1, 1.1, 1.7, 30}).Draw(t, "factor"))
		must(t, err)
		text := []byte(jsonText(2).Draw(t, "text"))
		exact := c.Count(text, -1)
		limit := rapid.OneOf(rapid.IntRange(0, 2*exact+1), rapid.Just(math.MaxInt)).Draw(t, "limit")
		if n := c.Count(text, limit); exact <= limit && n != exact || exact > limit && n <= limit {
			t.Fatalf("Count with limit %d = %d, want the exact count %d, or above the limit", limit, n, exact)
		}
	})
}

func TestEstimate(t *testing.T) {
	t.Parallel()
	m := budget.NewMeter(counter(t, 1.5), 0)
	for _, text := range [][]byte{nil, []byte("a few words"), numbered(100), numbered(20_000), lineText(50_000)} {
		exact, estimate := m.Count(text), m.Estimate(text)
		if off := math.Abs(float64(estimate-exact)) / float64(max(exact, 1)); off > 0.05 {
			t.Errorf("estimate of %[3]d for %[1]d tokens of %[2]d bytes, want it within 5 %%", exact, len(text), estimate)
		}
	}
}

// If possible, the meter decides by the number of bytes alone, so no token may be longer than LongestToken.
func TestLongestToken(t *testing.T) {
	t.Parallel()
	vocabulary, err := tiktoken_loader.NewOfflineLoader().LoadTiktokenBpe("https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken")
	must(t, err)
	longest := ""
	for token := range vocabulary {
		if len(token) > len(longest) {
			longest = token
		}
	}
	if len(longest) != budget.LongestToken {
		t.Errorf("the longest token has %d bytes, want LongestToken, %d", len(longest), budget.LongestToken)
	}
	if !budget.NewMeter(counter(t, 0), 1).Allows([]byte(longest)) {
		t.Errorf("a budget of one token does not allow the longest token %q", longest)
	}
}

func TestMeterAllows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c, err := budget.NewCounter("", rapid.SampledFrom([]float64{0, 0.5, 1, 1.3, 4}).Draw(t, "factor"))
		must(t, err)
		var pieces [][]byte
		for range rapid.IntRange(0, 4).Draw(t, "parts") {
			piece := jsonText(1).Draw(t, "part")
			if rapid.Bool().Draw(t, "long") {
				piece = strings.Repeat(piece, rapid.IntRange(0, 300).Draw(t, "times"))
			}
			pieces = append(pieces, []byte(piece))
		}
		cost := c.Count(bytes.Join(pieces, nil), -1)
		limit := max(0, rapid.OneOf(rapid.IntRange(cost-2, cost+2), rapid.IntRange(0, 4*cost+10)).Draw(t, "limit"))
		if got, want := budget.NewMeter(c, limit).Allows(pieces...), limit == 0 || cost <= limit; got != want {
			t.Fatalf("%d tokens, limit %d: Allows returns %v, want %v", cost, limit, got, want)
		}
	})
}

func TestMeter(t *testing.T) {
	t.Parallel()
	c := counter(t, 0)
	if m := budget.NewMeter(c, 0); m.Limit() != 0 || !m.Allows(numbered(10_000)) {
		t.Errorf("meter without a limit: Limit() = %d, want 0 and every text allowed", m.Limit())
	}
	if m := budget.NewMeter(c, -5); m.Limit() != 0 || !m.Allows([]byte("a")) {
		t.Errorf("meter with a negative limit: Limit() = %d, want 0 and every text allowed", m.Limit())
	}
	if m := budget.NewMeter(c, 7); m.Limit() != 7 || m.Count([]byte(" a a a")) != 3 || !m.Allows() {
		t.Errorf("Limit() = %d, Count() = %d, Allows() = %t; want 7, 3, true", m.Limit(), m.Count([]byte(" a a a")), m.Allows())
	}
	// "in" and "put" are one token together: the pieces are counted as one text.
	if m := budget.NewMeter(c, 1); !m.Allows([]byte("in"), []byte("put")) {
		t.Error("a budget of one token does not allow the two halves of a token")
	}
}

// byteCounter is a Counter of another package.
type byteCounter struct{ budget.Counter }

func (byteCounter) Count(text []byte, _ int) int { return len(text) }

func TestForeignCounter(t *testing.T) {
	t.Parallel()
	m := budget.NewMeter(byteCounter{}, 5)
	if !m.Allows([]byte("abc"), []byte("de")) || m.Allows([]byte("abc"), []byte("def")) {
		t.Error("Allows does not use the given counter")
	}
	for length, want := range map[int]int{0: 1, 8: 9, 9: 11, 97: 99, 98: 101, 997: 1001} {
		if n := m.SelfCount(make([]byte, length), nil); n != want {
			t.Errorf("SelfCount of %d bytes = %d, want %d", length, n, want)
		}
	}
}

func TestSelfCountIsExact(t *testing.T) {
	t.Parallel()
	check := func(t rapid.TB, c budget.Counter, before, after string) {
		n := budget.NewMeter(c, 0).SelfCount([]byte(before), []byte(after))
		if cost := c.Count([]byte(before+strconv.Itoa(n)+after), -1); cost != n {
			t.Fatalf("SelfCount = %d, want %d, the cost of the text with that number", n, cost)
		}
	}
	plain := counter(t, 0)
	for n := range 30 { // across the step from three digits, which are one token, to four
		check(t, plain, `{"result":"`+strings.Repeat(" a", 980+n)+`","tokens":`, "}")
	}
	for _, n := range []int{0, 1, 97, 98, 99, 9990, 9999, 99_995, 1_000_000} {
		check(t, plain, strings.Repeat(" a", n)+":", ",")
	}
	check(t, plain, "", "")
	rapid.Check(t, func(t *rapid.T) {
		c, err := budget.NewCounter("", rapid.SampledFrom([]float64{0, 0.01, 0.7, 1.1, 3, 1000}).Draw(t, "factor"))
		must(t, err)
		text := rapid.StringOf(rapid.RuneFrom([]rune("ab cD\n\t 'é語🙂.:,;{}[]\"\\/_-«\u0301")))
		before, after := text.Draw(t, "before"), text.Draw(t, "after")
		if rapid.Bool().Draw(t, "long") {
			before = strings.Repeat(before, rapid.IntRange(0, 200).Draw(t, "times"))
		}
		check(t, c, before, after)
	})
}
