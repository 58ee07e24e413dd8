package budget_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// jsonText draws JSON as sources write it: odd spellings of numbers, escapes, duplicate keys, in compact form.
func jsonText(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		maximum := 6
		if depth == 0 {
			maximum = 3
		}
		switch rapid.IntRange(0, maximum).Draw(t, "kind") {
		case 0:
			return rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "literal")
		case 1:
			return rapid.SampledFrom([]string{"0", "-1", "1.10", "1e5", "-0.0", "717897987691852588770249", "123456"}).Draw(t, "number")
		case 2, 3:
			return jsonString().Draw(t, "string")
		case 4, 5:
			return "[" + strings.Join(rapid.SliceOfN(jsonText(depth-1), 0, 12).Draw(t, "items"), ",") + "]"
		}
		var members []string
		for range rapid.IntRange(0, 6).Draw(t, "members") {
			members = append(members, jsonString().Draw(t, "key")+":"+jsonText(depth-1).Draw(t, "value"))
		}
		return "{" + strings.Join(members, ",") + "}"
	})
}

func jsonString() *rapid.Generator[string] {
	pieces := []string{"a", "bc", "é", "語", "🙂", `\n`, `\r\n`, `\u000a`, `\u000A`, `\\`, `\"`, `\\n`, `\ud83d\ude00`, `\ud83d`, `\u00e9`,
		`\/`, " ", "id", "name", ".", "[", "{", "]", ",", ":"}
	return rapid.Map(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 10), func(s []string) string { return `"` + strings.Join(s, "") + `"` })
}

// numbered returns an array of n objects of about 40 bytes.
func numbered(n int) []byte {
	var b bytes.Buffer
	b.WriteByte('[')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":%d,"name":"item %d","price":1.10}`, i, i)
	}
	b.WriteByte(']')
	return b.Bytes()
}

// lineText returns a JSON string of n lines.
func lineText(n int) []byte {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return marshal(b.String())
}

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// decode decodes an answer; numbers keep their spelling.
func decode[T any](t testing.TB, b []byte) (v T) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%.200s: %v", b, err)
	}
	return v
}
