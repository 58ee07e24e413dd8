package mcp_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// openAnswering opens a source whose only tool answers with *result.
func openAnswering(t testing.TB, result *string) *mcpsource.Source {
	server := &rawServer{call: func(w http.ResponseWriter, _ *http.Request, id string) { answerJSON(w, id, *result) }}
	return openRaw(t, server, mcpsource.Options{}, `{"name":"a","annotations":{"readOnlyHint":true},"outputSchema":{"type":"object"}}`)
}

const (
	noteAndText  = `{"structuredContent":{"id": 7},"content":[{"type":"text","text":"{\"a\":"},{"type":"text","text":"1}"}]}`
	noteAndImage = `{"structuredContent":{"id":7},"content":[{"type":"text","text":"{ \"id\" : 7 }"},{"type":"image","mimeType":"image/png","data":"MTIz"}]}`
)

func TestResultForms(t *testing.T) {
	t.Parallel()
	var result string
	s := openAnswering(t, &result)
	for _, test := range []struct{ result, form, want string }{
		{noteAndText, "", `{"id": 7}`},
		{noteAndText, steps.ResultStructured, `{"id": 7}`},
		{noteAndText, steps.ResultText, `"{\"a\":\n1}"`},
		{noteAndText, steps.ResultContent, `{"structured":{"id": 7},"content":[{"type":"text","text":"{\"a\":"},{"type":"text","text":"1}"}]}`},
		{noteAndImage, steps.ResultContent, `{"structured":{"id":7},"content":[{"type":"text","text":"{ \"id\" : 7 }"},` +
			`{"type":"image","mimeType":"image/png","size":3,"data":"MTIz"}]}`},
		{okResult, steps.ResultText, `"ok"`},
		{okResult, steps.ResultContent, `{"structured":null,"content":[{"type":"text","text":"ok"}]}`},
		{`{"content":"ok"}`, steps.ResultContent, `{"structured":null,"content":["ok"]}`},
		{`{"content":[]}`, steps.ResultText, `""`},
		{`{}`, steps.ResultContent, `{"structured":null,"content":[]}`},
	} {
		result = test.result
		got, err := function(t, s, "net.a").Call(steps.WithResult(t.Context(), test.form), []byte(`{}`))
		if err != nil || string(got) != test.want {
			t.Errorf("%s as %q: got %s, %v, want %s", test.result, test.form, got, err, test.want)
		}
	}
	if got := function(t, s, "net.a").Results; !slices.Equal(got, []string{"structured", "text", "content"}) {
		t.Errorf("got the forms %q, want structured, text, content", got)
	}
}

// What stands beside structuredContent is left out with a warning, unless structuredContent has it too.
func TestTextDropped(t *testing.T) {
	t.Parallel()
	var result string
	s := openAnswering(t, &result)
	for raw, want := range map[string]bool{
		noteAndText:  true,
		noteAndImage: true,
		`{"structuredContent":{"a":1,"b":[1.0]},"content":[{"type":"text","text":"{\"b\": [1.0], \"a\": 1}"}]}`:                                                  false,
		`{"structuredContent":{"a":1},"content":[{"type":"text","text":"{\"a\":2}"}]}`:                                                                           true,
		`{"structuredContent":{"a":1},"content":[{"type":"text","text":"the whole document"}]}`:                                                                  true,
		`{"structuredContent":{"a":1},"content":[{"type":"text","text":" \n"}]}`:                                                                                 false,
		`{"structuredContent":{"a":1},"content":[]}`:                                                                                                             false,
		`{"structuredContent":{"result":"fine"},"content":[{"type":"text","text":"fine\n"}]}`:                                                                    false,
		`{"structuredContent":{"result":[{"a":1},"b",3]},"content":[{"type":"text","text":"{\"a\": 1}"},{"type":"text","text":"b"},{"type":"text","text":"3"}]}`: false,
		okResult: false,
	} {
		result = raw
		var warned []*fault.Error
		ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{Warn: func(f *fault.Error) { warned = append(warned, f) }})
		if _, err := function(t, s, "net.a").Call(ctx, []byte(`{}`)); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		if (len(warned) == 1) != want || want && warned[0].Code != fault.TextDropped {
			t.Errorf("%s: got the warnings %v, want one: %t", raw, warned, want)
		}
	}
}
