package http_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/transcript"
	"github.com/onecall-mcp/onecall/steps"
	httpsource "github.com/onecall-mcp/onecall/steps/source/http"
	"github.com/onecall-mcp/onecall/steps/stepstest"
)

// open opens a source and closes it at the end of the test.
func open(t testing.TB, o *httpsource.Options) *httpsource.Source {
	t.Helper()
	s, err := httpsource.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// serve starts a server on loopback and a source that may call it.
func serve(t testing.TB, o httpsource.Options, handler http.HandlerFunc) (*httpsource.Source, *httptest.Server) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	o.Allow = append(o.Allow, strings.TrimPrefix(server.URL, "http://"))
	return open(t, &o), server
}

// invoke calls a function of the source with arguments in which URL is replaced by the server's URL.
func invoke(ctx context.Context, s *httpsource.Source, name, args string) ([]byte, error) {
	for _, fn := range s.Functions() {
		if fn.Name == name {
			return fn.Call(ctx, []byte(args))
		}
	}
	return nil, fmt.Errorf("no function %s", name)
}

func TestConformance(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, `{"a":1}`) }))
	t.Cleanup(server.Close)
	stepstest.Run(t, stepstest.Options{
		New: func(t *testing.T) steps.Source {
			return open(t, &httpsource.Options{Allow: []string{strings.TrimPrefix(server.URL, "http://")}})
		},
		Args: map[string]string{
			"http.get":     `{"url":"` + server.URL + `"}`,
			"http.request": `{"method":"POST","url":"` + server.URL + `","body":{"a":1}}`,
		},
		Fails: map[string][]string{
			"http.get":     {`{"url":"https://elsewhere.example"}`, `{"url":"x"}`, `{"url":"` + server.URL + `","headers":{"Host":"a"}}`},
			"http.request": {`{"method":"DELETE","url":"https://elsewhere.example"}`},
		},
		AssumedEffects: true, // its effect depends on the arguments
	})
	for _, fn := range open(t, nil).Functions() {
		if reads := (fn.Name == "http.get"); fn.EffectDeclared != reads || (fn.Effect == steps.Read) != reads {
			t.Errorf("%s: got effect %v, declared %t, want reads: %t", fn.Name, fn.Effect, fn.EffectDeclared, reads)
		}
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	s, server := serve(t, httpsource.Options{UserAgent: "test/1"}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_ = json.NewEncoder(w).Encode(map[string]string{
			"line": r.Method + " " + r.RequestURI, "type": r.Header.Get("Content-Type"), "body": string(body),
			"auth": r.Header.Get("Authorization"), "agent": r.Header.Get("User-Agent"), "accept": r.Header.Get("Accept"),
		})
	})
	tests := []struct {
		name, args string
		want       map[string]string
	}{
		{"query is added, arrays repeat, spelling is kept",
			`{"method":"GET","url":"URL/a b?x=1%2F2&y=ü z#frag","query":{"n":1.10,"list":["a","b&c"],"no":null,"yes":true}}`,
			map[string]string{"line": "GET /a%20b?x=1%2F2&y=%C3%BC%20z&list=a&list=b%26c&n=1.10&yes=true"}},
		{"object as JSON, byte for byte", `{"method":"POST","url":"URL/","body":{"z":717897987691852588770249,"a":1.10}}`,
			map[string]string{"body": `{"z":717897987691852588770249,"a":1.10}`, "type": "application/json"}},
		{"array as JSON of the caller's type",
			`{"method":"PATCH","url":"URL/","headers":{"content-type":"application/json-patch+json"},"body":[]}`,
			map[string]string{"body": `[]`, "type": "application/json-patch+json"}},
		{"string as it is", `{"method":"PUT","url":"URL/","body":"{\"a\"\n"}`,
			map[string]string{"body": "{\"a\"\n", "type": "text/plain; charset=utf-8"}},
		{"a form", `{"method":"POST","url":"URL/","headers":{"Content-Type":"application/x-www-form-urlencoded"},"body":{"a":"x y","b":[1,2]}}`,
			map[string]string{"body": "a=x+y&b=1&b=2", "type": "application/x-www-form-urlencoded"}},
		{"bytes", `{"method":"POST","url":"URL/","bodyBase64":"aGk="}`, map[string]string{"body": "hi", "type": "application/octet-stream"}},
		{"bytes of the caller's type", `{"method":"POST","url":"URL/","headers":{"Content-Type":"image/png"},"body":null,"bodyBase64":""}`,
			map[string]string{"body": "", "type": "image/png"}},
		{"no body", `{"method":"DELETE","url":"URL/x","body":null}`, map[string]string{"line": "DELETE /x", "body": "", "type": ""}},
		{"headers and defaults", `{"method":"GET","url":"URL/","headers":{"authorization":"Bearer t"}}`,
			map[string]string{"auth": "Bearer t", "agent": "test/1", "accept": "application/json, */*;q=0.8"}},
		{"defaults give way", `{"method":"GET","url":"URL/","headers":{"user-agent":"me","ACCEPT":"text/csv"}}`,
			map[string]string{"agent": "me", "accept": "text/csv"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			result, err := invoke(t.Context(), s, "http.request", strings.ReplaceAll(test.args, "URL", server.URL))
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range test.want {
				if got := gjson.GetBytes(result, "body."+name).Str; got != want {
					t.Errorf("%s: got %q, want %q", name, got, want)
				}
			}
		})
	}
}

// TestRefusedArguments makes the calls of testdata/refused.txt; the indented line is the fault.
func TestRefusedArguments(t *testing.T) {
	t.Parallel()
	s, server := serve(t, httpsource.Options{}, func(w http.ResponseWriter, r *http.Request) { t.Error("a refused request was sent") })
	transcript.FileLines(t, "testdata/refused.txt", func(call string) string {
		fn, args, _ := strings.Cut(strings.ReplaceAll(call, "URL", server.URL), " ")
		_, err := invoke(t.Context(), s, fn, args)
		f, _ := fault.As(err)
		if f == nil || strings.Contains(f.Error(), "topsecret") {
			t.Errorf("%s gives %v, want a fault without the secret", call, err)
			return ""
		}
		message, _, _ := strings.Cut(f.Message, ": json") // the rest of the message differs from build to build
		return fmt.Sprintf("%s at %q: %s", f.Code, f.At, message)
	})
}

func TestClosed(t *testing.T) {
	t.Parallel()
	s, server := serve(t, httpsource.Options{}, func(w http.ResponseWriter, r *http.Request) {})
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := invoke(t.Context(), s, "http.get", `{"url":"`+server.URL+`"}`); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("got %v, want unavailable", err)
	}
}

func BenchmarkGet(b *testing.B) {
	body := `{"items":[` + strings.Repeat(`{"id":12345,"name":"some name"},`, 1000) + `null]}`
	s, server := serve(b, httpsource.Options{}, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, body) })
	b.Run("http.get", func(b *testing.B) {
		args := []byte(`{"url":"` + server.URL + `"}`)
		call := s.Functions()[0].Call
		for b.Loop() {
			result, err := call(b.Context(), args)
			if err != nil || gjson.GetBytes(result, "body").Raw != body {
				b.Fatalf("got %s, %v; want the body %s", result, err, body)
			}
		}
	})
	b.Run("http.get, unchanged", func(b *testing.B) {
		known, server := serve(b, httpsource.Options{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"1"`)
			if r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			_, _ = io.WriteString(w, body)
		})
		args := []byte(`{"url":"` + server.URL + `"}`)
		call := known.Functions()[0].Call
		for b.Loop() {
			result, err := call(b.Context(), args)
			if err != nil || gjson.GetBytes(result, "body").Raw != body {
				b.Fatalf("got %s, %v; want the body %s", result, err, body)
			}
		}
	})
	b.Run("endpoint", func(b *testing.B) {
		trusted, _ := withEndpoints(b, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, body) },
			httpsource.Endpoint{URL: "URL/v1/{city}{?units}", Headers: map[string]string{"X-Key": "a secret value"}})
		args := []byte(`{"city":"Bern","units":"metric"}`)
		call := trusted.Functions()[2].Call
		for b.Loop() {
			result, err := call(b.Context(), args)
			if err != nil || string(result) != body {
				b.Fatalf("got %s, %v; want %s", result, err, body)
			}
		}
	})
	b.Run("baseline/net-http", func(b *testing.B) {
		target, _ := url.Parse(server.URL)
		for b.Loop() {
			response, err := http.DefaultClient.Do(&http.Request{Method: "GET", URL: target})
			if err != nil {
				b.Fatal(err)
			}
			data, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if err != nil || string(data) != body {
				b.Fatalf("got %s, %v; want %s", data, err, body)
			}
		}
	})
}
