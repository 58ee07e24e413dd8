package http_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/egress"
	httpsource "github.com/onecall-mcp/onecall/steps/source/http"
)

// roundTrip is a transport that calls a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// respond returns a response with a status, a body and pairs of header names and values.
func respond(status int, body string, header ...string) *http.Response {
	response := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body))}
	for i := 0; i < len(header); i += 2 {
		response.Header.Add(header[i], header[i+1])
	}
	return response
}

func testClient(t testing.TB, o httpsource.ClientOptions) *httpsource.Client {
	t.Helper()
	if o.Rules == nil {
		o.Rules = egress.AnyPublic()
	}
	c := httpsource.NewClient(&o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// get sends a GET and reads the answer.
func get(t testing.TB, c *httpsource.Client, url string, header ...string) (*http.Response, string) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	request.RequestURI = ""
	for i := 0; i < len(header); i += 2 {
		request.Header.Add(header[i], header[i+1])
	}
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// TestRevalidation sends two requests to each server, and checks the second request and its answer.
func TestRevalidation(t *testing.T) {
	t.Parallel()
	const url = "https://a.example/x?y=1"
	bearer := []string{"Authorization", "Bearer one"}
	tests := []struct {
		name          string
		first         *http.Response // nil: a 200 with an ETag
		second        func(*http.Request) *http.Response
		header, again []string // the header of the first and of the second request; again nil: the same
		conditional   bool     // the second request was conditional
		status        int
		body          string
	}{
		{name: "unchanged", conditional: true, status: 200, body: "first"},
		{name: "with the same credentials", header: bearer, conditional: true, status: 200, body: "first"},
		{name: "with others", header: bearer, again: []string{"Authorization", "Bearer two"}, status: 200, body: "second"},
		{name: "with none", header: bearer, again: []string{}, status: 200, body: "second"},
		{name: "with another key", header: []string{"X-Api-Key", "1"}, again: []string{"X-Api-Key", "2"}, status: 200, body: "second"},
		{name: "with another cookie", header: []string{"Cookie", "a=1"}, again: []string{"Cookie", "a=2"}, status: 200, body: "second"},
		{name: "parts that join to the same", header: []string{"X-A", "bX-C", "X-D", "e"}, again: []string{"X-A", "b", "X-Cx-D", "e"},
			status: 200, body: "second"},
		{name: "another language", header: []string{"Accept-Language", "de"}, again: []string{"Accept-Language", "fr"}, status: 200,
			body: "second"},
		{name: "only traces differ", header: []string{"Traceparent", "1"}, again: []string{"Traceparent", "2"}, conditional: true, status: 200,
			body: "first"},
		{name: "header named by Vary", first: respond(200, "first", "ETag", `"1"`, "Vary", "accept, traceparent"),
			header: []string{"Traceparent", "1"}, again: []string{"Traceparent", "2"}, status: 200, body: "second"},
		{name: "Vary on everything", first: respond(200, "first", "ETag", `"1"`, "Vary", "*"), status: 200, body: "second"},
		{name: "Vary on what is the same", first: respond(200, "first", "ETag", `"1"`, "Vary", "Accept, Authorization"), header: bearer,
			conditional: true, status: 200, body: "first"},
		{name: "Last-Modified", first: respond(200, "first", "Last-Modified", "Sat, 01 Jan 2000 00:00:00 GMT"), conditional: true, status: 200,
			body: "first"},
		{name: "no validator", first: respond(200, "first"), status: 200, body: "second"},
		{name: "no-store", first: respond(200, "first", "ETag", `"1"`, "Cache-Control", "private, no-store"), status: 200, body: "second"},
		{name: "no-cache and max-age are the same here",
			first: respond(200, "first", "ETag", `"1"`, "Cache-Control", "no-cache, max-age=1000"), conditional: true, status: 200, body: "first"},
		{name: "no-store of the request", header: []string{"Cache-Control", "no-store"}, status: 200, body: "second"},
		{name: "a range", header: []string{"Range", "bytes=0-1"}, status: 200, body: "second"},
		{name: "the caller's own condition", header: []string{"If-None-Match", `"1"`}, conditional: true, status: 304, body: ""},
		{name: "not a 200", first: respond(203, "first", "ETag", `"1"`), status: 200, body: "second"},
		{name: "changed", second: func(*http.Request) *http.Response { return respond(200, "changed", "ETag", `"2"`) }, conditional: true,
			status: 200, body: "changed"},
		{name: "gone", second: func(*http.Request) *http.Response { return respond(404, "gone") }, conditional: true, status: 404, body: "gone"},
		{name: "a 304 of another answer", second: func(r *http.Request) *http.Response {
			if r.Header.Get("If-None-Match") != "" {
				return respond(304, "", "ETag", `"9"`)
			}
			return respond(200, "whole", "ETag", `"9"`)
		}, conditional: true, status: 200, body: "whole"},
		{name: "a 304 with a weak tag", second: func(*http.Request) *http.Response { return respond(304, "", "ETag", `W/"1"`) },
			conditional: true, status: 200, body: "first"},
		{name: "an empty body", first: respond(200, "", "ETag", `"1"`), conditional: true, status: 200, body: ""},
		{name: "a large body", first: respond(200, strings.Repeat("x", 200_000), "ETag", `"1"`), status: 200, body: "second"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var conditional bool
			answers := []func(*http.Request) *http.Response{
				func(*http.Request) *http.Response {
					if test.first != nil {
						return test.first
					}
					return respond(200, "first", "ETag", `"1"`)
				},
				func(r *http.Request) *http.Response {
					conditional = conditional || r.Header.Get("If-None-Match") != "" || r.Header.Get("If-Modified-Since") != ""
					switch {
					case test.second != nil:
						return test.second(r)
					case conditional:
						return respond(304, "")
					}
					return respond(200, "second", "ETag", `"1"`)
				},
			}
			n := 0
			c := testClient(t, httpsource.ClientOptions{CacheBytes: 1 << 20, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				n++
				return answers[min(n, 2)-1](r), nil
			})})
			get(t, c, url, test.header...)
			if test.again == nil {
				test.again = test.header
			}
			response, body := get(t, c, url, test.again...)
			if conditional != test.conditional || response.StatusCode != test.status || body != test.body {
				t.Errorf("got conditional %t, %d %.40q; want %t, %d %q", conditional, response.StatusCode, body,
					test.conditional, test.status, test.body)
			}
		})
	}
}

// TestRevalidatedHeader: the header of a 304 is merged into the stored header.
func TestRevalidatedHeader(t *testing.T) {
	t.Parallel()
	n := 0
	c := testClient(t, httpsource.ClientOptions{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		n++
		// The fourth request is not conditional, because a 304 said no-store.
		if conditional := r.Header.Get("If-None-Match") != ""; conditional != (n == 2 || n == 3) {
			t.Errorf("request %d: conditional is %t, want %t", n, conditional, n == 2 || n == 3)
		}
		switch n {
		case 1:
			return respond(200, `{"a":1}`, "ETag", `"1"`, "Content-Type", "application/json", "Date", "one", "Set-Cookie", "s=1", "X-Old",
				"kept"), nil
		case 2:
			return respond(304, "", "ETag", `"1"`, "Content-Type", "text/html", "Date", "two", "Content-Length", "0"), nil
		}
		return respond(304, "", "ETag", `"1"`, "Cache-Control", "no-store"), nil
	})})
	get(t, c, "https://a.example")
	response, body := get(t, c, "https://a.example")
	if h := response.Header; body != `{"a":1}` || response.ContentLength != 7 || response.Status != "200 OK" ||
		h.Get("Content-Type") != "application/json" || h.Get("Date") != "two" || h.Get("X-Old") != "kept" || h.Get("Set-Cookie") != "" ||
		h.Get("Content-Length") != "" {
		t.Errorf("got %d bytes, header %v, body %s, want {\"a\":1} of 7 bytes with Date two and X-Old kept", response.ContentLength, h, body)
	}
	response.Header.Set("X-Old", "changed by the caller")
	response, body = get(t, c, "https://a.example")
	if body != `{"a":1}` || response.Header.Get("Date") != "two" || response.Header.Get("X-Old") != "kept" {
		t.Errorf("got header %v, body %s, want {\"a\":1} with Date two and X-Old kept", response.Header, body)
	}
	get(t, c, "https://a.example")
}

// TestRevalidatedBodyIsComplete: http.get returns the same if nothing has changed, with real sockets and compression.
func TestRevalidatedBodyIsComplete(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var statuses []int
	s, server := serve(t, httpsource.Options{}, func(w http.ResponseWriter, r *http.Request) {
		status := 200
		w.Header().Set("ETag", `"v"`)
		if r.Header.Get("If-None-Match") == `"v"` {
			status = 304
		}
		mu.Lock()
		statuses = append(statuses, status)
		mu.Unlock()
		w.WriteHeader(status)
		if status == 200 {
			_, _ = io.WriteString(w, `{"items":[1.10]}`)
		}
	})
	for range 3 {
		for _, call := range []string{"http.get", "http.request"} {
			args := `{"url":"` + server.URL + `"}`
			if call == "http.request" {
				args = `{"method":"GET","url":"` + server.URL + `"}`
			}
			result, err := invoke(t.Context(), s, call, args)
			if err != nil || gjson.GetBytes(result, "status").Int() != 200 || gjson.GetBytes(result, "body").Raw != `{"items":[1.10]}` {
				t.Errorf("got %s, %v, want status 200 and {\"items\":[1.10]}", result, err)
			}
		}
	}
	if fmt.Sprint(statuses) != "[200 304 304 304 304 304]" {
		t.Errorf("the server answered %v, want one 200 and then 304", statuses)
	}
}

// TestBrokenBodiesAreNotCached: neither a body that breaks off nor a body that is not read to its end.
func TestBrokenBodiesAreNotCached(t *testing.T) {
	t.Parallel()
	c := testClient(t, httpsource.ClientOptions{Retries: -1, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("If-None-Match") != "" {
			t.Errorf("the broken or unread answer of %s was stored", r.URL.Path)
		}
		response := respond(200, "half", "ETag", `"1"`)
		if r.URL.Path == "/broken" {
			response.Body = io.NopCloser(io.MultiReader(strings.NewReader("half"), brokenBody{}))
		}
		return response, nil
	})})
	for _, path := range []string{"broken", "left", "broken", "left"} {
		want := map[string]fault.Code{"broken": fault.Unavailable}[path]
		request := httptest.NewRequest(http.MethodGet, "https://a.example/"+path, nil)
		request.RequestURI = ""
		response, err := c.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if path == "broken" {
			_, err = io.ReadAll(response.Body)
		} else {
			_, err = response.Body.Read(make([]byte, 2))
		}
		if fault.CodeOf(err) != want {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
		_ = response.Body.Close()
	}
}

// TestMemoryOfCachedAnswers: whatever is requested, the stored answers stay within the bound, and use it.
func TestMemoryOfCachedAnswers(t *testing.T) {
	t.Parallel()
	const maximum, overhead = 40_000, 700 // the memory of an answer besides its body
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		version, stored, measuring := map[string]int{}, 0, false
		c := testClient(t, httpsource.ClientOptions{CacheBytes: maximum, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			path := r.URL.Path
			etag := fmt.Sprintf(`"%d"`, version[path])
			switch sentETag := r.Header.Get("If-None-Match"); {
			case measuring && sentETag != "":
				stored += 100 * version[path]
				return respond(304, "", "ETag", sentETag), nil
			case measuring:
				return respond(404, ""), nil
			case sentETag == etag:
				return respond(304, "", "ETag", etag), nil
			}
			return respond(200, strings.Repeat("x", 100*version[path])+path, "ETag", etag), nil
		})})
		for range 300 {
			path := fmt.Sprintf("/%d", random.IntN(30))
			if _, seen := version[path]; !seen || random.IntN(2) == 0 {
				version[path] = random.IntN(50) // some are too large to be stored
			}
			if _, body := get(t, c, "https://a.example"+path); body != strings.Repeat("x", 100*version[path])+path {
				t.Fatalf("%s: got %.20q (%d bytes), want version %d (%d bytes)", path, body, len(body), version[path], 100*version[path]+len(path))
			}
		}
		measuring = true
		for path := range version {
			get(t, c, "https://a.example"+path)
		}
		if stored > maximum || stored < maximum-maximum/8-len(version)*overhead {
			t.Errorf("%d bytes are stored, want at most %d, and close to it", stored, maximum)
		}
	}
}
