package openapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// callAnswered calls an operation, and handler answers the request.
func callAnswered(t *testing.T, method string, o Options, handler http.HandlerFunc) (string, error) {
	t.Helper()
	o.Client, o.BaseURL = mockTransport{handler}, "https://api.example.com"
	s := sourceOf(t, o, &document{operations: []operation{securedOperation(method, requirement{"bearer": nil}, requirement{"queryKey": nil})},
		schemes: allSchemes})
	return callOf(t, s, "op", `{}`)
}

func answer(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = nil
		if contentType != "" {
			w.Header().Set("Content-Type", contentType)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status                  int
		contentType, body, want string
	}{
		{200, "application/json", `{"b":12345678901234567890, "a":1.10,"a":"\u00e9"}`, `{"b":12345678901234567890,"a":1.10,"a":"\u00e9"}`},
		{201, "application/problem+json; charset=utf-8", ` 7 `, `7`},
		{200, "application/json", "\ufeff\"x\"", `"x"`},
		{200, "application/json; charset=iso-8859-1", "\"\xe9\"", `"é"`},
		{204, "", "", `null`},
		{200, "application/json", "", `null`},
		{200, "application/json", " \n", `null`},
		{200, "text/plain", `{"a": 1}`, `{"a":1}`},
		{200, "text/plain", `{"a": 1`, `"{\"a\": 1"`},
		{200, "text/plain", `7`, `"7"`},
		{200, "", `hello <b>`, `"hello <b>"`},
		{200, "image/png", "\x89PNG\x00", `{"type":"image","mimeType":"image/png","size":5,"data":"iVBORwA="}`},
	} {
		got, err := callAnswered(t, "GET", Options{}, answer(test.status, test.contentType, test.body))
		if err != nil || got != test.want {
			t.Errorf("%d %s %q: %s, want %s (%v)", test.status, test.contentType, test.body, got, test.want, err)
		}
	}
}

// TestDeclaredTypes: a body of a type that the document does not declare is no success, however the document declares types.
func TestDeclaredTypes(t *testing.T) {
	t.Parallel()
	const page = "<html>please log in"
	v3 := func(responses string) string {
		return `{"openapi":"3.0.3","info":{"title":"t","version":"1"},"paths":{"/a":{"get":{"responses":` + responses + `},
			"post":{"responses":` + responses + `}}}}`
	}
	v2 := func(root, operation, response string) string {
		return `{"swagger":"2.0","info":{"title":"t","version":"1"},` + root + `"paths":{"/a":{"get":{` + operation +
			`"responses":{"200":` + response + `}},"post":{` + operation + `"responses":{"200":` + response + `}}}}}`
	}
	object := `{"description":"ok","content":{"application/json":{"schema":{"type":"object"}}}}`
	for _, c := range []struct {
		name, document string
		handler        http.HandlerFunc
		want           string // the result, or a part of the message
		ok             bool
	}{
		{"a page", v3(`{"200":` + object + `}`), answer(200, "text/html; charset=utf-8", page),
			"answered 200 with text/html, where the document declares application/json", false},
		{"JSON of a vendor", v3(`{"200":` + object + `}`), answer(200, "application/vnd.shop.v2+json", `{}`), `{}`, true},
		{"a problem", v3(`{"200":` + object + `}`), answer(200, "application/problem+json", `{}`), `{}`, true},
		{"JSON called text", v3(`{"200":` + object + `}`), answer(200, "text/plain", `{}`), "declares application/json", false},
		{"no type, JSON", v3(`{"200":` + object + `}`), answer(200, "", `{"a": 1}`), `{"a":1}`, true},
		{"no type, a page", v3(`{"200":` + object + `}`), answer(200, "", page), "not the JSON", false},
		{"a file that its server does not know", v3(`{"200":` + object + `}`), answer(200, "application/octet-stream", `7`), `7`, true},
		{"no body", v3(`{"200":` + object + `}`), answer(200, "text/html", ""), `null`, true},
		{"a charset", v3(`{"200":` + object + `}`), answer(200, "application/json;charset=iso-8859-1", "\"\xe9\""), `"é"`, true},
		{"not UTF-8", v3(`{"200":` + object + `}`), answer(200, "application/json", "\"\xe9\""), "not UTF-8", false},
		{"a byte order mark", v3(`{"200":` + object + `}`), answer(200, "application/json", "\ufeff[1]"), `[1]`, true},
		{"any type", v3(`{"200":{"description":"","content":{"*/*":{},"application/json":{}}}}`), answer(200, "text/html", page),
			`"` + page + `"`, true},
		{"none", v3(`{"200":{"description":"","content":{}}}`), answer(200, "text/html", page), `"` + page + `"`, true},
		{"a range of statuses", v3(`{"2XX":` + object + `}`), answer(203, "text/html", page), "declares application/json", false},
		{"the default", v3(`{"default":` + object + `}`), answer(200, "text/html", page), "declares application/json", false},
		{"the exact status first", v3(`{"default":` + object + `,"2XX":` + object + `,"201":{"description":"","content":{"text/html":{}}}}`),
			answer(201, "text/html", page), `"` + page + `"`, true},
		{"another status", v3(`{"201":` + object + `,"404":{"description":"","content":{"text/html":{}}}}`), answer(200, "text/html", page),
			"declares application/json", false},
		{"no success", v3(`{"404":` + object + `}`), answer(200, "text/html", page), `"` + page + `"`, true},
		{"Swagger, its root", v2(`"produces":["application/json"],`, ``, `{"description":"","schema":{"type":"object"}}`),
			answer(200, "text/html", page), "declares application/json", false},
		{"Swagger, the operation", v2(`"produces":["application/json"],`, `"produces":["text/html"],`, `{"description":""}`),
			answer(200, "text/html", page), `"` + page + `"`, true},
		{"Swagger, a file", v2(`"produces":["application/json"],`, ``, `{"description":"","schema":{"type":"file"}}`),
			answer(200, "text/csv", "a,b"), `"a,b"`, true},
		{"Swagger, none", v2(``, ``, `{"description":"","schema":{"type":"object"}}`), answer(200, "text/html", page), `"` + page + `"`, true},
	} {
		doc, err := load([]byte(c.document), nil)
		if err != nil {
			t.Fatal(err)
		}
		s := sourceOf(t, Options{Client: mockTransport{c.handler}, BaseURL: "https://api.example.com"}, doc)
		for _, fn := range s.Functions() {
			outcome := fault.Applied
			if fn.Effect == steps.Read {
				outcome = ""
			}
			got, err := fn.Call(t.Context(), []byte(`{}`))
			f, _ := fault.As(err)
			switch name := fn.Name; {
			case c.ok && (err != nil || string(got) != c.want):
				t.Errorf("%s: %s: got %s, %v, want %s", c.name, name, got, err, c.want)
			case !c.ok && (f == nil || f.Code != fault.FunctionFailed || f.Outcome != outcome || !strings.Contains(f.Message, c.want)):
				t.Errorf("%s: %s: got %s, %+v, want function_failed with %q, outcome %q", c.name, name, got, f, c.want, outcome)
			}
		}
	}
}

// TestResultForms: in the form response, and without a body, a result has the headers that a next step may need.
func TestResultForms(t *testing.T) {
	t.Parallel()
	const key = "a-key-that-is-secret"
	with := func(status int, body string, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(headers); i += 2 {
				w.Header().Add(headers[i], headers[i+1])
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for _, c := range []struct {
		form    string
		handler http.HandlerFunc
		want    string
	}{
		{"", with(201, "", "Location", "/orders/77", "X-Other", "1"), `{"status":201,"headers":{"location":"/orders/77"}}`},
		{"", with(202, "", "Operation-Location", "/jobs/1", "Retry-After", "5", "Etag", `"v"`, "Link", "<a>", "Link", "<b>"),
			`{"status":202,"headers":{"etag":"\"v\"","link":"<a>, <b>","operation-location":"/jobs/1","retry-after":"5"}}`},
		{"", with(204, "", "X-Other", "1"), `null`},
		{"", with(200, `{"a":1}`, "Content-Type", "application/json", "Location", "/x"), `{"a":1}`},
		{steps.ResultResponse, with(200, `{"a":1}`, "Content-Type", "application/json", "OData-EntityId", "/x(7)", "Set-Cookie", "a=b",
			"WWW-Authenticate", "Basic", "X-Echo", key), `{"status":200,"headers":{"content-type":"application/json","odata-entityid":"/x(7)",` +
			`"x-echo":"[redacted]"},"body":{"a":1}}`},
		{steps.ResultResponse, with(204, "", "Etag", `"v"`), `{"status":204,"headers":{"etag":"\"v\""},"body":null}`},
	} {
		op := securedOperation("POST", requirement{"queryKey": nil})
		s := sourceOf(t, Options{Client: mockTransport{c.handler}, BaseURL: "https://api.example.com", Auth: map[string]Credential{"queryKey": {Value: key}}},
			&document{operations: []operation{op}, schemes: allSchemes})
		ctx := t.Context()
		if c.form != "" {
			ctx = steps.WithResult(ctx, c.form)
		}
		got, err := s.Functions()[0].Call(ctx, []byte(`{}`))
		if err != nil || string(got) != c.want {
			t.Errorf("%q: got %s, %v, want %s", c.form, got, err, c.want)
		}
	}
	for _, status := range []int{400, 404, 500} {
		s := sourceOf(t, Options{Client: mockTransport{answer(status, "application/json", `{}`)}, BaseURL: "https://api.example.com"},
			&document{operations: []operation{securedOperation("GET")}, schemes: allSchemes})
		_, err := s.Functions()[0].Call(steps.WithResult(t.Context(), steps.ResultResponse), []byte(`{}`))
		if f, _ := fault.As(err); f == nil || f.Code != fault.FunctionFailed || f.Status != status {
			t.Errorf("%d in the form response: got %v, want function_failed", status, err)
		}
	}
}

// TestHeadersWithoutABody: the schema of a success without a body allows the headers that the document declares.
func TestHeadersWithoutABody(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{"": `{"type":"null"}`, "X-Other": `{"type":"null"}`, "etag": `"headers"`} {
		headers := ""
		if header != "" {
			headers = `,"headers":{"` + header + `":{"schema":{"type":"string"}}}`
		}
		doc, err := load([]byte(`{"openapi":"3.0.3","info":{"title":"t","version":"1"},"paths":{"/a":{"put":{"responses":{"204":{"description":""`+
			headers+`}}}}}}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(doc.operations[0].output); !strings.Contains(got, want) {
			t.Errorf("%s: got the schema %s, want %s", header, got, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	bearer := Options{Auth: map[string]Credential{"bearer": {Value: "a-bearer-value"}}}
	for _, test := range []struct {
		name                  string
		method                string
		o                     Options
		handler               http.HandlerFunc
		status                int
		body, message, reason string
		outcome               fault.Outcome
	}{
		{"not found", "GET", bearer, answer(404, "application/json", `{"message": "no"}`), 404, `{"message":"no"}`, "api.op (GET /a)",
			"404 Not Found: no", ""},
		{"text", "POST", bearer, answer(500, "text/html", "<h1>no"), 500, `"<h1>no"`, "500 Internal Server Error", "", fault.SentUnknown},
		{"gateway error of a read", "GET", bearer, answer(504, "", ""), 504, `null`, "504", "", ""},
		{"gateway error of a write", "POST", bearer, answer(502, "", ""), 502, `null`, "502", "", fault.SentUnknown},
		{"no body", "GET", bearer, answer(429, "", ""), 429, `null`, "429", "", ""},
		{"broken JSON", "GET", bearer, answer(422, "application/json", `{"a`), 422, `"{\"a"`, "422", "", ""},
		{"without a credential", "GET", Options{}, answer(401, "", ""), 401, `null`, "auth.bearer (http bearer)",
			"auth.queryKey (the query api key)", ""},
		{"with a wrong credential", "GET", bearer, answer(401, "", ""), 401, `null`, "auth.bearer", "", ""},
		{"a redirect", "GET", bearer, answer(302, "", ""), 302, `null`, "redirect", "", ""},
		{"invalid JSON from a read", "GET", bearer, answer(200, "application/json", `{"a":`), 200, `"{\"a\":"`, "not the JSON", "", ""},
		{"invalid JSON from a write", "POST", bearer, answer(201, "application/json", `oops`), 201, `"oops"`, "not the JSON", "",
			fault.Applied},
		{"a credential given back", "GET", bearer, answer(400, "application/json", `{"got":"Bearer a-bearer-value"}`), 400,
			`{"got":"Bearer [redacted]"}`, "400", "", ""},
		{"a credential in the reason", "GET", bearer, answer(400, "application/json", `{"error":"not a-bearer-value"}`), 400,
			`{"error":"not [redacted]"}`, "400 Bad Request: not [redacted]", "", ""},
	} {
		_, err := callAnswered(t, test.method, test.o, test.handler)
		f, _ := fault.As(err)
		if f == nil || f.Code != fault.FunctionFailed || f.Status != test.status || string(f.Body) != test.body || f.Outcome != test.outcome ||
			!strings.Contains(f.Message, test.message) || !strings.Contains(f.Message, test.reason) {
			t.Errorf("%s: %v, %+v, want status %d, body %s, outcome %q, %q and %q", test.name, err, f, test.status, test.body, test.outcome, test.message, test.reason)
		}
	}
}

func TestLongErrorBodies(t *testing.T) {
	t.Parallel()
	_, err := callAnswered(t, "GET", Options{}, answer(500, "application/json", `"`+strings.Repeat("é", 1<<20)))
	f, _ := fault.As(err)
	var text string
	if f == nil || json.Unmarshal(f.Body, &text) != nil || len(text) > 16<<10+3 || !strings.HasSuffix(text, "é…") {
		t.Errorf("got a body of %d bytes, %v, want a shortened text", len(text), err)
	}
}

// TestSecretsInResults: if a service repeats secrets from its request, the caller does not see them.
func TestSecretsInResults(t *testing.T) {
	t.Parallel()
	const plain, quoted, digits = "a-bearer-value", `with"quote\and<more>`, "1234567890123"
	echo := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"auth":%q,"x":%q,"n":99%s99,"version":%q}`, r.Header.Get("Authorization"), r.Header.Get("X-Secret"), digits,
			r.Header.Get("X-Version"))
	}
	o := Options{Auth: map[string]Credential{"bearer": {Value: plain}, "queryKey": {Value: digits}},
		Headers: map[string]string{"X-Secret": quoted, "X-Version": "2022-11-28"}}
	got, err := callAnswered(t, "GET", o, echo)
	if err != nil || !json.Valid([]byte(got)) {
		t.Fatalf("got %s, %v, want JSON", got, err)
	}
	if want := `{"auth":"Bearer [redacted]","x":"[redacted]","n":"[redacted]","version":"2022-11-28"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	words := Options{Auth: map[string]Credential{"basic": {Username: "u", Password: "password"}}}
	if got, _ := callAnswered(t, "GET", words, answer(200, "application/json", `{"password":1}`)); got != `{"password":1}` {
		t.Errorf("got %s, want the common word password as it is", got)
	}
}

// TestBrokenConnections calls a server on a socket with the client of net/http.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/close":
			conn, _, _ := w.(http.Hijacker).Hijack()
			conn.Close()
		case "/half":
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"a":`)
		case "/endless":
			for {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		case "/never":
			fmt.Fprint(w, " ")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closedPort := "http://" + listener.Addr().String()
	listener.Close()
	const key = "a-key-that-is-secret"
	for _, test := range []struct {
		base, path, method string
		limit              time.Duration
		code               fault.Code
		outcome            fault.Outcome
	}{
		{server.URL, "/close", "POST", time.Minute, fault.Unavailable, fault.SentUnknown},
		{server.URL, "/close", "GET", time.Minute, fault.Unavailable, ""},
		{server.URL, "/half", "POST", time.Minute, fault.Unavailable, fault.SentUnknown},
		{server.URL, "/endless", "GET", time.Minute, fault.LimitExceeded, ""},
		{server.URL, "/endless", "DELETE", time.Minute, fault.LimitExceeded, fault.Applied},
		{server.URL, "/never", "GET", 50 * time.Millisecond, fault.Timeout, ""},
		{server.URL, "/never", "PATCH", 50 * time.Millisecond, fault.Timeout, fault.SentUnknown},
		{closedPort, "/", "POST", time.Minute, fault.Unavailable, fault.NotSent},
		{closedPort, "/", "GET", time.Minute, fault.Unavailable, fault.NotSent},
	} {
		op := securedOperation(test.method, requirement{"queryKey": nil})
		op.path = test.path
		client := &http.Client{Transport: &http.Transport{}}
		s := sourceOf(t, Options{Client: client, BaseURL: test.base, MaxBodyBytes: 1 << 20,
			Auth: map[string]Credential{"queryKey": {Value: key}}},
			&document{operations: []operation{op}, schemes: allSchemes})
		ctx, cancel := context.WithTimeout(t.Context(), test.limit)
		_, err := s.Functions()[0].Call(ctx, []byte(`{}`))
		cancel()
		client.CloseIdleConnections()
		f, _ := fault.As(err)
		if f == nil || f.Code != test.code || f.Outcome != test.outcome || !strings.Contains(f.Message, "api.op") ||
			strings.Contains(f.Message, key) {
			t.Errorf("%s %s: got %+v, want %s %s", test.method, test.path, f, test.code, test.outcome)
		}
	}
}

// TestCallTimeout: a call ends with its context, and without a deadline after two minutes.
func TestCallTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		silent := doerFunc(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, fmt.Errorf("gone: %w", r.Context().Err())
		})
		s := sourceOf(t, Options{Client: silent, BaseURL: "https://api.example.com"}, &document{operations: []operation{securedOperation("GET")}})
		start := time.Now()
		if _, err := callOf(t, s, "op", `{}`); fault.CodeOf(err) != fault.Timeout || time.Since(start) != callTimeout {
			t.Errorf("got %v after %v, want timeout after %v", err, time.Since(start), callTimeout)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := s.Functions()[0].Call(ctx, []byte(`{}`)); fault.CodeOf(err) != fault.Cancelled {
			t.Errorf("got %v, want cancelled", err)
		}
	})
}
