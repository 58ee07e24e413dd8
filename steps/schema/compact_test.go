package schema

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/fault"
)

func TestCompact(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		`{}`: `{}`,
		" {\"b\" : 1.10 ,\r\n\t\"a\":[ 717897987691852588770249 , 1e5 , -0 ] } ": `{"b":1.10,"a":[717897987691852588770249,1e5,-0]}`,
		`"a \" b\\"`:               `"a \" b\\"`,
		` [ "x\\" , " \u0041 " ] `: `["x\\"," \u0041 "]`,
		`{"a":1,"a": 2}`:           `{"a":1,"a":2}`,
		` null `:                   `null`,
		"\"é\u2028\"":              "\"é\u2028\"",
		strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000): strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000),
	}
	for value, want := range tests {
		before := strings.Clone(value)
		got, err := Compact([]byte(value))
		if err != nil || string(got) != want || value != before {
			t.Errorf("Compact(%.60q) = %.60s, %v, want %.60s", value, got, err, want)
		}
	}
	value := []byte(`{"a":"b c"}`)
	if got, err := Compact(value); err != nil || &got[0] != &value[0] {
		t.Errorf("Compact of a compact value: %s, %v, want the value, not a copy", got, err)
	}
	for _, bad := range []string{"", " ", "{", "{}{}", `{"a"}`, "[1,]", "01", "1.", "nul", `"a`, `"\x"`, "\"\n\"", "\"\xff\"", "\ufeff{}",
		"NaN",
		strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001), strings.Repeat("[", 5_000_000)} {
		if got, err := Compact([]byte(bad)); fault.CodeOf(err) != fault.BadJSON || got != nil {
			t.Errorf("Compact(%.60q) = %.60s, %v, want bad_json", bad, got, err)
		}
	}
}

// Two other JSON implementations decide what is valid and what is compact.
func FuzzCompact(f *testing.F) {
	for _, value := range []string{`{"a": [1, 2.50, "x\\"]}`, `"\ud800"`, `"\ud800\ud800\uDC00"`, `{"a":1,"a":2}`, "[1,]", " \n", `"\\\""`,
		"-0.0e+1", `{" ":"\" "}`} {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		before := bytes.Clone(value)
		got, err := Compact(value)
		if !bytes.Equal(before, value) {
			t.Fatal("the value was changed")
		}
		if valid := json.Valid(value) && utf8.Valid(value); valid != (err == nil) {
			t.Fatalf("%q: Compact returned %v, want success %t", value, err, valid)
		}
		if err != nil {
			return
		}
		var want bytes.Buffer
		if err := json.Compact(&want, value); err != nil || want.String() != string(got) {
			t.Fatalf("%q: got %s, want %s, %v", value, got, want.String(), err)
		}
		decoded, fault := decode(got)
		if fault != nil {
			return // a duplicate key, or a number that is too long
		}
		decoder := json.NewDecoder(bytes.NewReader(got))
		decoder.UseNumber()
		var other any
		if err := decoder.Decode(&other); err != nil {
			t.Fatal(err)
		}
		a, errA := json.Marshal(decoded)
		b, errB := json.Marshal(other)
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Fatalf("%q: decoded to %s, want %s", value, a, b)
		}
	})
}
