package mcp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

func TestScrubber(t *testing.T) {
	t.Parallel()
	o := Options{URL: "https://u:pass%21word@h/p?key=q%2Fsecret", Headers: map[string]string{"Authorization": "Bearer abcdef123"},
		Env: map[string]string{"API_KEY": "abcdef", "OTHER": "4f3c2b1a4f3c2b1a4f3c2b1a", "DIR": "/home/user/project1", "SHORT_KEY": "abc"}}
	clean := newScrubber(&o).clean("abcdef123 abcdef 4f3c2b1a4f3c2b1a4f3c2b1a q/secret q%2Fsecret pass!word pass%21word " +
		"/home/user/project1 abc \x1b[31mred\x00 Bearer abcdef123")
	if want := "[redacted] [redacted] [redacted] [redacted] [redacted] [redacted] [redacted] /home/user/project1 abc [31mred " +
		"[redacted]"; clean != want {
		t.Errorf("got %q, want %q", clean, want)
	}
	if clean := newScrubber(&o).clean("Post \"" + o.URL + "\": refused"); clean != `Post "https://h": refused` {
		t.Errorf("the URL is not redacted: %q, want only https://h", clean)
	}
}

func TestEnviron(t *testing.T) {
	t.Parallel()
	lookup := func(name string) (string, bool) {
		value, ok := map[string]string{"PATH": "/bin", "HOME": "/h", "AWS_SECRET": "x", "SHELL": "() { :; }"}[name]
		return value, ok
	}
	got := environ(map[string]string{"A": "b", "HOME": "/mine"}, lookup, []string{"LC_ALL=C", "TOKEN=x"})
	if want := []string{"A=b", "HOME=/mine", "LC_ALL=C", "PATH=/bin"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The id of a message that is too long is found before or after the result, whatever the result is and however the message is split.
// Requests, notifications and ids that are not numbers answer no request.
func FuzzOutline(f *testing.F) {
	long := `"` + strings.Repeat("x", 2*headSize) + `"`
	for _, seed := range []string{`{"id":6}`, `{"content":[{"id":1,"text":"\"id\":7}"}]}`, `1`, `"\\"`, `{ "a" : [ { } , "]" ] }`,
		`[{"id":1},` + long + `]`, `{"a":` + long + `,"id":5}`, `{`} {
		f.Add(seed, 3)
	}
	f.Fuzz(func(t *testing.T, result string, size int) {
		for form, want := range map[string]bool{
			`{"jsonrpc":"2.0","id":7,"result":%s}`: true, `{"result":%s,"jsonrpc":"2.0","id":7}`: true, `{"result":%s,"id":7,"jsonrpc":"2.0"}`: true,
			` { "error" : %s , "id" : 7 }` + "\r\n": true, "event: message\ndata: {\"result\":%s,\"id\":7}\n\n": true,
			`{"method":"x","id":7,"params":%s}`: false, `{"method":"x","params":%s}`: false, `{"result":%s}`: false, `{"result":%s,"id":"7"}`: true,
			`{"result":%s,"id":"x7"}`: false,
		} {
			var o headTail
			for rest := fmt.Sprintf(form, result); rest != ""; {
				n := min(max(size, 1), len(rest))
				o.write([]byte(rest[:n]))
				rest = rest[n:]
			}
			id, ok := o.requestID()
			if gjson.Valid(result) && (ok != want || ok && id != 7) { // for anything else it must only not panic
				t.Errorf("%s with %.50s: got id %d, %t, want 7, %t", form, result, id, ok, want)
			}
		}
	})
}

// The tap and the conversion of results accept anything that a server sends as a message.
func FuzzFilter(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"x"}]}}`, `{"id":1,"error":{"code":-32602,"message":5,"data":{}}}`,
		`{"method":"notifications/progress","params":{"progressToken":1,"progress":"x"}}`, `{"method":"notifications/message","params":5}`,
		`{"id":1,"result":null}`, `{"id":1,"result":{"isError":true,"content":[{"type":"text"},5]}}`, `[]`, `5`,
		`{"id":1,"result":{"content":[{"type":"resource","resource":[]},{"type":"image","data":5}]}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !gjson.Valid(text) {
			return
		}
		s := newSource(Options{Name: "s", Command: "x", MaxMessageBytes: 1 << 20})
		tap := newTap(s)
		x := &pendingRequest{stub: noContent}
		tap.register(x.withContext(t.Context()), 1)
		if out := tap.filter(text, x, 0); out != "" && !gjson.Valid(out) {
			t.Errorf("filter returned invalid JSON for %q: %q", text, out)
		}
		if x.result == nil {
			return
		}
		value, failure := s.resultValue(t.Context(), &tool{name: "a", function: "s.a"}, x.result)
		if failure == nil && !gjson.ValidBytes(value) {
			t.Errorf("the value of %q is not JSON: %q", text, value)
		}
		if failure != nil && failure.Code != fault.FunctionFailed && failure.Code != fault.NotSupported {
			t.Errorf("%q: %v, want function_failed or not_supported", text, failure)
		}
	})
}
