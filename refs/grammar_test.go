package refs

import (
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

func TestString(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`$0.['a'].[1]`:             `$0["a"][1]`,
		`$0?.["é"]??{ "a" : 1.0 }`: `$0?["é"] ?? {"a":1.0}`,
		`$search?.[*].a b[**]`:     `$search?[*].a b[**]`,
	} {
		r, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.String(); got != want {
			t.Errorf("%s is spelled %s, want %s", text, got, want)
		}
	}
}

// TestParseFaults: each text is refused, with the caret at that byte.
func TestParseFaults(t *testing.T) {
	t.Parallel()
	for text, offset := range map[string]int{
		``:                           0,
		`a`:                          0,
		`$`:                          1,
		`$$0`:                        1,
		` $0`:                        0,
		`$0 `:                        2,
		`$01`:                        1,
		`$0x`:                        1,
		`$99999999999999999999`:      1,
		`$env`:                       1,
		`$env.HOME`:                  1,
		`$.a`:                        1,
		`$é`:                         1,
		`$-1`:                        1,
		`$0.`:                        3,
		`$0..a`:                      3,
		`$0. a`:                      3,
		`$0.a `:                      4,
		`$0.items|0`:                 8,
		`$0.items.#`:                 9,
		`$0.items.#.id`:              9,
		`$0.*`:                       3,
		`$0.a*b`:                     4,
		`$0.a!b`:                     4,
		`$0.{a}`:                     3,
		`$0.a\.b`:                    4,
		`$0[abc]`:                    3,
		`$0[01]`:                     3,
		`$0[-0]`:                     3,
		`$0[-]`:                      3,
		`$0[]`:                       3,
		`$0[ 0 ]`:                    3,
		`$0[0`:                       4,
		`$0[1.5]`:                    4,
		`$0[***]`:                    5,
		`$0["a]`:                     3,
		`$0["a\`:                     3,
		`$0["\x"]`:                   3,
		`$0["\u00"]`:                 3,
		`$0["a"x]`:                   6,
		`$0[9999999999999999999999]`: 3,
		`$0.a?`:                      4,
		`$0?`:                        2,
		`$0.a?b`:                     4,
		`$0.a??`:                     6,
		`$0.a ?? `:                   8,
		`$0.a ?? x`:                  8,
		`$0.a ?? $1.b`:               8,
		`$0.a ?? 1 2`:                10,
		`$0.a ?? 01`:                 9,
		`$0.a ?? {"a":}`:             8,
		`$100-$200`:                  4,
		`$HOME/bin`:                  5,
		`$0.a[0]b`:                   7,
		"$0.a\xff":                   1,
		"$0.a\x00":                   4,
	} {
		_, err := Parse(text)
		e := wantCode(t, err, fault.BadReference)
		if e.Source != text && strings.IndexByte(text, '\n') < 0 {
			t.Errorf("%q: the source is %q", text, e.Source)
		}
		if e.Offset != offset {
			t.Errorf("%q: the caret is at %d, want %d (%s)", text, e.Offset, offset, e.Message)
		}
	}
}
