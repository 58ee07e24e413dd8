package http_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	httpsource "github.com/onecall-mcp/onecall/steps/source/http"
	"github.com/onecall-mcp/onecall/steps/stepstest"
)

// echoing answers with the request that it received.
func echoing(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	sent := map[string]any{"line": r.Method + " " + r.RequestURI, "body": string(body), "header": r.Header}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(sent)
}

// withEndpoints starts a server and a source whose endpoints call it: URL in an endpoint's URL stands for the server. Allow lists no host.
func withEndpoints(t testing.TB, handler http.HandlerFunc, list ...httpsource.Endpoint) (*httpsource.Source, *httptest.Server) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	for i := range list {
		list[i].URL = strings.ReplaceAll(list[i].URL, "URL", server.URL)
		if list[i].Name == "" {
			list[i].Name = "it"
		}
	}
	s := open(t, &httpsource.Options{Endpoints: list, Retries: -1})
	return s, server
}

func TestEndpointConformance(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(echoing))
	t.Cleanup(server.Close)
	stepstest.Run(t, stepstest.Options{
		AssumedEffects: true, // its effect depends on the arguments
		New: func(t *testing.T) steps.Source {
			source := open(t, &httpsource.Options{Endpoints: []httpsource.Endpoint{
				{Name: "weather.city", URL: server.URL + "/v1/{city}{?units}", Headers: map[string]string{"X-Key": "a secret value"}},
				{Name: "make", URL: server.URL + "/things", Body: json.RawMessage(`{"name":"$input.name","n":"$input.n ?? 1"}`), Result: "response"},
				{Name: "drop", Method: "DELETE", URL: server.URL + "/things/{id}",
					Input: json.RawMessage(`{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}`)},
			}})
			return source
		},
		Args: map[string]string{
			"http.weather.city": `{"city":"Bern","units":"metric"}`,
			"http.make":         `{"name":{"a":1}}`,
			"http.drop":         `{"id":7}`,
		},
		Fails: map[string][]string{"http.weather.city": {`{"city":".."}`, `{"city":""}`}},
	})
}

// TestEndpointRequests checks the requests that are sent.
func TestEndpointRequests(t *testing.T) {
	t.Parallel()
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	tests := []struct {
		name, args string
		endpoint   httpsource.Endpoint
		want       map[string]string
	}{
		{"path and query", `{"city":"Zürich/ü b","units":"a&b=c","n":1.10}`, httpsource.Endpoint{URL: "URL/v1/{city}/x{?units,n}"},
			map[string]string{"line": "GET /v1/Z%C3%BCrich%2F%C3%BC%20b/x?units=a%26b%3Dc&n=1.10"}},
		{"what is left out", `{"city":"x","units":null}`, httpsource.Endpoint{URL: "URL/v1/{city}{?units,n}"}, map[string]string{"line": "GET /v1/x"}},
		{"a literal query is continued", `{"a":1,"list":["x","y"]}`,
			httpsource.Endpoint{URL: "URL/?v=2&q={a}{&list*}", Query: map[string]json.RawMessage{"z": raw(`"$input.a"`), "no": raw("null")}},
			map[string]string{"line": "GET /?v=2&q=1&list=x&list=y&z=1"}},
		{"segments and objects", `{"p":["a","b/c"],"o":{"x":1,"y":"é"}}`, httpsource.Endpoint{URL: "URL{/p*}{?o*}", Input: raw(`{"type":"object"}`)},
			map[string]string{}},
		{"big numbers and types are kept", `{"id":717897987691852588770249,"list":[1.10,true],"text":"a \"b\""}`,
			httpsource.Endpoint{URL: "URL/", Body: raw(`{"id":"$input.id","all":"$input.list","say":"<${$input.text}>","n":1.0,` +
				`"deep":[{"x":"$input.no ?? null"}]}`)},
			map[string]string{"line": "POST /", "body": `{"id":717897987691852588770249,"all":[1.10,true],"say":"<a \"b\">","n":1.0,` +
				`"deep":[{"x":null}]}`, "header.Content-Type.0": "application/json"}},
		{"the whole input", `{"b":2,"a":[1]}`, httpsource.Endpoint{URL: "URL/", Method: "PATCH", Body: raw(`"$input"`)},
			map[string]string{"line": "PATCH /", "body": `{"b":2,"a":[1]}`}},
		{"a form", `{"a":"x y"}`, httpsource.Endpoint{URL: "URL/", Headers: map[string]string{"Content-Type": "application/x-www-form-urlencoded"},
			Body: raw(`{"a":"$input.a","b":1.10}`)},
			map[string]string{"body": "a=x+y&b=1.10"}},
		{"a text", `{"a":"x y"}`, httpsource.Endpoint{URL: "URL/", Body: raw(`"say ${$input.a}"`)},
			map[string]string{"body": "say x y", "header.Content-Type.0": "text/plain; charset=utf-8"}},
		{"headers", `{"tag":"v1","n":7}`, httpsource.Endpoint{URL: "URL/", Headers: map[string]string{"If-Match": "$input.tag", "X-N": "${$input.n}!",
			"Accept-Language": "$5 and $$7 ${HOME}", "X-None": "$input.none ?? null"}},
			map[string]string{"header.If-Match.0": "v1", "header.X-N.0": "7!", "header.Accept-Language.0": "$5 and $$7 ${HOME}",
				"header.X-None": ""}},
	}
	tests[3].endpoint.URL = "URL/x{/p*}{?o*}"
	tests[3].want["line"] = "GET /x/a/b%2Fc?x=1&y=%C3%A9"
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, _ := withEndpoints(t, echoing, test.endpoint)
			result, err := invoke(t.Context(), s, "http.it", test.args)
			if err != nil {
				t.Fatal(err)
			}
			for path, want := range test.want {
				if got := gjson.GetBytes(result, path).String(); got != want {
					t.Errorf("%s: got %q, want %q", path, got, want)
				}
			}
		})
	}
}

// TestValuesStayInTheirSegments puts any text into every part of a URL: the host, the path's segments and the query's names do not change,
// and the value arrives whole or is rejected.
func TestValuesStayInTheirSegments(t *testing.T) {
	t.Parallel()
	var seen *url.URL
	s := open(t, &httpsource.Options{
		Endpoints: []httpsource.Endpoint{{Name: "it", URL: "https://a.example/v1/{x}/{y}/end?q={x}{&y,z}"}},
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) { seen = r.URL; return respond(200, ""), nil }),
	})
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[./\\%?#&=@:;{}a2eEfF]{0,8}`),
		rapid.SampledFrom([]string{"..", ".", "%2e%2e", "../x", `..\x`, "//evil.example", "@evil.example", "\r\nX: 1"}))
	rapid.Check(t, func(t *rapid.T) {
		x, y, z := text.Draw(t, "x"), text.Draw(t, "y"), text.Draw(t, "z")
		args, err := json.Marshal(map[string]string{"x": x, "y": y, "z": z})
		if err != nil {
			t.Fatal(err)
		}
		seen = nil
		_, err = invoke(t.Context(), s, "http.it", string(args))
		if err != nil {
			climbing := func(v string) bool {
				for _, segment := range strings.FieldsFunc(v, func(r rune) bool { return r == '/' || r == '\\' }) {
					if segment == "." || segment == ".." {
						return true
					}
				}
				return v == ""
			}
			if fault.CodeOf(err) != fault.BadArguments || seen != nil || !climbing(x) && !climbing(y) {
				t.Fatalf("%s: %v, want bad_arguments of a dot segment, and nothing sent", args, err)
			}
			return
		}
		want := []string{"", "v1", url.PathEscape(x), url.PathEscape(y), "end"}
		got := strings.Split(seen.EscapedPath(), "/")
		for i := range got {
			if plain, _ := url.PathUnescape(got[i]); i >= len(want) || plain != must(url.PathUnescape(want[i])) {
				t.Fatalf("%s: got path %s, want %s", args, seen.EscapedPath(), strings.Join(want, "/"))
			}
		}
		query := seen.Query()
		if len(got) != 5 || seen.Host != "a.example" || seen.Scheme != "https" || len(query) != 3 || query.Get("q") != x ||
			query.Get("y") != y || query.Get("z") != z {
			t.Fatalf("%s: got URL %s, want https://a.example with the 3 values in 5 segments and 3 in its query", args, seen)
		}
	})
}

func must(text string, err error) string {
	if err != nil {
		panic(err)
	}
	return text
}

func TestEndpointSpecs(t *testing.T) {
	t.Parallel()
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	const scalar = `{"type":["string","number","boolean"]}`
	tests := []struct {
		endpoint   httpsource.Endpoint
		input      string
		effect     steps.Effect
		idempotent bool
	}{
		{httpsource.Endpoint{URL: "https://a.example/{x}{?y,z*}"}, `{"type":"object","properties":{"x":` + scalar + `,"y":` + scalar +
			`,"z":{"type":["array","string","number","boolean"],"items":` + scalar + `}},"required":["x"],"additionalProperties":false}`,
			steps.Read, false},
		{httpsource.Endpoint{URL: "https://a.example/", Body: raw(`["$input.a","$input.b?.c","${$input.d}","$input.a.x ?? 1"]`)},
			`{"type":"object","properties":{"a":{},"b":{},"d":` + scalar + `},"required":["a","d"],"additionalProperties":false}`, steps.Write,
			false},
		{httpsource.Endpoint{URL: "https://a.example/", Method: "PUT", Body: raw(`"$input"`)}, `{"type":"object","properties":{}}`, steps.Write, true},
		{httpsource.Endpoint{URL: "https://a.example/", Method: "DELETE"}, `{"type":"object","properties":{},"additionalProperties":false}`,
			steps.Destroy, true},
		{httpsource.Endpoint{URL: "https://a.example/", Method: "POST", Effect: "read"},
			`{"type":"object","properties":{},"additionalProperties":false}`, steps.Read, false},
		{httpsource.Endpoint{URL: "https://a.example/", Method: "POST", Idempotent: true, Input: raw(`{"type":"object"}`)}, `{"type":"object"}`,
			steps.Write, true},
	}
	for _, test := range tests {
		test.endpoint.Name = "it"
		s := open(t, &httpsource.Options{Endpoints: []httpsource.Endpoint{test.endpoint}})
		spec := s.Functions()[2].Spec
		if string(spec.Input) != test.input || spec.Effect != test.effect || spec.Idempotent != test.idempotent || !spec.EffectDeclared ||
			spec.Deletes != (test.endpoint.Method == "DELETE") {
			t.Errorf("%+v:\ngot input %s %s %t\nwant input %s %s %t", test.endpoint, spec.Input, spec.Effect, spec.Idempotent, test.input, test.effect, test.idempotent)
		}
	}
}

// TestEndpointHosts: only endpoints may call the host of an endpoint, even a private one.
func TestEndpointHosts(t *testing.T) {
	t.Parallel()
	s, server := withEndpoints(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, "here")
	}, httpsource.Endpoint{Name: "it", URL: "URL/x"}, httpsource.Endpoint{Name: "away", URL: "URL/away"})
	if result, err := invoke(t.Context(), s, "http.it", `{}`); err != nil || string(result) != `"here"` {
		t.Errorf("got %s, %v, want \"here\"", result, err)
	}
	if _, err := invoke(t.Context(), s, "http.get", `{"url":"`+server.URL+`/x"}`); fault.CodeOf(err) != fault.Denied {
		t.Errorf("http.get of an endpoint's private host: got %v, want denied", err)
	}
	if _, err := invoke(t.Context(), s, "http.away", `{}`); fault.CodeOf(err) != fault.Denied {
		t.Errorf("a redirect to a private address: got %v, want denied", err)
	}
}

// TestConfiguredSecrets: a server that repeats its request reveals no secrets to the caller.
func TestConfiguredSecrets(t *testing.T) {
	t.Parallel()
	const secret = `top "secret" value`
	s, _ := withEndpoints(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/fail") {
			w.WriteHeader(http.StatusBadRequest)
		}
		w.Header().Set("X-Request-Id", r.Header.Get("X-Key"))
		echoing(w, r)
		_, _ = io.WriteString(w, r.Header.Get("X-Key"))
	},
		httpsource.Endpoint{Name: "good", URL: "URL/?token=query-token&n={n}",
			Headers: map[string]string{"X-Key": secret, "Authorization": "Bearer ${$input.token}", "Accept-Language": "german-de"}},
		httpsource.Endpoint{Name: "whole", URL: "URL/", Headers: map[string]string{"X-Key": secret}, Result: "response"},
		httpsource.Endpoint{Name: "bad", URL: "URL/fail", Headers: map[string]string{"X-Key": secret},
			Body: json.RawMessage(`{"client_secret":"body-secret"}`)})
	for fn, args := range map[string]string{"http.good": `{"n":1,"token":"of-the-caller"}`, "http.whole": `{}`, "http.bad": `{}`} {
		result, err := invoke(t.Context(), s, fn, args)
		shown := string(result)
		if f, ok := fault.As(err); ok {
			shown = f.Message + string(f.Body)
		}
		for _, hidden := range []string{"top ", "secret", "query-token", "of-the-caller", "body-secret"} {
			if strings.Contains(strings.ReplaceAll(shown, "client_secret", ""), hidden) {
				t.Errorf("%s shows %q: %s", fn, hidden, shown)
			}
		}
		if !strings.Contains(shown, "[redacted]") || fn == "http.good" && !strings.Contains(shown, "german-de") {
			t.Errorf("%s gives %s, want [redacted] for secrets, and plain headers as they are", fn, shown)
		}
	}
	good := s.Functions()[2].Spec
	if got := string(good.Redact([]byte(`{"n":1,"token":"of-the-caller"}`),
		func([]byte) []byte { return []byte(`"[redacted]"`) })); got != `{"n":1,"token":"[redacted]"}` {
		t.Errorf(`got recorded arguments %s, want {"n":1,"token":"[redacted]"}`, got)
	}
	if strings.Contains(good.Description, "token") {
		t.Errorf("the description shows the query: %s", good.Description)
	}
}

func TestEndpointResults(t *testing.T) {
	t.Parallel()
	s, _ := withEndpoints(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", "now")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"n": 1.10}`)
	},
		httpsource.Endpoint{Name: "body", URL: "URL/"}, httpsource.Endpoint{Name: "response", URL: "URL/", Result: "response"},
		httpsource.Endpoint{Name: "head", Method: "HEAD", URL: "URL/"}, httpsource.Endpoint{Name: "headbody", Method: "HEAD", URL: "URL/",
			Result: "body"})
	for fn, want := range map[string]string{
		"http.body":     `{"n":1.10}`,
		"http.response": `{"status":200,"headers":{"content-length":"11","content-type":"application/json","date":"now"},"body":{"n":1.10}}`,
		"http.head":     `{"status":200,"headers":{"content-length":"11","content-type":"application/json","date":"now"},"body":null}`,
		"http.headbody": `null`,
	} {
		if result, err := invoke(t.Context(), s, fn, `{}`); err != nil || string(result) != want {
			t.Errorf("%s: got %s, %v, want %s", fn, result, err, want)
		}
	}
}

// TestEndpointRetries: a call that reads or was declared idempotent is repeated, whatever its method, within its time limit.
func TestEndpointRetries(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		endpoint httpsource.Endpoint
		sent     int
		took     time.Duration
		code     fault.Code
	}{
		{httpsource.Endpoint{Method: "POST"}, 1, 0, fault.FunctionFailed},
		{httpsource.Endpoint{Method: "POST", Effect: "read"}, 4, 6 * time.Second, fault.FunctionFailed},
		{httpsource.Endpoint{Method: "PATCH", Idempotent: true, Body: json.RawMessage(`{"a":1}`)}, 4, 6 * time.Second, fault.FunctionFailed},
		{httpsource.Endpoint{Method: "GET", TimeoutMs: 5000}, 3, 4 * time.Second, fault.FunctionFailed},
	} {
		synctest.Test(t, func(t *testing.T) {
			sent := 0
			test.endpoint.Name, test.endpoint.URL = "it", "https://a.example/"
			s := open(t, &httpsource.Options{Endpoints: []httpsource.Endpoint{test.endpoint},
				Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					sent++
					if r.Body != nil {
						if body, err := io.ReadAll(r.Body); err != nil || string(body) != string(test.endpoint.Body) {
							t.Errorf("got body %s, %v, want %s", body, err, test.endpoint.Body)
						}
					}
					return respond(503, "", "Retry-After", "2"), nil
				})})
			start := time.Now()
			_, err := invoke(t.Context(), s, "http.it", `{}`)
			if fault.CodeOf(err) != test.code || sent != test.sent || time.Since(start) != test.took {
				t.Errorf("%+v: sent %d times in %v: %v; want %d times in %v", test.endpoint, sent, time.Since(start), err, test.sent, test.took)
			}
		})
	}
}

// FuzzEndpoint: any template with any value gives a coded fault, or a call to the host with which the template begins.
func FuzzEndpoint(f *testing.F) {
	for _, path := range []string{"", "/", "/{x}", "/{x}{?y}", "{/x*}", "/a?b={x}{&y*}", "/{x:3}", "/{;x}", "/{.x}", "@b.example/",
		":80/{x}", "/%2e%2e/{x}"} {
		f.Add(path, "..", "v")
	}
	f.Fuzz(func(t *testing.T, path, x, y string) {
		s, err := httpsource.New(&httpsource.Options{
			Endpoints: []httpsource.Endpoint{{Name: "it", URL: "https://a.example" + path, Input: json.RawMessage(`{"type":"object"}`)}},
			Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				if !strings.HasPrefix(path, ".") && !strings.HasPrefix(path, ":") && r.URL.Hostname() != "a.example" && strings.HasPrefix(path, "/") {
					t.Errorf("%q with %q, %q called %s", path, x, y, r.URL)
				}
				return respond(200, ""), nil
			}),
		})
		if err != nil {
			if _, ok := fault.As(err); !ok {
				t.Fatalf("%q: got %v, want an error with a code", path, err)
			}
			return
		}
		args, err := json.Marshal(map[string]any{"x": x, "y": []string{y, x}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := invoke(t.Context(), s, "http.it", string(args)); err != nil && fault.CodeOf(err) == fault.Internal {
			t.Fatalf("%q with %s: %v, want anything but internal", path, args, err)
		}
	})
}

// TestPageInPlaceOfJSON: a text where output declares an object or an array is no success.
func TestPageInPlaceOfJSON(t *testing.T) {
	t.Parallel()
	page := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<p>please log in")
	}
	object := json.RawMessage(`{"type":["object","null"]}`)
	for _, c := range []struct {
		endpoint httpsource.Endpoint
		outcome  fault.Outcome
		ok       bool
	}{
		{httpsource.Endpoint{Output: object}, "", false},
		{httpsource.Endpoint{Output: json.RawMessage(`{"anyOf":[{"type":"array"},{"type":"object"}]}`), Method: "POST"}, fault.Applied, false},
		{httpsource.Endpoint{Output: object, Method: "POST", Effect: "read"}, "", false},
		{httpsource.Endpoint{Output: json.RawMessage(`{"type":["object","string"]}`)}, "", true},
		{httpsource.Endpoint{}, "", true},
	} {
		c.endpoint.URL = "URL/x"
		s, _ := withEndpoints(t, page, c.endpoint)
		result, err := invoke(t.Context(), s, "http.it", `{}`)
		f, _ := fault.As(err)
		switch {
		case c.ok && string(result) != `"<p>please log in"`:
			t.Errorf("%s: got %s, %v, want the text", c.endpoint.Output, result, err)
		case !c.ok && (f == nil || f.Code != fault.FunctionFailed || f.Outcome != c.outcome || !strings.Contains(f.Message, "text/html")):
			t.Errorf("%s: got %s, %+v, want function_failed with both types, outcome %q", c.endpoint.Output, result, f, c.outcome)
		}
	}
}

// TestEndpointResultForms: the configuration may choose another form than the endpoint's own.
func TestEndpointResultForms(t *testing.T) {
	t.Parallel()
	s, _ := withEndpoints(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil
		w.Header().Set("X-Entity", "7")
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Location", "/things/7")
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/empty" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = io.WriteString(w, `{"a":1}`)
	}, httpsource.Endpoint{Name: "body", URL: "URL/a"}, httpsource.Endpoint{Name: "response", URL: "URL/a", Result: "response"},
		httpsource.Endpoint{Name: "empty", URL: "URL/empty"})
	const response = `{"status":200,"headers":{"content-length":"7","content-type":"application/json","location":"/things/7","x-entity":"7"},` +
		`"body":{"a":1}}`
	for _, c := range []struct{ fn, form, want string }{
		{"http.body", "", `{"a":1}`}, {"http.body", steps.ResultResponse, response},
		{"http.response", "", response}, {"http.response", steps.ResultBody, `{"a":1}`},
		{"http.empty", "", `{"status":204,"headers":{"location":"/things/7"}}`},
	} {
		ctx := t.Context()
		if c.form != "" {
			ctx = steps.WithResult(ctx, c.form)
		}
		if got, err := invoke(ctx, s, c.fn, `{}`); err != nil || string(got) != c.want {
			t.Errorf("%s %s: got %s, %v, want %s", c.fn, c.form, got, err, c.want)
		}
	}
}
