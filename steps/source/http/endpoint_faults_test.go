package http_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	httpsource "github.com/onecall-mcp/onecall/steps/source/http"
)

func TestEndpointArgumentsRefused(t *testing.T) {
	t.Parallel()
	s, _ := withEndpoints(t, func(http.ResponseWriter, *http.Request) { t.Error("a refused request was sent") },
		httpsource.Endpoint{Name: "path", URL: "URL/v1/{id}/x.{kind}{?q}", Input: json.RawMessage(`{"type":"object"}`)},
		httpsource.Endpoint{Name: "rest", URL: "URL/", Method: "PUT", Headers: map[string]string{"X-A": "$input.a ?? 1"},
			Query: map[string]json.RawMessage{"q": json.RawMessage(`"$input.q ?? 1"`)}, Body: json.RawMessage(`{"b":"$input.b.c"}`)})
	tests := []struct{ fn, args, at string }{
		{"http.path", `{"kind":"a"}`, "/id"},
		{"http.path", `{"id":null,"kind":"a"}`, "/id"},
		{"http.path", `{"id":"","kind":"a"}`, "/id"},
		{"http.path", `{"id":"..","kind":"a"}`, "/id"},
		{"http.path", `{"id":"x/../y","kind":"a"}`, "/id"},
		{"http.path", `{"id":[],"kind":"a"}`, "/id"},
		{"http.path", `{"id":[""],"kind":"a"}`, "/id"},
		{"http.path", `{"id":{"":""},"kind":"a"}`, "/id"},
		{"http.path", `{"id":{"a":{}},"kind":"a"}`, "/id"},
		{"http.path", `{"id":1,"kind":"a","q":[[1]]}`, "/q"},
		{"http.path", `[]`, ""},
		{"http.path", `{`, ""},
		{"http.rest", `{}`, ""},
		{"http.rest", `{"b":1}`, ""},
		{"http.rest", `{"b":{"c":1},"a":"x\r\nX-B: topsecret"}`, ""},
		{"http.rest", `{"b":{"c":1},"a":["topsecret"]}`, ""},
		{"http.rest", `{"b":{"c":1},"q":{"x":"topsecret"}}`, ""},
	}
	for _, test := range tests {
		_, err := invoke(t.Context(), s, test.fn, test.args)
		f, _ := fault.As(err)
		if f == nil || f.Code != fault.BadArguments || f.At != test.at || strings.Contains(f.Message, "topsecret") {
			t.Errorf("%s %s: %v, want bad_arguments at %q", test.fn, test.args, err, test.at)
		}
	}
}

// TestEndpointFaults checks all faults of a configuration, which are reported together, each at its position.
func TestEndpointFaults(t *testing.T) {
	t.Parallel()
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	url := "https://a.example/"
	tests := []struct {
		endpoint httpsource.Endpoint
		at       string
		code     fault.Code
	}{
		{httpsource.Endpoint{}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: "a.example/x"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: "ftp://a.example/x"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: "https://{topsecret}/x"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: "https://a.{topsecret}/x"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: "https://a.example{x}"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: "https://a.example{?x}"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: "https://a.example{/x}.evil.example"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: "{x}://a.example/"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: "https://me:topsecret@a.example/"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: "https://a.example:99999/"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: "https://127.1/"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: "https://*.example/"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: url + "#topsecret"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: url + "{#x}"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: url + "{+x}"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: url + "?a={+x}"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: url + "{topsecret"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: url + "topsecret}"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: url + "{a.b}"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: url + "{}"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: url + "{?x}/y"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: url + "{?x}{?y}"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: url + "?a=b{?y}"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: url + "{&y}"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: url + "?a=b{/y}"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: url + "../{y}"}, "/url", fault.BadRequest},
		{httpsource.Endpoint{URL: url, Method: "get"}, "/method", fault.BadRequest},
		{httpsource.Endpoint{URL: url, Method: "GET", Body: raw(`{}`)}, "/body", fault.BadRequest},
		{httpsource.Endpoint{URL: url, Body: raw(`{`)}, "/body", fault.BadRequest},
		{httpsource.Endpoint{URL: url, Body: raw(`{"a":["$0.x"]}`)}, "/body/a/0", fault.BadReference},
		{httpsource.Endpoint{URL: url, Body: raw(`{"a":"$secret.x"}`)}, "/body/a", fault.NotSupported},
		{httpsource.Endpoint{URL: url, Body: raw(`{"a":"$input[0]"}`)}, "/body/a", fault.BadRequest},
		{httpsource.Endpoint{URL: url, Headers: map[string]string{"Host": "topsecret"}}, "/headers/Host", fault.BadRequest},
		{httpsource.Endpoint{URL: url, Headers: map[string]string{"X A": "topsecret"}}, "/headers/X A", fault.BadRequest},
		{httpsource.Endpoint{URL: url, Headers: map[string]string{"X-A": "topsecret\r\n"}}, "/headers/X-A", fault.BadRequest},
		{httpsource.Endpoint{URL: url, Headers: map[string]string{"X-A": "$inputtopsecret"}}, "/headers/X-A", fault.BadReference},
		{httpsource.Endpoint{URL: url, Headers: map[string]string{"X-A": "topsecret ${$input.}"}}, "/headers/X-A", fault.BadReference},
		{httpsource.Endpoint{URL: url, Query: map[string]json.RawMessage{"q": raw(`"$1"`)}}, "/query/q", fault.BadReference},
		{httpsource.Endpoint{URL: url, Query: map[string]json.RawMessage{"q": raw(`{"a":1}`)}}, "/query/q", fault.BadRequest},
		{httpsource.Endpoint{URL: url, Query: map[string]json.RawMessage{"q": raw(``)}}, "/query/q", fault.BadRequest},
		{httpsource.Endpoint{URL: url, Input: raw(`[]`)}, "/input", fault.BadRequest},
		{httpsource.Endpoint{URL: url, Input: raw(`{"type":"string"}`)}, "/input", fault.BadRequest},
		{httpsource.Endpoint{URL: url + "{city}", Input: raw(`{"type":"object","properties":{"citty":{}},"additionalProperties":false}`)},
			"/input", fault.BadRequest},
		{httpsource.Endpoint{URL: url, Output: raw(`{`)}, "/output", fault.BadRequest},
		{httpsource.Endpoint{URL: url, Effect: "reed"}, "/effect", fault.BadRequest},
		{httpsource.Endpoint{URL: url, Result: "bodi"}, "/result", fault.BadRequest},
		{httpsource.Endpoint{URL: url, TimeoutMs: -1}, "/timeoutMs", fault.BadRequest},
	}
	o := httpsource.Options{Allow: []string{"a b", "fine.example", "*"}}
	want := []string{"/allow/0 bad_request", "/allow/2 bad_request"}
	for i, test := range tests {
		test.endpoint.Name = "e" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		o.Endpoints = append(o.Endpoints, test.endpoint)
		want = append(want, "/endpoints/"+test.endpoint.Name+test.at+" "+string(test.code))
	}
	for _, name := range []string{"", "a/b", "a.", "Get", "request", "ea a"} {
		o.Endpoints = append(o.Endpoints, httpsource.Endpoint{Name: name, URL: url})
		want = append(want, fault.Key("/endpoints", name)+" bad_request")
	}
	o.Endpoints = append(o.Endpoints, httpsource.Endpoint{Name: "twice", URL: url}, httpsource.Endpoint{Name: "Twice", URL: url})
	want = append(want, "/endpoints/Twice bad_request")
	_, err := httpsource.New(&o)
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("got %v, want several errors", err)
	}
	var got []string
	for _, err := range joined.Unwrap() {
		f, _ := fault.As(err)
		got = append(got, f.At+" "+string(f.Code))
		if strings.Contains(f.Message+f.Source, "topsecret") {
			t.Errorf("the fault shows a secret: %v (%s)", f, f.Source)
		}
	}
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			t.Fatalf("fault %d:\ngot  %s\nwant %s", i, got[min(i, len(got)):], want[min(i, len(want)):])
		}
	}
}
