package mcp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
)

// TestTextsOf: of an upstream's content and structuredContent, the one that costs more is counted.
func TestTextsOf(t *testing.T) {
	t.Parallel()
	counter, err := budget.NewCounter("", 0)
	if err != nil {
		t.Fatal(err)
	}
	const short = `{"type":"text","text":"short"}`
	long, blanks := strings.Repeat("word ", 50), strings.Repeat(" ", 400) // blanks have many bytes and few tokens
	text := func(s string) string { return fmt.Sprintf(`{"type":"text","text":%q}`, s) }
	for raw, want := range map[string][]string{
		`{"content":[` + short + `]}`: {"short"},
		`{"content":[` + short + `],"structuredContent":{"a":1.10,"b":"` + long + `"}}`:            {`{"a":1.10,"b":"` + long + `"}`},
		`{"content":[` + text(long) + `,` + short + `],"structuredContent":{"a":1.10}}`:            {long, "short"},
		`{"content":[` + text(blanks) + `],"structuredContent":{"a":[1,22,333,4444,55555,6,7,8]}}`: {`{"a":[1,22,333,4444,55555,6,7,8]}`},
		`{"content":[{"type":"resource","resource":{"uri":"a://b","text":"` + long + `"}}]}`:       {long},
		`{"content":[],"structuredContent":{}}`:                                                    {`{}`},
		`{"structuredContent":[1,2]}`:                                                              nil,
		`{"content":[{"type":"image","data":"AAAA","mimeType":"image/png"}]}`:                      nil,
		``: nil,
	} {
		if got := textsOf([]byte(raw), counter); !slices.Equal(got, want) {
			t.Errorf("%s: texts %q, want %q", raw, got, want)
		}
	}
}

const smallAnswer = 2 * budget.MinTokens

// TestMayPass: when the session's tokens are used up, the whole answer of an upstream is counted, including the data of an error. Requests
// for input pass.
func TestMayPass(t *testing.T) {
	t.Parallel()
	counter, err := budget.NewCounter("", 0)
	if err != nil {
		t.Fatal(err)
	}
	now := &generation{}
	now.Counter = counter
	refusal := func(message, data string) error {
		f := fault.New(fault.FunctionFailed, "no")
		f.Err = &jsonrpc.Error{Code: -32042, Message: message, Data: json.RawMessage(data)}
		return f
	}
	long := strings.Repeat("word ", 500)
	for name, test := range map[string]struct {
		raw     string
		err     error
		may     bool
		maximum int
	}{
		"no bound":                 {`{"content":["` + long + `"]}`, nil, true, 0},
		"small":                    {`{"content":[]}`, nil, true, smallAnswer},
		"large":                    {`{"content":["` + long + `"]}`, nil, false, smallAnswer},
		"large outside of content": {`{"content":[],"_meta":"` + long + `"}`, nil, false, smallAnswer},
		"asks for more":            {`{"resultType":"input_required","x":"` + long + `"}`, nil, true, smallAnswer},
		"a small error":            {"", refusal("no", `{}`), true, smallAnswer},
		"a long message":           {"", refusal(long, `{}`), false, smallAnswer},
		"long data":                {"", refusal("no", `{"x":"`+long+`"}`), false, smallAnswer},
	} {
		c := &call{now: now, caller: &chain.Caller{MaxTotalTokens: test.maximum}}
		if got := c.mayPass([]byte(test.raw), test.err); got != test.may {
			t.Errorf("%s: mayPass is %t, want %t", name, got, test.may)
		}
	}
}
