package chain_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
)

// TestFailuresAreShort: even without a budget, a failure has at most 10,000 characters, unless its trace is full.
func TestFailuresAreShort(t *testing.T) {
	t.Parallel()
	published := compileSchema(t, chain.AnswerSchema(), "")
	long := strings.Repeat("é𓀀 ", 5000)
	e := engine(t, &world{}, chain.Options{})
	for name, request := range map[string]string{
		"message":  `"steps":[{"fn":"test.fail","args":{"message":"` + long + `"}}]`,
		"elements": `"onError":"continue","steps":[{"fn":"test.fail","forEach":"1..2000","args":{"message":"m"}}]`,
		"result":   `"onError":"continue","steps":[{"fn":"test.fail"},{"fn":"test.get","args":{"value":"` + long + `"}}]`,
		"trace":    `"onError":"continue","steps":[` + strings.Repeat(`{"fn":"test.fail"},`, 500) + `{"fn":"test.page"}]`,
		"faults":   `"steps":[` + strings.Repeat(`{"fn":"nothing.like.this"},`, 500) + `{"fn":"test.page"}]`,
		"writes":   `"onError":"continue","steps":[` + strings.Repeat(`{"fn":"test.write"},`, 400) + `{"fn":"test.fail"}]`,
	} {
		for _, lite := range []bool{true, false} {
			for _, trace := range []string{"none", "summary", "full"} {
				a := e.Run(t.Context(), fmt.Appendf(nil, `{"lite":%t,"trace":%q,%s}`, lite, trace, request), &chain.Caller{Run: "0123456789abcdef"})
				n := utf8.RuneCount(a.JSON)
				known := gjson.GetBytes(a.JSON, "request").Str == "0123456789abcdef"
				if a.OK || known != (trace == "full") || n > 10_000 && trace != "full" || n < 10_000 && trace == "full" && name == "message" {
					t.Errorf("%s, lite %t, trace %s: %d characters, want at most 10,000 without a full trace, and the request with one: %.300s",
						name, lite, trace, n, a.JSON)
				}
				validate(t, published, a.JSON)
			}
		}
	}
	if a := e.Run(t.Context(), []byte(`{"lite":true,"steps":[{"fn":"test.get","args":{"value":"`+long+`"}}]}`), nil); !a.OK ||
		len(a.JSON) < len(long) {
		t.Errorf("successful answer of %d bytes, want at least %d: %.300s", len(a.JSON), len(long), a.JSON)
	}
	direct := e.Call(t.Context(), &chain.Call{Function: "test.fail", Args: []byte(`{"message":"` + long + `"}`)}, nil)
	if n := utf8.RuneCount(direct.JSON); direct.OK || n > 10_000 {
		t.Errorf("a failed call: %d characters, want at most 10000", n)
	}
}
