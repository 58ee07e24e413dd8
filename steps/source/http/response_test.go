package http_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	httpsource "github.com/onecall-mcp/onecall/steps/source/http"
)

func TestBodies(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, `{"packed":true}`)
	_ = z.Close()
	deep := strings.Repeat("[", 200_000)
	tests := []struct {
		name, contentType, encoding, body, want string
	}{
		{"object with numbers and escapes as sent", "application/json", "", `{"z":717897987691852588770249,"a":1.10,"é":"\u00e9<"}`,
			`{"z":717897987691852588770249,"a":1.10,"é":"\u00e9<"}`},
		{"array without whitespace", "application/json", "", " [ 1 , 2 ]\n", `[1,2]`},
		{"JSON whatever the type says", "text/plain", "", `{"a":1}`, `{"a":1}`},
		{"JSON after a byte order mark", "application/json", "", "\ufeff{}", `{}`},
		{"a JSON scalar is text", "application/json", "", `12`, `"12"`},
		{"JSON lines are text", "application/x-ndjson", "", "{}\n{}\n", `"{}\n{}\n"`},
		{"broken JSON is text", "application/json", "", `{"a":`, `"{\"a\":"`},
		{"JSON too deep is text", "application/json", "", deep, `"` + deep + `"`},
		{"HTML is not escaped", "text/html", "", `<b>&amp;</b>`, `"<b>&amp;</b>"`},
		{"empty body", "text/plain", "", "", `null`},
		{"Latin-1", "text/plain; charset=ISO-8859-1", "", "caf\xe9", `"café"`},
		{"Latin-1 in JSON", "application/json; charset=latin1", "", "{\"a\":\"caf\xe9\"}", `{"a":"café"}`},
		{"Shift JIS", "text/plain; charset=shift_jis", "", "\x93\xfa\x96{", `"日本"`},
		{"invalid UTF-8 despite the declared charset", "text/plain; charset=utf-8", "", "caf\xe9!", `"caf` + "\ufffd" + `!"`},
		{"unknown character set", "text/plain; charset=klingon", "", "ok", `"ok"`},
		{"binary", "image/png", "", "\x89PNG\r\n\x1a\n\x00", `{"type":"image","mimeType":"image/png","size":9,"data":"iVBORw0KGgoA"}`},
		{"text of an unknown type", "application/toml", "", "a = 1", `"a = 1"`},
		{"unknown type with a zero byte", "application/octet-stream", "", "a\x00", `{"type":"resource","mimeType":"application/octet-stream","size":2,"data":"YQA="}`},
		{"gzip", "application/json", "gzip", packed.String(), `{"packed":true}`},
		{"an encoding that was not requested", "application/json", "br", "{}", `{"type":"resource","mimeType":"application/json","size":2,"data":"e30="}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, server := serve(t, httpsource.Options{}, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", test.contentType)
				if test.encoding != "" {
					w.Header().Set("Content-Encoding", test.encoding)
				}
				_, _ = io.WriteString(w, test.body)
			})
			result, err := invoke(t.Context(), s, "http.get", `{"url":"`+server.URL+`"}`)
			if err != nil {
				t.Fatal(err)
			}
			if got := gjson.GetBytes(result, "body").Raw; got != test.want {
				t.Errorf("got  %.200s\nwant %.200s", got, test.want)
			}
			if got := gjson.GetBytes(result, "status").Raw; got != "200" {
				t.Errorf("got status %s, want 200", got)
			}
		})
	}
}

// TestBodyThatIsNotText: JSON with bytes that are not UTF-8 fails the call, which is the only place where they could be told.
func TestBodyThatIsNotText(t *testing.T) {
	t.Parallel()
	for method, outcome := range map[string]fault.Outcome{"GET": "", "POST": fault.Applied} {
		s, server := serve(t, httpsource.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "{\"name\":\"caf\xe9\"}")
		})
		_, err := invoke(t.Context(), s, "http.request", `{"method":"`+method+`","url":"`+server.URL+`"}`)
		f, _ := fault.As(err)
		if f == nil || f.Code != fault.FunctionFailed || f.Status != 200 || f.Outcome != outcome || !strings.Contains(f.Message, "not UTF-8") ||
			string(f.Body) != `"{\"name\":\"caf`+"\ufffd"+`\"}"` {
			t.Errorf("%s: got %+v, body %s, want function_failed that names UTF-8, outcome %q", method, f, f.Body, outcome)
		}
	}
}

func TestResponseHeaders(t *testing.T) {
	t.Parallel()
	s, server := serve(t, httpsource.Options{}, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Set-Cookie", "session=1")
		h.Set("X-Internal", "1")
		h.Set("ETag", `"v1"`)
		h.Set("X-RateLimit-Remaining", "7")
		h["Link"] = []string{"<a>; rel=next", "<b>; rel=last"}
		h["Date"] = nil // keeps net/http from adding the header
		h.Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusCreated)
	})
	result, err := invoke(t.Context(), s, "http.get", `{"url":"`+server.URL+`"}`)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"status":201,"headers":{"content-length":"0","content-type":"text/plain","etag":"\"v1\"",` +
		`"link":"<a>; rel=next, <b>; rel=last","x-ratelimit-remaining":"7"},"body":null}`
	if string(result) != want {
		t.Errorf("got  %s\nwant %s", result, want)
	}
}

func TestBodyBound(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = io.CopyN(z, zeros{}, 8<<20)
	_ = z.Close()
	s, server := serve(t, httpsource.Options{MaxBodyBytes: 1000}, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		case "/fits":
			_, _ = w.Write(bytes.Repeat([]byte("a"), 1000))
		default:
			_, _ = w.Write(bytes.Repeat([]byte("a"), 1001))
		}
	})
	for path, want := range map[string]fault.Code{"/bomb": fault.LimitExceeded, "/fits": "", "/over": fault.LimitExceeded} {
		if _, err := invoke(t.Context(), s, "http.get", `{"url":"`+server.URL+path+`"}`); fault.CodeOf(err) != want {
			t.Errorf("%s: got error %v, want code %q (\"\": success)", path, err, want)
		}
	}
	if _, err := invoke(t.Context(), s, "http.request", `{"method":"HEAD","url":"`+server.URL+`/over"}`); err != nil {
		t.Errorf("HEAD of a large body failed: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestErrorStatus(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 16<<10)
	s, server := serve(t, httpsource.Options{}, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/json":
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"error": "no", "n": 1.10}`)
		case "/long":
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, "x"+long)
		case "/none":
			w.WriteHeader(http.StatusNotFound)
		case "/truncated":
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "half")
		}
	})
	tests := []struct {
		path   string
		status int
		body   string
	}{
		{"/json", 422, `{"error":"no","n":1.10}`},
		{"/long", 500, `"x` + strings.Repeat("é", (16<<10-1)/2) + `…"`}, // 16 KiB: after x, as many whole é (2 bytes each) as fit
		{"/none", 404, `null`},
		{"/truncated", 400, `"half"`},
	}
	for _, test := range tests {
		_, err := invoke(t.Context(), s, "http.request", `{"method":"POST","url":"`+server.URL+test.path+`"}`)
		f, ok := fault.As(err)
		if !ok || f.Code != fault.FunctionFailed || f.Status != test.status {
			t.Errorf("%s: got %v, want function_failed with status %d", test.path, err, test.status)
			continue
		}
		if string(f.Body) != test.body {
			t.Errorf("%s: body %.100s (%d bytes), want %.100s (%d bytes)", test.path, f.Body, len(f.Body), test.body, len(test.body))
		}
	}
}
