package steps

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
)

func TestScrubJSON(t *testing.T) {
	t.Parallel()
	s := NewScrubber([]string{`pa"ss/wörd+<1`, "12345678", "nabcdef", "short"})
	for _, test := range []struct{ value, want string }{
		{`{"a":1.10,"b":["x"]}`, `{"a":1.10,"b":["x"]}`},
		{`{"as":"pa\"ss/wörd+<1","n":12345678,"m":912345678}`, `{"as":"[redacted]","n":"[redacted]","m":912345678}`},
		{`["pa\"ss\/w\u00f6rd+\u003c1","p\u0061\"ss/w\u00F6rd+<1"]`, `["[redacted]","[redacted]"]`},
		{`{"json in a string":"{\"k\":\"pa\\\"ss/w\\u00f6rd+<1\"}"}`, `{"json in a string":"{\"k\":\"[redacted]\"}"}`},
		{`{"12345678":"?k=pa%22ss%2Fw%C3%B6rd%2B%3C1"}`, `{"[redacted]":"?k=[redacted]"}`},
		{`"x\nabcdef"`, `"x\nabcdef"`}, // a line break, and no secret
		{`"x\nnabcdef"`, `"x\n[redacted]"`},
		{`not JSON: 12345678`, `not JSON: [redacted]`},
		{`"short"`, `"short"`},
	} {
		if got := string(s.JSON([]byte(test.value))); got != test.want {
			t.Errorf("%s gives %s, want %s", test.value, got, test.want)
		}
	}
	for _, before := range []string{"", "u", "us", "user:", "user7:"} {
		for _, after := range []string{"", "x", "xy", "xyz"} {
			for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
				text := encoding.EncodeToString([]byte(before + "12345678" + after))
				if got := s.Text("Basic " + text); !strings.Contains(got, "[redacted]") {
					t.Errorf("%q before and %q after: %s", before, after, got)
				}
			}
		}
	}
	if NewScrubber([]string{"short"}) != nil || string((*Scrubber)(nil).JSON([]byte(`"x"`))) != `"x"` {
		t.Error("there is nothing to look for")
	}
}

// TestScrubbedIsJSON holds that what is scrubbed stays JSON, and holds none of the secrets in any of its strings.
func TestScrubbedIsJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringN(6, 20, -1).Draw(t, "secret")
		s := NewScrubber([]string{secret})
		if s == nil || strings.ToValidUTF8(secret, "") != secret || strings.Contains(scrubbed, secret) {
			t.Skip()
		}
		text := rapid.String().Draw(t, "before") + secret + rapid.String().Draw(t, "after")
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
			if strings.Contains(key, secret) || strings.Contains(list[0].(string), secret) {
				t.Fatalf("%s holds %q", got, secret)
			}
		}
	})
}

func TestScrubbedCalls(t *testing.T) {
	t.Parallel()
	const secret = "hunter2hunter"
	fn := Function{Spec: Spec{Name: "a.echo"}, Call: func(ctx context.Context, args []byte) ([]byte, error) {
		AttendantOf(ctx).Progress(ctx, 1, 2, "with "+secret)
		AttendantOf(ctx).Log(ctx, "info", secret, []byte(`{"s":"`+secret+`"}`))
		if string(args) == `{"fail":true}` {
			f := fault.New(fault.FunctionFailed, "401 for %s", secret)
			f.Body = []byte(`{"token":"hunter2hunter"}`)
			return nil, f
		}
		return args, nil
	}}
	r, err := NewRegistry([]Function{fn}, nil)
	if err != nil {
		t.Fatal(err)
	}
	entry, _ := r.Scrub(NewScrubber([]string{secret})).Resolve("a.echo")
	var told []string
	ctx := WithAttendant(t.Context(), &Attendant{
		Progress: func(_ context.Context, _, _ float64, message string) { told = append(told, message) },
		Log:      func(_ context.Context, _, logger string, data []byte) { told = append(told, logger, string(data)) },
	})
	got, err := entry.Call(ctx, []byte(`{"s":"hunter2hunter"}`))
	if err != nil || string(got) != `{"s":"[redacted]"}` || string(entry.Shown([]byte(`{"s":"hunter2hunter"}`))) != `{"s":"[redacted]"}` {
		t.Errorf("%s, %v", got, err)
	}
	_, err = entry.Call(ctx, []byte(`{"fail":true}`))
	if f, _ := fault.As(err); f == nil || f.Message != "401 for [redacted]" || string(f.Body) != `{"token":"[redacted]"}` {
		t.Errorf("%v", err)
	}
	if all := strings.Join(told, " "); len(told) != 6 || strings.Contains(all, secret) {
		t.Errorf("told %s", all)
	}
}
