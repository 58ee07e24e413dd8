package answer

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/budget"
)

// TestSampled checks for random texts that a sample has their bytes in order. It is everything if the texts are no longer than the maximum;
// otherwise it has the maximum length and spans the texts from the beginning to near the end.
func TestSampled(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var texts [][]byte
		for range rapid.IntRange(0, 20).Draw(t, "texts") {
			texts = append(texts, make([]byte, rapid.IntRange(0, 300).Draw(t, "length")))
		}
		all := bytes.Join(texts, nil)
		for at, i := 0, 0; i < len(texts); i++ { // each byte is the number of its piece
			for j := range texts[i] {
				texts[i][j] = byte(at / pieceBytes)
				all[at] = texts[i][j]
				at++
			}
		}
		maximum := pieceBytes * rapid.IntRange(2, 16).Draw(t, "pieces")
		sample := appendSample(make([]byte, 0, maximum), len(texts), func(i int) []byte { return texts[i] },
			max(0, len(all)-maximum)/(maximum/pieceBytes-1))
		switch {
		case len(all) <= maximum && !bytes.Equal(sample, all):
			t.Fatalf("sample of %d bytes, want all %d", len(sample), len(all))
		case len(all) > maximum && (len(sample) != maximum || !bytes.HasPrefix(sample, all[:pieceBytes])):
			t.Fatalf("sample of %d bytes, want %d from the beginning of %d", len(sample), maximum, len(all))
		case len(all) > maximum && int(all[len(all)-1])-int(sample[maximum-1]) > 1:
			t.Fatalf("the sample ends at piece %d, want about %d, where the text ends", sample[maximum-1], all[len(all)-1])
		}
		for i := 1; i < len(sample); i++ {
			if sample[i] < sample[i-1] {
				t.Fatalf("sample out of order: %v", sample)
			}
		}
	})
}

// TestEstimate: the estimate of a text covers all of it, even if its beginning differs from the rest. A short text is counted.
func TestEstimate(t *testing.T) {
	t.Parallel()
	counter, err := budget.NewCounter("", 0)
	if err != nil {
		t.Fatal(err)
	}
	f := &Form{Meter: budget.NewMeter(counter, 0)}
	for name, text := range map[string]string{
		"one sort":  strings.Repeat(`{"id":7,"name":"a thing of some sort"},`, 3000),
		"two sorts": strings.Repeat(`"3f9a1c77-0b52-4d8e-9a66-d2c4e8f10b35",`, 1000) + strings.Repeat("plain words that go on and on, ", 3000),
		"a list":    "[" + strings.Repeat("1234567,", 400) + "0]",
	} {
		exact := f.Meter.Count([]byte(text))
		if got := f.EstimateText([]byte(text)); math.Abs(float64(got-exact)) > .15*float64(exact) {
			t.Errorf("%s: estimate of %d tokens for %d bytes, want about %d", name, got, len(text), exact)
		}
		halves := []string{text[:len(text)/2], text[len(text)/2:]}
		if got := f.estimate(2, func(i int) []byte { return []byte(halves[i]) }, minSample); math.Abs(float64(got-exact)) > .15*float64(exact) {
			t.Errorf("%s in two parts: estimate of %d tokens, want about %d", name, got, exact)
		}
	}
	many := func(int) []byte { return []byte(`{"id":"a-1","value":7}`) }
	for _, n := range []int{2, 9, 11, 12, 50} { // some are guessed, others counted
		one := f.Meter.Count(many(0))
		if got := f.estimate(n, many, minSample); got < n*one/2 || got > n*one*2 {
			t.Errorf("%d short texts: estimate of %d tokens, want half to twice of %d", n, got, n*one)
		}
	}
	short := []byte(`{"ok":true,"of":["a","short","answer"]}`)
	if got, want := f.EstimateText(short), f.Meter.Count(short); got != want || f.EstimateText(nil) != 0 {
		t.Errorf("short text: %d tokens, want %d", got, want)
	}
}
