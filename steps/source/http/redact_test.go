package http_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	httpsource "github.com/onecall-mcp/onecall/steps/source/http"
)

func hidden(args []byte) []byte {
	s, err := httpsource.New(nil)
	if err != nil {
		panic(err)
	}
	defer func() { _ = s.Close() }()
	return s.Functions()[0].Redact(args, func([]byte) []byte { return []byte(`"[redacted]"`) })
}

func TestRedact(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, args, want string }{
		{"headers", `{"url":"https://a.b/c","headers":{"Authorization":"Bearer x","accept":"text/csv","X-Custom":"x",` +
			`"If-None-Match":"\"1\"","cookie":"a=b"}}`,
			`{"url":"https://a.b/c","headers":{"Authorization":"[redacted]","accept":"text/csv","X-Custom":"[redacted]",` +
				`"If-None-Match":"\"1\"","cookie":"[redacted]"}}`},
		{"query", `{"url":"https://a.b","query":{"page":1.10,"api_key":"x","accessToken":["x"],"q":"token"}}`,
			`{"url":"https://a.b","query":{"page":1.10,"api_key":"[redacted]","accessToken":"[redacted]","q":"token"}}`},
		{"URL", `{"url":"https://a.b/c?q=%2f&X-Amz-Signature=x&sig=y&flag"}`,
			`{"url":"https://a.b/c?q=%2f&X-Amz-Signature=%5Bredacted%5D&sig=%5Bredacted%5D&flag"}`},
		{"URL without secrets keeps its bytes", `{"url":"https://a.b/c d?x=ü&monkey=1&keyword=2"}`,
			`{"url":"https://a.b/c d?x=ü&monkey=1&keyword=2"}`},
		{"user in the URL", `{"url":"https://me:pw@a.b/"}`, `{"url":"https://redacted@a.b/"}`},
		{"no URL", `{"url":"http://[pw"}`, `{"url":"[redacted]"}`},
		{"body", `{"method":"POST","url":"https://a.b","body":{"user":"u","password":"x","deep":[{"clientSecret":{"a":1},"n":1.0}]}}`,
			`{"method":"POST","url":"https://a.b","body":{"user":"u","password":"[redacted]","deep":[{"clientSecret":"[redacted]","n":1.0}]}}`},
		{"JSON in a string", `{"url":"https://a.b","body":"{\"token\":\"x\",\"a\":1}"}`,
			`{"url":"https://a.b","body":"{\"token\":\"[redacted]\",\"a\":1}"}`},
		{"a form in a string", `{"url":"https://a.b","headers":{"content-TYPE":"application/x-www-form-urlencoded; charset=utf-8"},` +
			`"body":"a=1&client_secret=x"}`,
			`{"url":"https://a.b","headers":{"content-TYPE":"application/x-www-form-urlencoded; charset=utf-8"},` +
				`"body":"a=1&client_secret=%5Bredacted%5D"}`},
		{"a fragment is never sent", `{"url":"https://a.b/c?x=1#access_token=x"}`, `{"url":"https://a.b/c?x=1"}`},
		{"semicolons", `{"url":"https://a.b/c?a=1;token=x;b=2&sig=y;z&d=3;4"}`,
			`{"url":"https://a.b/c?a=1;token=%5Bredacted%5D&sig=%5Bredacted%5D&d=3;4"}`},
		{"a blank before the type", `{"headers":{"Content-Type":" application/x-www-form-urlencoded"},"body":"a=1 2&password=x y"}`,
			`{"headers":{"Content-Type":" application/x-www-form-urlencoded"},"body":"a=1 2&password=%5Bredacted%5D"}`},
		{"a form without a type", `{"body":"a=1&password=x&b=2"}`, `{"body":"a=1&password=%5Bredacted%5D&b=2"}`},
		{"a form with an address", `{"body":"u=https://a.b&password=x"}`, `{"body":"u=https://a.b&password=%5Bredacted%5D"}`},
		{"assignments", `{"body":"A=1\nDB_PASSWORD=x y\nB=2"}`, `{"body":"A=1\nDB_PASSWORD=%5Bredacted%5D y\nB=2"}`},
		{"names", `{"body":{"sessionid":1,"SessionID":1,"JSESSIONID":1,"accesskey":1,"AccessKeyId":1,"privatekey":1,"passcode":1,` +
			`"pat":1,"github_pat":1,"path":1,"pattern":1,"session":1,"page":1}}`,
			`{"body":{"sessionid":"[redacted]","SessionID":"[redacted]","JSESSIONID":"[redacted]","accesskey":"[redacted]",` +
				`"AccessKeyId":"[redacted]","privatekey":"[redacted]","passcode":"[redacted]","pat":"[redacted]","github_pat":"[redacted]",` +
				`"path":1,"pattern":1,"session":"[redacted]","page":1}}`},
		{"URLs in a body", `{"body":{"hook":"https://a.b/?token=x&n=1#frag","to":"postgres://me:pw@db/x","text":"see ` +
			`https://a.b/?sig=x, or https://auth.b/?n=1","n":1.0}}`,
			`{"body":{"hook":"https://a.b/?token=%5Bredacted%5D&n=1#frag","to":"postgres://redacted@db/x","text":"see ` +
				`https://a.b/?sig=%5Bredacted%5D or https://auth.b/?n=1","n":1.0}}`},
		{"a URL in a query", `{"url":"https://a.b/?to=https%3A%2F%2Fc.d%2F%3Ftoken%3Dx&n=%2f"}`,
			`{"url":"https://a.b/?to=https%3A%2F%2Fc.d%2F%3Ftoken%3D%255Bredacted%255D&n=%2f"}`},
		{"a name and a value", `{"body":[{"name":"password","value":"x"},{"value":{"a":1},"Key":"API-Token"},{"name":"page","value":"x"}]}`,
			`{"body":[{"name":"password","value":"[redacted]"},{"value":"[redacted]","Key":"[redacted]"},{"name":"page","value":"x"}]}`},
		{"arguments of the wrong kind", `{"URL":"https://a.b?key=x","Headers":"x","QUERY":{"key":"x"}}`,
			`{"URL":"https://a.b?key=%5Bredacted%5D","Headers":"[redacted]","QUERY":{"key":"[redacted]"}}`},
		{"no object", `["x"]`, `"[redacted]"`},
	}
	for _, test := range tests {
		args := []byte(test.args)
		got := string(hidden(args))
		if got != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", test.name, got, test.want)
		}
		if string(args) != test.args {
			t.Errorf("%s: the arguments were changed", test.name)
		}
		if again := string(hidden([]byte(got))); again != got {
			t.Errorf("%s: redacted again it is %s", test.name, again)
		}
	}
}

// TestNoSecretSurvives puts a secret wherever one may stand and looks for it in what is recorded.
func TestNoSecretSurvives(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3tvalue"
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"token", "accessToken", "X-API-Key", "client_secret", "sig", "PASSWORD", "session_id",
			"refresh-token"})
		var body any = secret
		key := name.Draw(t, "key")
		for range rapid.IntRange(0, 5).Draw(t, "depth") {
			switch rapid.IntRange(0, 2).Draw(t, "level") {
			case 0:
				body = map[string]any{key: body, "b": 1}
			case 1:
				body = map[string]any{"a": []any{1, body}, key: "x"}
			case 2:
				text, err := json.Marshal(map[string]any{key: body})
				if err != nil {
					t.Fatal(err)
				}
				body = string(text)
			}
		}
		args, err := json.Marshal(map[string]any{
			"url":     "https://a.example/p?" + name.Draw(t, "in the URL") + "=" + secret,
			"headers": map[string]string{rapid.StringMatching(`X-[A-Za-z]{1,8}`).Draw(t, "header"): secret},
			"query":   map[string]any{name.Draw(t, "in the query"): []string{secret}},
			"body":    map[string]any{key: body},
		})
		if err != nil {
			t.Fatal(err)
		}
		shown := hidden(args)
		if strings.Contains(string(shown), secret) {
			t.Fatalf("%s\nis shown as %s", args, shown)
		}
		if !json.Valid(shown) {
			t.Fatalf("%s is no JSON", shown)
		}
	})
}

func TestRedactDeepValues(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), strings.Repeat("[", 3_000_000)} {
		body, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if shown := hidden([]byte(`{"url":"https://a.b","body":` + string(body) + `}`)); !json.Valid(shown) {
			t.Error("not JSON")
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("a=1;token=x&b=https://h/?key=1#sig=2", "name")
	f.Add(`{"token":"x"} a=a=a=a`, "key")
	f.Fuzz(func(t *testing.T, text, name string) {
		args, err := json.Marshal(map[string]any{"url": text, "query": map[string]string{name: text},
			"body": []any{text, map[string]string{"name": name, "value": text}}})
		if err != nil {
			t.Fatal(err)
		}
		once := hidden(args)
		if !json.Valid(once) {
			t.Fatalf("%s gave %s", args, once)
		}
		if again := hidden(once); string(again) != string(once) {
			t.Fatalf("%s\ngave      %s\nand again %s", args, once, again)
		}
	})
}
