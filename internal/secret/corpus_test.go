package secret

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// configured are secrets of the kinds that configurations hold.
var configured = []string{"Bearer ghp-0aB1cD2eF3gH4iJ5kL6mN7oP8qR9", "sk-live/51+Hb=", "Basic YWxpY2U6b3Blbi1zZXNhbWU=",
	"correct horse battery", "hunter2", "483920",
	"-----BEGIN KEY-----\nMIIEvQIBADANBgkq\n-----END KEY-----", `a"b\c<é>`,
	"a=1; session=XYZsecret9", "ApiKey: QWERTY12345"}

// corpus returns results in the shapes that real services have.
func corpus(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("got files %q, %v, want at least one", files, err)
	}
	all := map[string][]byte{}
	for _, file := range files {
		if all[filepath.Base(file)], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// Answers of upstreams keep every byte, whatever they look like, unless they repeat a secret of the configuration. Then the string or key
// that repeats it is redacted, and no other byte changes.
func TestCorpusOfResults(t *testing.T) {
	t.Parallel()
	s := New(configured)
	for name, value := range corpus(t) {
		if got := s.JSON(value); !bytes.Equal(got, value) {
			t.Errorf("%s was changed to %s, want no change", name, got)
		}
		index := 0
		for start, end := range rawjson.Scalars(value) {
			if value[start] != '"' {
				continue
			}
			index++
			planted := configured[index%len(configured)]
			text := rawjson.AppendQuote(nil, "é "+planted+", "+planted+"!")
			got := s.JSON(slices.Concat(value[:start], text, value[end:]))
			shown := gjson.ParseBytes(got[start : len(got)-(len(value)-end)]).Str
			if !bytes.HasPrefix(got, value[:start]) || !bytes.HasSuffix(got, value[end:]) || shown != "é [redacted], [redacted]!" {
				t.Fatalf("%s with %q at byte %d: the string is %q, want both redacted and nothing else", name, planted, start, shown)
			}
		}
		if index < 20 {
			t.Errorf("%s has %d strings, want at least 20", name, index)
		}
	}
}

// Of arguments in these shapes, only what has the name of a secret is hidden.
func TestCorpusOfArguments(t *testing.T) {
	t.Parallel()
	want := map[string][]string{
		"github.json": {"secret_scanning", "secret_scanning_push_protection", "signature", "secrets", "deploy_keys", "token"},
		"stripe.json": {"client_secret", "secret"},
		"kubernetes.json": {"checksum/secret", "imagePullSecrets", "secretKeyRef", "secretRef", "serviceAccountToken", "secret", "secret",
			"token_request"},
		"filesystem.json": {"auth"},
	}
	for name, value := range corpus(t) {
		hidden := namesOf(value)
		if name == "filesystem.json" { // its only name of a secret is inside a text
			if len(hidden) > 0 {
				t.Errorf("%s: hidden %q, want none", name, hidden)
			}
			hidden = namesOf([]byte(gjson.GetBytes(value, "content.1.text").Str))
		}
		if !slices.Equal(hidden, want[name]) {
			t.Errorf("%s: hidden %q, want %q", name, hidden, want[name])
		}
	}
}

// namesOf returns the names of the members that are hidden in arguments.
func namesOf(args []byte) (names []string) {
	shown := Redaction(nil)(args, func([]byte) []byte { return []byte(`"` + Redacted + `"`) })
	var walk func(value gjson.Result)
	walk = func(value gjson.Result) {
		value.ForEach(func(key, member gjson.Result) bool {
			if member.Str == Redacted {
				names = append(names, key.Str)
			}
			if member.Type == gjson.JSON {
				walk(member)
			}
			return true
		})
	}
	walk(gjson.ParseBytes(shown))
	return names
}
