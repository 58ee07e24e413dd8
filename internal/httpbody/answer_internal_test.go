package httpbody

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

func TestRefusal(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", maxErrorBody)
	for _, c := range []struct {
		method, contentType, body string
		status                    int
		message, want             string
		outcome                   fault.Outcome
	}{
		{"GET", "application/json", `{"m": "no"}`, 404, "answered 404 Not Found", `{"m":"no"}`, ""},
		{"GET", "application/problem+json", `{"error":{"message":"the shop is closed"}}`, 403,
			"answered 403 Forbidden: the shop is closed", `{"error":{"message":"the shop is closed"}}`, ""},
		{"POST", "text/html", "<h1>", 502, "answered 502 Bad Gateway", `"<h1>"`, fault.SentUnknown},
		{"DELETE", "", "", 504, "answered 504 Gateway Timeout", `null`, fault.SentUnknown},
		{"GET", "", "", 504, "answered 504 Gateway Timeout", `null`, ""},
		{"POST", "application/json", `{`, 599, "answered 599", `"{"`, fault.SentUnknown},
		{"POST", "text/plain", "x" + long, 500, "answered 500 Internal Server Error", `"x` + long[:(maxErrorBody-1)/2*2] + `…"`,
			fault.SentUnknown},
		{"POST", "image/png", strings.Repeat("\x00", maxErrorBody+1), 500, "answered 500 Internal Server Error", ``, fault.SentUnknown},
		{"POST", "", "", 302, "answered 302 Found", `null`, fault.SentUnknown},
		{"POST", "", "", 409, "answered 409 Conflict", `null`, ""},
	} {
		response := &http.Response{StatusCode: c.status, Header: http.Header{"Content-Type": {c.contentType}},
			Body: io.NopCloser(strings.NewReader(c.body))}
		f := Refusal(httptest.NewRequest(c.method, "/", nil), response, true)
		if f.Code != fault.FunctionFailed || f.Status != c.status || f.Message != c.message || string(f.Body) != c.want ||
			f.Outcome != c.outcome {
			t.Errorf("%s %d: got %+v, body %s, want %q, outcome %q, body %s", c.method, c.status, f, f.Body, c.message, c.outcome, c.want)
		}
	}
}
