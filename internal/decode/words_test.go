package decode_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
)

func TestUnknown(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"lits":                     `unknown field "lits": did you mean lite?`,
		"x":                        `unknown field "x": known here are lite, trace`,
		strings.Repeat("long", 50): `unknown field "` + fault.ClipRunes(strings.Repeat("long", 50), 60) + `": known here are lite, trace`,
	} {
		f := decode.Unknown("field", name, "/a", []string{"lite", "trace"})
		if f.Message != want || f.Code != fault.UnknownField || f.At != "/a/"+name || !errors.Is(f, fault.ErrUnknownKey) {
			t.Errorf("%s: %v at %s, want %s", name, f, f.At, want)
		}
	}
}

func TestInsteadOf(t *testing.T) {
	t.Parallel()
	for want, raws := range map[string]map[string]string{
		"an object": {`"{\"a\":1}"`: ": send the object itself, not a string of it", `[]`: ", not an array", `"a"`: `, not the string "a"`, `null`: ", not null"},
		"an array":  {`"[1]"`: ": send the array itself, not a string of it", `{}`: ", not an object", `true`: ", not a boolean", `1e3`: ", not the number 1e3"},
	} {
		for raw, instead := range raws {
			if got := decode.InsteadOf(want, gjson.Parse(raw)); got != instead {
				t.Errorf("%s instead of %s: %q, want %q", raw, want, got, instead)
			}
		}
	}
}

// TestOwnFieldTwice: a name that is there twice, which compact text never has, is read once.
func TestOwnFieldTwice(t *testing.T) {
	t.Parallel()
	type one struct {
		A []byte `json:"a" kind:"any"`
	}
	var r decode.Reader
	into := &one{}
	read := r.Object(gjson.Parse(`{"a":1,"a":2,"a":3,"a":4,"a":5,"a":6}`), "", decode.TableOf[one]("a"), into, nil, nil)
	if own := read.Own(); len(own) != 1 || own[0].Value.Raw != "6" || len(r.Faults.List) > 0 {
		t.Errorf("own %v, faults %v; want the last value alone", own, r.Faults.List)
	}
}
