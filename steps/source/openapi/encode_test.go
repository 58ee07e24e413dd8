package openapi

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// sent is a request that a Doer received.
type sent struct {
	method, url, body string
	header            http.Header
}

// capture is a Doer that records requests and answers null.
type capture struct{ last sent }

func (c *capture) Do(request *http.Request) (*http.Response, error) {
	c.last = sent{method: request.Method, url: request.URL.String(), header: request.Header}
	if request.Body != nil {
		text, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		c.last.body = string(text)
	}
	return &http.Response{StatusCode: 204, Header: http.Header{}, Body: http.NoBody}, nil
}

const anyInput = `{"type":"object"}`

// encodeCall calls an operation and returns the request that was sent.
func encodeCall(t *testing.T, op operation, args string) (sent, error) {
	t.Helper()
	op.name, op.input = "op", json.RawMessage(anyInput)
	if op.method == "" {
		op.method = "GET"
	}
	op.label = op.method + " " + op.path
	var c capture
	s := sourceOf(t, Options{Client: &c, BaseURL: "https://api.example.com/v1/"}, &document{operations: []operation{op}})
	_, err := callOf(t, s, "op", args)
	return c.last, err
}

// TestStyles compares the encoder with the table of OpenAPI 3.1.1, section 4.8.12.4.
func TestStyles(t *testing.T) {
	t.Parallel()
	values := []string{`""`, `"blue"`, `["blue","black","brown"]`, `{"R":100,"G":200,"B":150}`}
	for _, row := range []struct {
		in, style string
		explode   bool
		want      []string // what is sent for each of values; "-": it is refused
	}{
		{"path", "matrix", false, []string{"-", ";color=blue", ";color=blue,black,brown", ";color=R,100,G,200,B,150"}},
		{"path", "matrix", true, []string{"-", ";color=blue", ";color=blue;color=black;color=brown", ";R=100;G=200;B=150"}},
		{"path", "label", false, []string{"-", ".blue", ".blue,black,brown", ".R,100,G,200,B,150"}},
		{"path", "label", true, []string{"-", ".blue", ".blue.black.brown", ".R=100.G=200.B=150"}},
		{"path", "simple", false, []string{"-", "blue", "blue,black,brown", "R,100,G,200,B,150"}},
		{"path", "simple", true, []string{"-", "blue", "blue,black,brown", "R=100,G=200,B=150"}},
		{"query", "form", false, []string{"color=", "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"}},
		{"query", "form", true, []string{"color=", "color=blue", "color=blue&color=black&color=brown", "R=100&G=200&B=150"}},
		{"query", "spaceDelimited", false, []string{"color=", "color=blue", "color=blue%20black%20brown", "color=R%20100%20G%20200%20B%20150"}},
		{"query", "pipeDelimited", false, []string{"color=", "color=blue", "color=blue%7Cblack%7Cbrown", "color=R%7C100%7CG%7C200%7CB%7C150"}},
		{"query", "deepObject", true, []string{"color=", "color=blue", "color%5B0%5D=blue&color%5B1%5D=black&color%5B2%5D=brown",
			"color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"}},
		{"header", "simple", false, []string{"", "blue", "blue,black,brown", "R,100,G,200,B,150"}},
		{"header", "simple", true, []string{"", "blue", "blue,black,brown", "R=100,G=200,B=150"}},
		{"cookie", "form", false, []string{"color=", "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"}},
		{"cookie", "form", true, []string{"color=", "color=blue", "color=blue; color=black; color=brown", "R=100; G=200; B=150"}},
	} {
		for i, value := range values {
			op := operation{path: "/a", parameters: []parameter{{arg: "c", name: "color", in: row.in, style: row.style, explode: row.explode}}}
			if row.in == "path" {
				op.path = "/a/{color}"
			}
			got, err := encodeCall(t, op, `{"c":`+value+`}`)
			shown := map[string]string{
				"path":   strings.TrimPrefix(got.url, "https://api.example.com/v1/a/"),
				"query":  strings.TrimPrefix(got.url, "https://api.example.com/v1/a?"),
				"header": got.header.Get("Color"), "cookie": got.header.Get("Cookie"),
			}[row.in]
			if err != nil {
				shown = "-"
			}
			if shown != row.want[i] {
				t.Errorf("%s %s explode=%t of %s: got %s, want %s (%v)", row.in, row.style, row.explode, value, shown, row.want[i], err)
			}
		}
	}
}

func TestQueries(t *testing.T) {
	t.Parallel()
	in := func(p parameter) operation {
		p.arg, p.in = "q", "query"
		if p.name == "" {
			p.name = "q"
		}
		return operation{path: "/a", parameters: []parameter{p}}
	}
	form := parameter{style: "form", explode: true}
	for _, test := range []struct {
		p           parameter
		value, want string
	}{
		{form, `"a b&c=d+e/é\u0000"`, "?q=a%20b%26c%3Dd%2Be%2F%C3%A9%00"},
		{form, `12345678901234567890`, "?q=12345678901234567890"},
		{form, `1.10`, "?q=1.10"},
		{form, `1e3`, "?q=1e3"},
		{form, `true`, "?q=true"},
		{form, `null`, ""},
		{form, `[]`, ""},
		{form, `[null]`, ""},
		{form, `{}`, ""},
		{form, `[1,null,2]`, "?q=1&q=2"},
		{form, `{"a":null,"b":[1,2]}`, "?b=%5B1%2C2%5D"},
		{parameter{style: "form", explode: true, name: "labels[]"}, `["a","b"]`, "?labels%5B%5D=a&labels%5B%5D=b"},
		{parameter{style: "form"}, `["a,b","c"]`, "?q=a%2Cb,c"},
		{parameter{style: "form", allowReserved: true}, `"/a?b=c,d&e#f+g%20h"`, "?q=/a?b=c,d%26e%23f%2Bg%2520h"},
		{parameter{style: "form", allowReserved: true}, `["a,b","/c"]`, "?q=a%2Cb,/c"},
		{parameter{style: "deepObject", explode: true}, `{"a":{"b":[{"c":1},{"c":2}]},"d":null}`,
			"?q%5Ba%5D%5Bb%5D%5B0%5D%5Bc%5D=1&q%5Ba%5D%5Bb%5D%5B1%5D%5Bc%5D=2"},
		{parameter{mediaType: "application/json", style: "form"}, `{"n":1.10,"a":["x"]}`, "?q=%7B%22n%22%3A1.10%2C%22a%22%3A%5B%22x%22%5D%7D"},
		{parameter{style: "spaceDelimited"}, `["a b"]`, "/q"},
		{parameter{style: "pipeDelimited"}, `["a","b|c"]`, "/q"},
	} {
		got, err := encodeCall(t, in(test.p), `{"q":`+test.value+`}`)
		shown := strings.TrimPrefix(got.url, "https://api.example.com/v1/a")
		if f, ok := fault.As(err); ok && f.Code == fault.BadArguments {
			shown = f.At
		}
		if shown != test.want {
			t.Errorf("%+v of %s: got %s, want %s", test.p, test.value, shown, test.want)
		}
	}
}

// TestArgumentsStayInTheirSegments: an argument must not leave its segment, its header or its host.
func TestArgumentsStayInTheirSegments(t *testing.T) {
	t.Parallel()
	path := parameter{arg: "p", name: "p", in: "path", style: "simple", required: true}
	header := parameter{arg: "h", name: "X-H", in: "header", style: "simple"}
	for _, test := range []struct{ path, args, want string }{
		{"/x/{p}/y", `{"p":"a/b"}`, "https://api.example.com/v1/x/a%2Fb/y"},
		{"/x/{p}/y", `{"p":"a?b#c;d"}`, "https://api.example.com/v1/x/a%3Fb%23c%3Bd/y"},
		{"/x/{p}/y", `{"p":"%2e%2e"}`, "https://api.example.com/v1/x/%252e%252e/y"},
		{"/x/{p}/y", `{"p":"@evil.example"}`, "https://api.example.com/v1/x/%40evil.example/y"},
		{"/x/{p}/y", `{"p":"..."}`, "https://api.example.com/v1/x/.../y"},
		{"/x/{p}.json", `{"p":"."}`, "/p"},
		{"/x/{p}/y", `{"p":"."}`, "/p"},
		{"/x/{p}/y", `{"p":".."}`, "/p"},
		{"/x/{p}/y", `{"p":"../../admin"}`, "/p"},
		{"/x/{p}/y", `{"p":"..\\admin"}`, "/p"},
		{"/x/{p}/y", `{"p":""}`, "/p"},
		{"/x/{p}/y", `{"p":null}`, "/p"},
		{"/x/{p}/y", `{"p":[]}`, "/p"},
		{"/x/{p}/y", `{"p":[""]}`, "/p"},
		{"/x/{p}/y", `{"p":{}}`, "/p"},
		{"/x/{p}/y", `{}`, "/p"},
		{"/x/{p}/y", `{"p":"a","p":"b"}`, "/p"},
		{"/x/{p}/y", `{"p":"a","host":"evil.example"}`, "/host"},
		{"/x/.{p}/y", `{"p":"[]"}`, "https://api.example.com/v1/x/.%5B%5D/y"},
		{"/x y/{p}?a=b c#d", `{"p":"e"}`, "https://api.example.com/v1/x%20y/e?a=b%20c"},
		{"/x/{p}/y", `{"p":"a","h":"b\r\nHost: evil.example"}`, "/h"},
		{"/x/{p}/y", `{"p":"a","h":"b\u0000"}`, "/h"},
		{"/x/{p}/y", `{"p":"a","h":["b,c"]}`, "/h"},
		{"/x/{p}/y", `[]`, ""},
		{"/x/{p}/y", `{`, ""},
	} {
		got, err := encodeCall(t, operation{path: test.path, parameters: []parameter{path, header}}, test.args)
		shown := got.url
		if f, ok := fault.As(err); ok {
			if shown = f.At; f.Code != fault.BadArguments || got.url != "" {
				t.Errorf("%s with %s: got %v with URL %q, want bad_arguments and no call", test.path, test.args, err, got.url)
			}
		}
		if shown != test.want {
			t.Errorf("%s with %s: got %q, want %q (%v)", test.path, test.args, shown, test.want, err)
		}
	}
	label := []parameter{{arg: "b", name: "b", in: "path", style: "label", explode: true}}
	if got, err := encodeCall(t, operation{path: "/x/{b}", parameters: label}, `{"b":["",""]}`); fault.CodeOf(err) != fault.BadArguments {
		t.Errorf("a list that forms a dot segment: got %s, %v, want bad_arguments", got.url, err)
	}
	for _, name := range []string{"Host", "content-length", "Transfer-Encoding", "Connection"} {
		param := parameter{arg: "h", name: name, in: "header", style: "simple"}
		if _, err := encodeCall(t, operation{path: "/", parameters: []parameter{param}}, `{"h":"1"}`); fault.CodeOf(err) != fault.BadArguments {
			t.Errorf("argument for the header %s: got %v, want bad_arguments", name, err)
		}
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	members := []member{{"a", "a"}, {"id_body", "id"}, {"odd", `o"d`}}
	fields := map[string]field{"a": {style: "form", explode: true}, "id": {style: "deepObject", explode: true}}
	for _, test := range []struct {
		b                       body
		args, contentType, want string
	}{
		{body{mediaType: "application/json", members: members}, `{"id_body":12345678901234567890,"a":{"z":1.10,"y":"\u00e9\/"},"odd":null}`,
			"application/json", `{"id":12345678901234567890,"a":{"z":1.10,"y":"\u00e9\/"},"o\"d":null}`},
		{body{mediaType: "application/merge-patch+json", members: members, required: true}, `{}`, "application/merge-patch+json", `{}`},
		{body{mediaType: "application/json", members: members}, `{}`, "", ""},
		{body{mediaType: "application/json", arg: "body"}, `{"body":[1.0,1e2]}`, "application/json", `[1.0,1e2]`},
		{body{mediaType: "application/json; charset=utf-8", arg: "body"}, `{"body":null}`, "application/json; charset=utf-8", `null`},
		{body{mediaType: "application/json", arg: "body"}, `{}`, "", ""},
		{body{mediaType: "application/json", arg: "body", required: true}, `{}`, "/body", ""},
		{body{mediaType: "application/x-www-form-urlencoded", members: members, fields: fields}, `{"a":["x y","&"],"id_body":{"k":{"l":[1]}}}`,
			"application/x-www-form-urlencoded", "a=x+y&a=%26&id%5Bk%5D%5Bl%5D%5B0%5D=1"},
		{body{mediaType: "application/x-www-form-urlencoded", arg: "body"}, `{"body":{"a":1.10}}`, "application/x-www-form-urlencoded", "a=1.10"},
		{body{mediaType: "application/x-www-form-urlencoded", arg: "body"}, `{"body":"a=b"}`, "application/x-www-form-urlencoded", "a=b"},
		{body{mediaType: "application/x-www-form-urlencoded", arg: "body"}, `{"body":[1]}`, "/body", ""},
		{body{mediaType: "text/*", arg: "body"}, `{"body":"a\nb"}`, "text/plain; charset=utf-8", "a\nb"},
		{body{mediaType: "application/xml", arg: "body"}, `{"body":"<a/>"}`, "application/xml", "<a/>"},
		{body{mediaType: "application/octet-stream", arg: "body"}, `{"body":"AP8="}`, "application/octet-stream", "\x00\xff"},
		{body{mediaType: "image/png", arg: "body"}, `{"body":{"name":"x.png","data":"_w"}}`, "image/png", "\xff"},
		{body{mediaType: "*/*", arg: "body"}, `{"body":""}`, "application/octet-stream", ""},
		{body{mediaType: "image/png", arg: "body"}, `{"body":"not base64!"}`, "/body", ""},
		{body{mediaType: "image/png", arg: "body"}, `{"body":"oc1_b00000000000000000000000000000000000007"}`, "/body", ""},
		{body{mediaType: "image/png", arg: "body"}, `{"body":7}`, "/body", ""},
	} {
		got, err := encodeCall(t, operation{method: "POST", path: "/a", body: &test.b}, test.args)
		contentType := got.header.Get("Content-Type")
		if f, ok := fault.As(err); ok {
			contentType = f.At
		}
		if contentType != test.contentType || got.body != test.want {
			t.Errorf("%+v with %s: %q %q, want %q %q (%v)", test.b, test.args, contentType, got.body, test.contentType, test.want, err)
		}
	}
}

func TestFileNames(t *testing.T) {
	t.Parallel()
	b := body{mediaType: "multipart/form-data", members: []member{{"f", "f"}}, fields: map[string]field{"f": {binary: true}}}
	got, err := encodeCall(t, operation{method: "POST", path: "/a", body: &b}, `{"f":{"name":"a\"b.txt","data":"eA=="}}`)
	if err != nil || !strings.Contains(got.body, `filename="a%22b.txt"`) {
		t.Errorf(`got body %q, %v, want filename="a%%22b.txt"`, got.body, err)
	}
	if _, err := encodeCall(t, operation{method: "POST", path: "/a", body: &b},
		`{"f":{"name":"a\r\nX: y","data":"eA=="}}`); fault.CodeOf(err) != fault.BadArguments {
		t.Errorf("a file name with a line break: got %v, want bad_arguments", err)
	}
}

// TestFileTypes: a file that is a block of the run has the block's type, where the document leaves that open.
func TestFileTypes(t *testing.T) {
	t.Parallel()
	const png, unknown = "image/png", "application/octet-stream"
	for declared, test := range map[string][2]string{"": {png, unknown}, "*/*": {png, unknown}, "text/plain, image/*;q=1": {png, unknown},
		"image/jpeg, IMAGE/PNG": {png, unknown}, png: {png, png}, "image/gif": {"image/gif", "image/gif"},
		"audio/*, text/plain": {unknown, unknown}} { // of the block, and of other bytes
		b := body{mediaType: "multipart/form-data", members: []member{{"f", "f"}}, fields: map[string]field{"f": {binary: true, mediaType: declared}}}
		op := operation{name: "op", method: "POST", path: "/a", label: "POST /a", input: json.RawMessage(anyInput), body: &b}
		var c capture
		s := sourceOf(t, Options{Client: &c, BaseURL: "https://api.example.com"}, &document{operations: []operation{op}})
		ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{Blocks: &steps.Blocks{}})
		if _, err := steps.KeepBlock(ctx, &steps.Block{Type: "image", MIME: "image/png", Bytes: []byte("\x89PNG")}); err != nil {
			t.Fatal(err)
		}
		for data, want := range map[string]string{"iVBORw==": test[0], "eA==": test[1]} {
			_, err := s.Functions()[0].Call(ctx, []byte(`{"f":"`+data+`"}`))
			if err != nil || !strings.Contains(c.last.body, "Content-Type: "+want+"\r\n") {
				t.Errorf("%s, declared as %q: %v, got %q, want %s", data, declared, err, c.last.body, want)
			}
		}
	}
}

// FuzzArguments: with any arguments, the call goes to its own host and has as many segments as the path, or fails with a code.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{`{"p":"a","q":{"b":[1,{"c":null}]},"h":["x"],"c":{"d":1.10},"m":"text","f":{"name":"n","data":"eA=="}}`,
		`{"p":"../x","q":"&=#"}`, `{"p":["a","/"],"h":"a\r\nb"}`, `{"p":{"a":".."}}`, `{"p":"\ud800"}`, `{`, `[]`, "\x00", `{"p":1}{"p":2}`} {
		f.Add([]byte(seed))
	}
	op := operation{name: "op", method: "POST", path: "/x/{p}/y", label: "POST /x/{p}/y", input: json.RawMessage(anyInput),
		parameters: []parameter{{arg: "p", name: "p", in: "path", style: "label"},
			{arg: "q", name: "q", in: "query", style: "deepObject", explode: true},
			{arg: "h", name: "X-H", in: "header", style: "simple"}, {arg: "c", name: "c", in: "cookie", style: "form", explode: true}},
		body: &body{mediaType: "multipart/form-data", members: []member{{"m", "m"}, {"f", "f"}}, fields: map[string]field{"f": {binary: true}}}}
	var last *http.Request
	service := mockTransport{http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { last = r })}
	s := sourceOf(f, Options{Client: service, BaseURL: "https://api.example.com/v1"}, &document{operations: []operation{op}})
	f.Fuzz(func(t *testing.T, args []byte) {
		last = nil
		_, err := s.Functions()[0].Call(t.Context(), args)
		if fault.CodeOf(err) == fault.Internal || fault.CodeOf(err) == fault.Unavailable {
			t.Fatalf("%s: got %v, want neither internal nor unavailable", args, err)
		}
		if err != nil {
			return
		}
		segments := strings.Split(last.URL.EscapedPath(), "/")
		if last.Host != "api.example.com" || len(segments) != 5 || segments[2] != "x" || segments[4] != "y" || segments[3] == "" ||
			hasDotSegment(segments[3]) {
			t.Fatalf("the request leaves its host or path: %s %s", last.Host, last.URL.EscapedPath())
		}
	})
}
