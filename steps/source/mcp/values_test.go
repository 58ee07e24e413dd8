package mcp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// TestValues checks the values of tool results. What a malformed one says is never lost: it is the value, or the result is a failure.
func TestValues(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 1001) + strings.Repeat("]", 1001)
	const malformed = ""
	var result string
	server := &rawServer{call: func(w http.ResponseWriter, _ *http.Request, id string) { answerJSON(w, id, result) }}
	s := openRaw(t, server, mcpsource.Options{}, toolList("a"))
	check := func(raw, want string) {
		result = raw
		value, err := function(t, s, "net.a").Call(t.Context(), []byte(`{}`))
		switch f, _ := fault.As(err); {
		case want == malformed && (f == nil || f.Code != fault.FunctionFailed || f.Outcome != fault.SentUnknown):
			t.Errorf("%s: got %s, %v, want a failure", raw, value, err)
		case want != malformed && (err != nil || string(value) != want):
			t.Errorf("%.80s: got %.80s, %v, want %.80s", raw, value, err, want)
		}
	}
	for raw, want := range map[string]string{
		`"s"`: malformed, `5`: malformed, `[1]`: malformed, `{"content":"x"}`: `"x"`, `{"content":"[1]"}`: `[1]`, `{"content":{}}`: `{}`,
		`{"content":{"type":"text","text":"x"}}`: `"x"`, `{"content":7}`: `7`, `{"toolResult":{"a": 1}}`: `{"a": 1}`, `{"toolResult":null}`: `null`,
		`{"_meta":{},"rows":[1],"isError":false}`: `{"rows":[1]}`, `{"_meta":{}}`: `null`, `{"toolResult":1,"content":[]}`: `null`,
		`{"isError":"yes","content":[]}`: malformed, `{}`: `null`, `{"content":null}`: `null`, `{"structuredContent":{"a":1},"content":[]}`: `{"a":1}`,
	} {
		check(raw, want)
	}
	for blocks, want := range map[string]string{
		`[]`:                                   `null`,
		`["x"]`:                                `"x"`,
		`[{"text":"x"}]`:                       `"x"`,
		`[{"type":"text"}]`:                    `{"type":"text"}`,
		`[{"type":"text","text":7}]`:           `{"type":"text","text":7}`,
		`[{"type":"text","text":""}]`:          `""`,
		`[{"type":"text","text":"a\u00e9\n"}]`: `"a\u00e9\n"`,
		`[{"type":"text","text":" {\"a\": 1.50}\n"}]`:                                 `{"a": 1.50}`,
		`[{"type":"text","text":"[1,2]"}]`:                                            `[1,2]`,
		`[{"type":"text","text":"5"}]`:                                                `"5"`,
		`[{"type":"text","text":"null"}]`:                                             `"null"`,
		"[{\"type\":\"text\",\"text\":\"\ufeff {\\\"a\\\":1.0}\"}]":                   `{"a":1.0}`,
		`[{"type":"text","text":"\ufeff[1]"}]`:                                        `[1]`,
		`[{"type":"text","text":"{not json}"}]`:                                       `"{not json}"`,
		`[{"type":"text","text":"` + deep + `"}]`:                                     `"` + deep + `"`,
		`[{"type":"text","text":"a"},{"type":"text","text":"{}"}]`:                    `["a",{}]`,
		`[{"type":"image","mimeType":"image/png","data":"MTIzNA=="}]`:                 `{"type":"image","mimeType":"image/png","size":4,"data":"MTIzNA=="}`,
		`[{"type":"audio","data":""}]`:                                                `{"type":"audio","mimeType":"application/octet-stream","size":0,"data":""}`,
		`[{"type":"resource","resource":{"uri":"u","text":"t","_meta":{"x":1}}}]`:     `{"type":"resource","uri":"u","text":"t"}`,
		`[{"type":"resource","resource":{"uri":"u","blob":"MTIz","mimeType":"a/b"}}]`: `{"type":"resource","uri":"u","mimeType":"a/b","size":3,"data":"MTIz"}`,
		`[{"type":"image","data":"_-8"}]`:                                             `{"type":"image","mimeType":"application/octet-stream","size":2,"data":"/+8="}`,
		`[{"type":"image","data":"%"}]`:                                               `{"type":"image","data":"%"}`,
		`[{"type":"resource_link","uri":"u"}]`:                                        `{"type":"resource_link","uri":"u"}`,
		`[{"type":"new","x":1},{"type":"text","text":""}]`:                            `[{"type":"new","x":1},""]`,
	} {
		check(fmt.Sprintf(`{"content":%s}`, blocks), want)
	}
}
