package http_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/internal/transcript"
	httpsource "github.com/onecall-mcp/onecall/steps/source/http"
)

func redactAll(args []byte) []byte {
	s, err := httpsource.New(nil)
	if err != nil {
		panic(err)
	}
	defer func() { _ = s.Close() }()
	return s.Functions()[0].Redact(args, func([]byte) []byte { return []byte(`"[redacted]"`) })
}

// TestRedact redacts the arguments of testdata/redact.txt; the indented line is the result.
func TestRedact(t *testing.T) {
	t.Parallel()
	transcript.FileLines(t, "testdata/redact.txt", func(line string) string {
		args := []byte(line)
		shown := redactAll(args)
		if string(args) != line {
			t.Errorf("%s: the arguments were changed", line)
		}
		if again := redactAll(slices.Clone(shown)); string(again) != string(shown) {
			t.Errorf("%s: a second redaction gives %s, want %s", line, again, shown)
		}
		return string(shown)
	})
}

// TestNoSecretSurvives puts a secret into every possible position and looks for it in the recorded arguments.
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
		shown := redactAll(args)
		if strings.Contains(string(shown), secret) {
			t.Fatalf("%s\nis redacted to %s, want it without %s", args, shown, secret)
		}
		if !json.Valid(shown) {
			t.Fatalf("the redacted arguments are not JSON: %s", shown)
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
		if shown := redactAll([]byte(`{"url":"https://a.b","body":` + string(body) + `}`)); !json.Valid(shown) {
			t.Error("the redacted arguments are not JSON")
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
		once := redactAll(args)
		if !json.Valid(once) {
			t.Fatalf("%s is redacted to %s, which is not JSON", args, once)
		}
		if again := redactAll(once); string(again) != string(once) {
			t.Fatalf("%s\nis redacted to %s\nand then to %s, want the same", args, once, again)
		}
	})
}
