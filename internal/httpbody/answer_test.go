package httpbody

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

func TestRead(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, c := range []struct {
		body    string
		maximum int64
		err     error
		whole   bool
	}{
		{"", 0, nil, true}, {"a", 0, nil, false}, {"abc", 3, nil, true}, {"abcd", 3, nil, false}, {"abcd", -1, nil, true},
		{"ab", 3, broken, true}, {"", -1, broken, true},
	} {
		body := io.Reader(strings.NewReader(c.body))
		if c.err != nil {
			body = io.MultiReader(body, iotest.ErrReader(c.err))
		}
		data, whole, err := Read(body, c.maximum)
		if whole != c.whole || !errors.Is(err, c.err) || whole && (string(data) != c.body || data == nil) {
			t.Errorf("%q within %d: got %q, %v, %v, want whole %v, %v", c.body, c.maximum, data, whole, err, c.whole, c.err)
		}
	}
}

func TestValue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		contentType, encoding, body string
		plain, typed                string // the expected values; "": the body is not valid JSON
	}{
		{"application/json", "", `{"a": 1.10}`, `{"a":1.10}`, `{"a":1.10}`},
		{"application/json", "", `7`, `"7"`, `7`},
		{"application/hal+json", "", `"x"`, `"\"x\""`, `"x"`},
		{"application/json", "", `{"a"`, `"{\"a\""`, ""},
		{"application/json", "", "\n ", `"\n "`, `null`},
		{"application/json", "", "", `null`, `null`},
		{"application/json", "br", "xx", `{"binary":true,"type":"application/json","size":2}`, ""},
		{"text/plain", "identity", `[1, 2]`, `[1,2]`, `[1,2]`},
		{"text/html; charset=iso-8859-1", "", "<b>\xe9", `"<b>é"`, `"<b>é"`},
		{"", "", "\ufeffa\xff", `{"binary":true,"type":"","size":5}`, `{"binary":true,"type":"","size":5}`},
		{"text/csv", "", "a\xff", `"a�"`, `"a�"`},
		{"application/octet-stream", "", "\x00", `{"binary":true,"type":"application/octet-stream","size":1}`,
			`{"binary":true,"type":"application/octet-stream","size":1}`},
	} {
		header := http.Header{"Content-Type": {c.contentType}, "Content-Encoding": {c.encoding}}
		if got, ok := Value(header, []byte(c.body), false); !ok || string(got) != c.plain {
			t.Errorf("%s %q: got %s, %v, want %s", c.contentType, c.body, got, ok, c.plain)
		}
		if got, ok := Value(header, []byte(c.body), true); ok != (c.typed != "") || ok && string(got) != c.typed {
			t.Errorf("%s %q, typed: got %s, %v, want %q", c.contentType, c.body, got, ok, c.typed)
		}
	}
}

// FuzzValue: any body becomes one valid JSON value, or else its excerpt is one.
func FuzzValue(f *testing.F) {
	f.Add("application/json", []byte(`{"a":[1,"é"]}`), true)
	f.Add("text/plain; charset=utf-16", []byte("a\x00"), false)
	f.Add("text/html; charset=gbk", []byte("\xff\xfe<"), true)
	f.Fuzz(func(t *testing.T, contentType string, data []byte, typed bool) {
		header := http.Header{"Content-Type": {contentType}}
		value, ok := Value(header, data, typed)
		if !ok {
			value = Excerpt(header, data)
			if !typed {
				t.Fatal("Value without typed reports no value")
			}
		}
		if value != nil && (!json.Valid(value) || !utf8.Valid(value)) {
			t.Fatalf("the value is not valid JSON: %q", value)
		}
		if ok && bytes.ContainsAny(value, "\n\r") {
			t.Fatalf("the value has more than one line: %q", value)
		}
	})
}
