package raw

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
)

func FuzzWith(f *testing.F) {
	f.Add(`{"a":1,"_meta":{"x":[1.50]}}`, "_meta", `{"y":2}`)
	f.Add(`{}`, "a", `null`)
	f.Fuzz(func(t *testing.T, object, key, value string) {
		if !gjson.Valid(object) || !gjson.Parse(object).IsObject() || !gjson.Valid(value) || strings.ContainsAny(key, "\"\\") ||
			!json.Valid([]byte(`"`+key+`"`)) {
			return
		}
		if got := With(json.RawMessage(object), key, json.RawMessage(value)); !json.Valid(got) && json.Valid([]byte(object)) {
			t.Errorf("With returns invalid JSON: %s", got)
		}
		if got := With(json.RawMessage(object), key, nil); gjson.ParseBytes(got).Map()[key].Exists() {
			t.Errorf("%s still has %q", got, key)
		}
	})
}

// TestMetaOfRawResults: adding to the _meta of an upstream's result changes nothing else in the result.
func TestMetaOfRawResults(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{}`:      `{"_meta":{"a/b":"id"}}`,
		" {\n } ": `{"_meta":{"a/b":"id"}}`,
		`{"x":1}`: `{"_meta":{"a/b":"id"},"x":1}`,
		"\t{ \"x\" : {\"_meta\":1.10},\"y\":[] }":                  `{"_meta":{"a/b":"id"},"x":{"_meta":1.10},"y":[]}`,
		`{"x":1,"_meta":{"a/b":"other","z":12345678901234567890}}`: `{"x":1,"_meta":{"z":12345678901234567890,"a/b":"id"}}`,
		`{"_meta":null,"x":1}`:                                     `{"x":1,"_meta":{"a/b":"id"}}`,
	} {
		got, err := json.Marshal(&result{ResultBase: sdk.ResultBase{Meta: sdk.Meta{"a/b": "id"}}, body: json.RawMessage(body)})
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, want %s (%v)", body, got, want, err)
		}
		plain, err := json.Marshal(&result{body: json.RawMessage(body)})
		var compact bytes.Buffer
		if json.Compact(&compact, []byte(body)) != nil || err != nil || string(plain) != compact.String() {
			t.Errorf("%s: without _meta: got %s (%v), want %s", body, plain, err, compact.String())
		}
	}
}
