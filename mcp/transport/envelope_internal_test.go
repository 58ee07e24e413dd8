package transport

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/tidwall/gjson"
)

// FuzzExamine: an accepted message is read by the SDK as it was sent, and a refused one is answered with JSON.
func FuzzExamine(f *testing.F) {
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":"a","result":{}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`, `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":-9007199254740991,"method":"ping"}`, `[]`, `null`, `7`, `{`, `{} {}`, `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`,
		`{"jsonrpc":"2.0","id":-0,"method":"ping"}`, `{"jsonrpc":"2.0","id":1e3,"method":"ping"}`, strings.Repeat("[", 3000), `{"jsonrpc":"2.0","id":"\ud800","method":"ping"}`,
	} {
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, message string) {
		_, wrong := parseEnvelope([]byte(message))
		switch wrong {
		case nullIDError:
		case nil:
			decoded, err := jsonrpc.DecodeMessage([]byte(message))
			if err != nil {
				t.Fatalf("%q is accepted, and the SDK refuses it: %v", message, err)
			}
			id := gjson.Get(message, "id")
			request, ok := decoded.(*jsonrpc.Request)
			if !ok || !id.Exists() || id.Type != gjson.Number {
				return
			}
			response, err := jsonrpc.EncodeMessage(&jsonrpc.Response{ID: request.ID, Result: []byte(`{}`)})
			if err != nil || gjson.GetBytes(response, "id").Int() != id.Int() {
				t.Fatalf("the response to %q has another id: %s: %v", message, response, err)
			}
		default:
			if answer := wrong.answer(); !gjson.ValidBytes(answer) || !gjson.GetBytes(answer, "error.code").Exists() {
				t.Fatalf("the answer to %q is not a JSON-RPC error: %s", message, answer)
			}
		}
	})
}

// TestLineReader: bad lines are answered one by one, and good ones are passed on.
func TestLineReader(t *testing.T) {
	t.Parallel()
	good := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	long := strings.Repeat("x", 300_000)
	in := strings.Join([]string{"", "hello", good, long, " " + good + "\r",
		`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"x":"` + long + `"}}`,
		`{"jsonrpc":"2.0","id":3,"result":{"method":"x","x":"` + long + `"}}`,
		`{"jsonrpc":"2.0","params":{"id":4,"method":"x","x":"` + long + `"},"id":5,"method":"x"}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`, `{"id":7}`, good}, "\n")
	var out bytes.Buffer
	read, err := io.ReadAll(newLineReader(io.NopCloser(strings.NewReader(in)), &sharedWriter{out: nopCloser{&out}}, 70_000))
	if err != nil || string(read) != strings.Repeat(good+"\n", 3) {
		t.Errorf("passed on %q, %v; want the three good lines", read, err)
	}
	if n := strings.Count(out.String(), "limits.maxRequestBytes"); n != 4 {
		t.Errorf("%d answers name the limit, want 4: %s", n, out.String())
	}
	var codes []string
	for line := range strings.Lines(out.String()) {
		codes = append(codes, gjson.Get(line, "id").Raw+":"+gjson.Get(line, "error.code").Raw)
	}
	if got := strings.Join(codes, " "); got != `null:-32700 null:-32600 "a":-32600 null:-32600 null:-32600 7:-32600` {
		t.Errorf("answered the errors %s, want one for each bad line, with the id of the request", got)
	}
}

// TestCutID: an id that the bound cuts is not answered, as it may be that of another request.
func TestCutID(t *testing.T) {
	t.Parallel()
	const message = `{"jsonrpc":"2.0","method":"tools/call","params":{},"id":1234,"more":1}`
	for n := range len(message) {
		want := ""
		if n > strings.Index(message, `,"more"`) {
			want = "1234"
		}
		if got := tooLong([]byte(message[:n]), 10).id; got != want {
			t.Errorf("%s: answered with the id %q, want %q", message[:n], got, want)
		}
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
