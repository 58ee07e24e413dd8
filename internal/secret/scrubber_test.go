package secret

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestScrubJSON(t *testing.T) {
	t.Parallel()
	s := New([]string{`pa"ss/wörd+<1`, "12345678", "nabcdef", "short", "Kä se/Y"})
	for _, test := range []struct{ value, want string }{
		{`{"a":1.10,"b":["x"]}`, `{"a":1.10,"b":["x"]}`},
		{`{"as":"pa\"ss/wörd+<1","n":12345678,"m":912345678}`, `{"as":"[redacted]","n":"[redacted]","m":912345678}`},
		{`["pa\"ss\/w\u00f6rd+\u003c1","p\u0061\"ss/w\u00F6rd+<1"]`, `["[redacted]","[redacted]"]`},
		{`{"json in a string":"{\"k\":\"pa\\\"ss/w\\u00f6rd+<1\"}"}`, `{"json in a string":"{\"k\":\"[redacted]\"}"}`},
		{`{"12345678":"?k=pa%22ss%2Fw%C3%B6rd%2B%3C1"}`, `{"[redacted]":"?k=[redacted]"}`},
		{`["k%C3%A4","K%C3%A4+se%2FY","K%c3%a4+se%2fY","K%c3%a4%20se%2fY"]`, `["k%C3%A4","[redacted]","[redacted]","[redacted]"]`},
		{`"x\nabcdef"`, `"x\nabcdef"`}, // a line break, and no secret
		{`"x\nnabcdef"`, `"x\n[redacted]"`},
		{`not JSON: 12345678`, `not JSON: [redacted]`},
		{`"short"`, `"short"`},
	} {
		if got := string(s.JSON([]byte(test.value))); got != test.want {
			t.Errorf("scrubbing %s: got %s, want %s", test.value, got, test.want)
		}
	}
	// The Base64 form of a secret depends on what is before and after it.
	for _, before := range []string{"", "u", "us", "user:", "user7:"} {
		for _, after := range []string{"", "x", "xy", "xyz"} {
			for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
				text := encoding.EncodeToString([]byte(before + "12345678" + after))
				if got := s.Text("Basic " + text); !strings.Contains(got, "[redacted]") {
					t.Errorf("the secret between %q and %q is not redacted: %s", before, after, got)
				}
			}
		}
	}
	for _, basic := range []string{"Basic YWxpY2U6b3Blbi1zZXNhbWU=", "basic YWxpY2U6b3Blbi1zZXNhbWU"} {
		if got := New([]string{basic}).Text("with open-sesame"); got != "with [redacted]" {
			t.Errorf("the password in %s is not redacted: %s", basic, got)
		}
	}
	if s := New([]string{"short"}); s != nil {
		t.Errorf("New with only a short secret returns %v, want nil", s)
	}
	if got := string((*Scrubber)(nil).JSON([]byte(`"x"`))); got != `"x"` {
		t.Errorf("a nil scrubber changes \"x\" to %s", got)
	}
}

// TestWith checks that With returns a scrubber that finds the added secrets and the former ones, the longest first.
func TestWith(t *testing.T) {
	t.Parallel()
	original := New([]string{"12345678"})
	more := original.With([]string{"0-12345678-9", "87654321"})
	const text = `{"a":"0-12345678-9","b":12345678,"c":87654321}`
	if got := string(more.JSON([]byte(text))); got != `{"a":"[redacted]","b":"[redacted]","c":"[redacted]"}` {
		t.Errorf("the scrubber with more secrets gives %s, want all three redacted", got)
	}
	if got := string(original.JSON([]byte(text))); got != `{"a":"0-[redacted]-9","b":"[redacted]","c":87654321}` {
		t.Errorf("the original scrubber, which With must not change, gives %s, want only 12345678 redacted", got)
	}
	if original.With([]string{"short"}) != original {
		t.Error("With only a short secret does not return its receiver")
	}
	if (*Scrubber)(nil).With(nil) != nil {
		t.Error("With of a nil scrubber, without secrets, is not nil")
	}
	if (*Scrubber)(nil).With([]string{"12345678"}) == nil {
		t.Error("With of a nil scrubber ignores the added secret")
	}
}

// TestScrubbedIsJSON checks that scrubbed JSON is still JSON, and that a key and a string in it no longer contain the secret.
func TestScrubbedIsJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		hidden := rapid.StringN(6, 20, -1).Draw(t, "secret")
		s := New([]string{hidden})
		if s == nil || strings.ToValidUTF8(hidden, "") != hidden || strings.Contains(Redacted, hidden) {
			t.Skip()
		}
		text := rapid.String().Draw(t, "before") + hidden + rapid.String().Draw(t, "after")
		value, err := json.Marshal(map[string]any{text: []any{text, 7, true, map[string]string{"k": text}}})
		if err != nil {
			t.Skip()
		}
		got := s.JSON(value)
		var decoded map[string][]any
		if err := json.Unmarshal(got, &decoded); err != nil {
			t.Fatalf("%s is not JSON: %v", got, err)
		}
		for key, list := range decoded {
			if strings.Contains(key, hidden) || strings.Contains(list[0].(string), hidden) {
				t.Fatalf("%s contains %q", got, hidden)
			}
		}
	})
}
