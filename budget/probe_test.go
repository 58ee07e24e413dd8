package budget_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
)

type probe struct {
	Preview   string   `json:"preview"`
	Size      int      `json:"total_size"`
	Tokens    int      `json:"total_tokens"`
	Shape     string   `json:"shape"`
	Count     int      `json:"count"`
	Modes     []string `json:"available_modes"`
	Token     string   `json:"continuation_token"`
	ExpiresIn int      `json:"expires_in"`
}

func TestProbe(t *testing.T) {
	t.Parallel()
	r := results(t, nil)
	value := numbered(500)
	answer, err := r.Probe(t.Context(), "me", value, 200)
	must(t, err)
	p := decode[probe](t, answer)
	want := fmt.Sprintf(`{"preview":%s,"total_size":%d,"total_tokens":%d,"shape":"array of 500 {id,name,price}","count":500,`+
		`"available_modes":["summary","paginated","filtered","query","full"],"continuation_token":"%s","expires_in":300}`,
		marshal(string(value[:200])), len(value), counter(t, 0).Count(value, -1), p.Token)
	if string(answer) != want {
		t.Errorf("Probe = %s\nwant    %s", answer, want)
	}
	if stored, _, err := r.Value(t.Context(), "me", p.Token); err != nil || string(stored) != string(value) {
		t.Errorf("Value of the token is %.50s, %v; want the value", stored, err)
	}
}

func TestShapeIsCut(t *testing.T) {
	t.Parallel()
	r := results(t, nil)
	var object []string
	for i := range 60 {
		object = append(object, fmt.Sprintf(`"key%d":[1,2]`, i))
	}
	for _, value := range []string{
		"{" + strings.Join(object, ",") + "}",
		"[{" + strings.Join(object, ",") + "}]",
		`{"` + strings.Repeat("k", 73) + `":1,"` + strings.Repeat("l", 200) + `":2}`,
		`{"` + strings.Repeat("é", 71) + `":1,"` + strings.Repeat("l", 200) + `":2}`,
		`{"` + strings.Repeat("k", 100_000) + `":1}`,
	} {
		answer, err := r.Probe(t.Context(), "me", []byte(value), 0)
		must(t, err)
		shape := decode[probe](t, answer).Shape
		if utf8.RuneCountInString(shape) > 80 || !strings.HasSuffix(shape, "…}") {
			t.Errorf("%.40s: shape of %d characters, want at most 80: %s", value, utf8.RuneCountInString(shape), shape)
		}
	}
}

// Any probe costs at most 90 tokens plus its preview, and its preview is correct.
func TestProbeIsSmall(t *testing.T) {
	t.Parallel()
	c := counter(t, 0)
	r := results(t, nil)
	check := func(t rapid.TB, value string, runes int) {
		answer, err := r.Probe(context.Background(), "me", []byte(value), runes)
		must(t, err)
		var p probe
		if err := json.Unmarshal(answer, &p); err != nil {
			t.Fatalf("decoding the probe %s: %v", answer, err)
		}
		want := []rune(value)
		want = want[:min(len(want), max(0, min(runes, 200)))]
		if p.Preview != string(want) {
			t.Fatalf("the preview of %s is %q, want %q", value, p.Preview, string(want))
		}
		rest := answer[strings.Index(string(answer), `,"total_size":`):] // the tokens of two parts need not add up
		if n := c.Count(append([]byte(`{"preview":""`), rest...), -1); n > 90 {
			t.Fatalf("%d tokens besides the preview, want at most 90: %s", n, answer)
		}
	}
	emoji := make([]string, 40)
	for i := range emoji {
		emoji[i] = fmt.Sprintf(`"%c%c":1`, '🙂'+rune(i), '𒀀'+rune(i))
	}
	check(t, "["+strings.Repeat("{"+strings.Join(emoji, ",")+"},", 200_000/40)+"{}]", 200)
	check(t, "{"+strings.Join(emoji, ",")+"}", 200)
	check(t, string(numbered(20_000)), 200)
	rapid.Check(t, func(t *rapid.T) {
		check(t, jsonText(3).Draw(t, "value"), rapid.IntRange(-1, 250).Draw(t, "runes"))
	})
}

func TestPreviewOfBrokenUTF8(t *testing.T) {
	t.Parallel()
	answer, err := results(t, nil).Probe(t.Context(), "me", []byte("\"a\xff\xfeb\""), 200)
	if err != nil || !utf8.Valid(answer) || decode[probe](t, answer).Preview != "\"a\ufffd\ufffdb\"" {
		t.Errorf("Probe = %s, %v; want UTF-8 with the preview %q", answer, err, "\"a\ufffd\ufffdb\"")
	}
}

func TestProbeWithin(t *testing.T) {
	t.Parallel()
	memory := &recordingDriver{}
	r := results(t, nil)
	value := numbered(500)
	whole, err := r.ProbeWithin(t.Context(), "me", value, nil)
	if err != nil || len([]rune(decode[probe](t, whole).Preview)) != 200 {
		t.Fatalf("without an envelope: %s, %v; want a preview of 200 characters", whole, err)
	}
	fixed := len(whole) - len(marshal(string(value[:200]))) + 2
	for _, capacity := range []int{fixed, fixed + 1, fixed + 50, fixed + 100, len(whole) - 1} {
		var longest int
		answer, err := r.ProbeWithin(t.Context(), "me", value, within(capacity))
		if err != nil {
			t.Fatalf("probe within %d bytes: %v", capacity, err)
		}
		for n := range 201 {
			if fixed-2+len(marshal(string(value[:n]))) <= capacity {
				longest = n
			}
		}
		if p := decode[probe](t, answer); len(answer) > capacity || len(p.Preview) != longest {
			t.Errorf("within %d bytes: probe of %d bytes with a preview of %d, want %d", capacity, len(answer), len(p.Preview), longest)
		}
	}
	recorded, err := budget.NewResults(memory, nil)
	must(t, err)
	if _, err := recorded.ProbeWithin(t.Context(), "me", value, within(fixed-1)); fault.CodeOf(err) != fault.BudgetTooSmall {
		t.Errorf("probe that cannot fit: %v, want budget_too_small", err)
	}
	if memory.key != "" {
		t.Error("the result was stored, although no token was returned")
	}
}
