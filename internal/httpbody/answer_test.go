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
		read, whole, err := Read(t.Context(), &http.Response{Body: io.NopCloser(body), ContentLength: -1}, c.maximum)
		if whole != c.whole || !errors.Is(err, c.err) || whole && err == nil && string(read.Data) != c.body {
			t.Errorf("%q within %d: got %q, %v, %v, want whole %v, %v", c.body, c.maximum, read.Data, whole, err, c.whole, c.err)
		}
	}
	large := strings.Repeat("a", 5000)
	for _, announced := range []int64{-1, 0, 4000, 5000, 6000, 1 << 62} { // a length may be wrong
		for maximum, whole := range map[int64]bool{-1: true, 4999: false, 5000: true, 5001: true} {
			response := &http.Response{Body: io.NopCloser(strings.NewReader(large)), ContentLength: announced}
			if body, ok, err := Read(t.Context(), response, maximum); ok != whole || err != nil || ok && string(body.Data) != large {
				t.Errorf("%d announced, at most %d: got %d bytes, %v, %v", announced, maximum, len(body.Data), ok, err)
			}
		}
	}
}

func TestResult(t *testing.T) {
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
		{"application/json", "br", "xx", `{"type":"resource","mimeType":"application/json","size":2,"data":"eHg="}`, ""},
		{"text/plain", "identity", `[1, 2]`, `[1,2]`, `[1,2]`},
		{"text/html; charset=iso-8859-1", "", "<b>\xe9", `"<b>é"`, `"<b>é"`},
		{"", "", "\ufeffa\xff", `{"type":"resource","mimeType":"application/octet-stream","size":5,"data":"77u/Yf8="}`, `{"type":"resource","mimeType":"application/octet-stream","size":5,"data":"77u/Yf8="}`},
		{"application/json", "", "\ufeff{}", `{}`, `{}`},
		{"text/csv", "", "a\xff", `"a�"`, `"a�"`},
		{"application/octet-stream", "", "\x00", `{"type":"resource","mimeType":"application/octet-stream","size":1,"data":"AA=="}`,
			`{"type":"resource","mimeType":"application/octet-stream","size":1,"data":"AA=="}`},
		{"image/png", "", "text", `{"type":"image","mimeType":"image/png","size":4,"data":"dGV4dA=="}`, `{"type":"image","mimeType":"image/png","size":4,"data":"dGV4dA=="}`},
		{"image/svg+xml", "", "<svg/>", `"<svg/>"`, `"<svg/>"`},
	} {
		header := http.Header{"Content-Type": {c.contentType}, "Content-Encoding": {c.encoding}}
		result := func(typed bool) ([]byte, string, error) {
			body, _, err := Read(t.Context(), &http.Response{Body: io.NopCloser(strings.NewReader(c.body))}, -1)
			if err != nil {
				t.Fatal(err)
			}
			defer body.Release()
			return body.Result(header, typed)
		}
		if got, problem, err := result(false); err != nil || problem != "" || string(got) != c.plain {
			t.Errorf("%s %q: got %s, %q, want %s", c.contentType, c.body, got, problem, c.plain)
		}
		if got, problem, err := result(true); err != nil || (problem == "") != (c.typed != "") || string(got) != c.typed {
			t.Errorf("%s %q, typed: got %s, %q, want %q", c.contentType, c.body, got, problem, c.typed)
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
		value, problem := Value(header, data, typed)
		if problem != "" {
			value = Excerpt(header, data)
		}
		if value != nil && (!json.Valid(value) || !utf8.Valid(value)) {
			t.Fatalf("the value is not valid JSON: %q", value)
		}
		if problem == "" && bytes.ContainsAny(value, "\n\r") {
			t.Fatalf("the value has more than one line: %q", value)
		}
	})
}

// TestBrokenJSON: JSON that is not text in its character set has no value, so no byte is replaced unnoticed.
func TestBrokenJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ contentType, body, want string }{
		{"application/json", "{\"a\":\"caf\xe9\"}", "not UTF-8"},
		{"application/problem+json", "\"\xc3(\"", "not UTF-8"},
		{"application/json; charset=unknown", "\"\xff\"", "not UTF-8"},
		{"application/json; charset=gbk", "\"\xff\"", "not gbk"},
		{"application/json; charset=utf-16le", "\"\x00\"\x00", ""},
		{"application/json; charset=gb18030", "\"\x84\x31\xa4\x37\"", ""},
		{"application/json; charset=utf-8", "\"\ufffd\"", ""},
		{"text/plain", "\"\xff\"", ""},
	} {
		for _, typed := range []bool{false, true} {
			_, problem := Value(http.Header{"Content-Type": {c.contentType}}, []byte(c.body), typed)
			if (problem == "") != (c.want == "") || !strings.Contains(problem, c.want) {
				t.Errorf("%s %q, typed %v: got %q, want %q", c.contentType, c.body, typed, problem, c.want)
			}
		}
	}
}

func TestPromised(t *testing.T) {
	t.Parallel()
	const octets = "application/octet-stream"
	for _, c := range []struct {
		sent, declared string // declared: separated by commas
		body           string
		want, shown    string
	}{
		{"text/html; charset=utf-8", "application/json", "<p>", "with text/html, where the document declares application/json", ""},
		{"text/plain", "application/json,text/csv", "x", "with text/plain, where the document declares application/json, text/csv", ""},
		{"Text/CSV", "application/json,text/csv", "x", "", "Text/CSV"},
		{"application/vnd.a+json;v=1", "application/json; charset=utf-8", "1", "", "application/vnd.a+json;v=1"},
		{"application/json", "application/hal+json", "1", "", "application/json"},
		{"text/xml", "application/xml", "<a/>", "", "text/xml"},
		{"application/xhtml+xml", "text/xml", "<a/>", "with application/xhtml+xml, where the document declares text/xml", ""},
		{"application/xhtml+xml", "application/json", "<a/>", "with application/xhtml+xml, where the document declares application/json", ""},
		{"text/html", "text/*", "<p>", "", "text/html"},
		{"image/png", "text/*", "x", "with image/png, where the document declares text/*", ""},
		{"text/html", "*/*", "<p>", "", "text/html"},
		{"text/html", "json", "<p>", "", "text/html"},
		{"text/html", "", "<p>", "", "text/html"},
		{"text/html", "application/json", " \n", "", "text/html"},
		{"", "application/json", "<p>", "", "application/json"},
		{octets, "application/json,text/json", "{}", "", "application/json"},
		{octets, "application/pdf", "x", "with " + octets + ", where the document declares application/pdf", ""},
		{"", "application/pdf", "x", "", ""},
	} {
		header := http.Header{"Content-Type": {c.sent}}
		shown, problem := Promised(header, []byte(c.body), strings.FieldsFunc(c.declared, func(r rune) bool { return r == ',' }))
		if problem != c.want || problem == "" && shown.Get("Content-Type") != c.shown || header.Get("Content-Type") != c.sent {
			t.Errorf("%s for %s: got %q and %v, want %q and %s", c.sent, c.declared, problem, shown, c.want, c.shown)
		}
	}
}
