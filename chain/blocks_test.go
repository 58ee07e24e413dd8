package chain_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/results"
)

// camera has functions that return and take pictures. Each shot has other bytes unless the picture is fixed.
type camera struct {
	shots, stored atomic.Int64
	picture       []byte // nil: each shot is another one
	sent          atomic.Pointer[[]byte]
	broken        atomic.Bool // store fails
}

func (c *camera) functions() []steps.Function {
	shoot := func(ctx context.Context, _ []byte) ([]byte, error) {
		n := c.shots.Add(1)
		picture := c.picture
		if picture == nil {
			picture = fmt.Appendf(nil, "picture %d", n)
		}
		return steps.KeepBlock(ctx, &steps.Block{Type: "image", MIME: "image/png", Bytes: picture})
	}
	return []steps.Function{
		{Spec: steps.Spec{Name: "cam.shot", Effect: steps.Read}, Call: shoot},
		{Spec: steps.Spec{Name: "cam.take", Effect: steps.Write}, Call: shoot},
		{Spec: steps.Spec{Name: "cam.echo", Effect: steps.Read}, Call: func(_ context.Context, args []byte) ([]byte, error) {
			return bytes.Clone(args), nil
		}},
		{Spec: steps.Spec{Name: "cam.store", Effect: steps.Write}, Call: func(_ context.Context, args []byte) ([]byte, error) {
			if c.broken.Load() {
				return nil, fault.MarkUnsent(fault.New(fault.Unavailable, "the store is closed"))
			}
			c.stored.Add(1)
			c.sent.Store(new(bytes.Clone(args)))
			return []byte(`{"stored":true}`), nil
		}},
	}
}

func (c *camera) engine(t testing.TB, o chain.Options) *chain.Engine {
	return engineOf(t, c.functions(), o, true)
}

func TestReferencesToBlocks(t *testing.T) {
	t.Parallel()
	c := &camera{picture: []byte("\x89PNG")}
	data := base64.StdEncoding.EncodeToString(c.picture)
	e := c.engine(t, chain.Options{})
	for request, want := range map[string]string{
		`{"steps":[{"fn":"cam.shot"},{"fn":"cam.echo","args":{"x":"$0.data"}}]}`:                                                                                             `{"x":"` + data + `"}`,
		`{"steps":[{"fn":"cam.shot"},{"fn":"cam.echo","args":{"x":"$0.data","y":["$0.data","$0.size"]}}]}`:                                                                   `{"x":"` + data + `","y":["` + data + `",4]}`,
		`{"steps":[{"fn":"cam.shot"},{"fn":"cam.echo","args":{"x":"data:${0.mimeType};base64,${0.data}"}}]}`:                                                                 `{"x":"data:image/png;base64,` + data + `"}`,
		`{"steps":[{"fn":"cam.shot"},{"fn":"cam.echo","args":{"x":"$0.data ?? 1"}}]}`:                                                                                        `{"x":"` + data + `"}`,
		`{"steps":[{"fn":"cam.shot","forEach":"[1,2]"},{"fn":"cam.echo","args":{"x":"$0[*].data","y":"$0[1].data"}}]}`:                                                       `{"x":["` + data + `","` + data + `"],"y":"` + data + `"}`,
		`{"steps":[{"fn":"cam.shot","forEach":"[1,2]"},{"fn":"cam.echo","forEach":"$0","args":{"x":"$item.data"}}]}`:                                                         `[{"x":"` + data + `"},{"x":"` + data + `"}]`,
		`{"steps":[{"fn":"cam.shot","select":"{kept: $result}"},{"fn":"cam.echo","args":{"x":"$0.kept.data"}}]}`:                                                             `{"x":"` + data + `"}`,
		`{"steps":[{"fn":"cam.shot"},{"chain":{"steps":[{"fn":"cam.echo","args":{"x":"$input.p"}}]},"args":{"p":"$0.data"}}]}`:                                               `{"x":"` + data + `"}`,
		`{"steps":[{"fn":"cam.shot"},{"chain":{"steps":[{"expr":"len($input.p)"}]},"args":{"p":"$0.data"}}]}`:                                                                fmt.Sprint(len(data)),
		`{"steps":[{"fn":"cam.shot"},{"chain":{"steps":[{"fn":"cam.echo","args":{"x":"$item"},"forEach":"$input.l"}]},"args":{"l":["$0.data"]}}]}`:                           `[{"x":"` + data + `"}]`,
		`{"steps":[{"fn":"cam.shot"},{"chain":{"steps":[{"fn":"cam.echo","select":"$input.p"}]},"args":{"p":"a${0.data}"}}]}`:                                                `"a` + data + `"`,
		`{"steps":[{"fn":"cam.shot"},{"chain":{"steps":[{"fn":"cam.echo"}],"return":"b${$input.p}"},"args":{"p":"a${0.data}"}}]}`:                                            `"ba` + data + `"`,
		`{"steps":[{"fn":"cam.shot"},{"chain":{"steps":[{"chain":{"steps":[{"fn":"cam.echo","args":{"x":"$input.q"}}]},"args":{"q":"$input.p"}}]},"args":{"p":"$0.data"}}]}`: `{"x":"` + data + `"}`,
		`{"steps":[{"chain":{"steps":[{"fn":"cam.shot"}],"return":{"p":"$0"}}},{"fn":"cam.echo","args":{"x":"$0.p.data"}}]}`:                                                 `{"x":"` + data + `"}`,
		`{"steps":[{"chain":{"steps":[{"fn":"cam.shot"}],"return":{"p":"$0.data"}}},{"expr":"len($0.p)"}]}`:                                                                  fmt.Sprint(len(data)),
		`{"steps":[{"fn":"cam.shot"}],"return":{"x":"$0.data"}}`:                                                                                                             `{"x":"` + data + `"}`,
		`{"steps":[{"fn":"cam.echo","args":{"data":"oc1_b0","x":"oc1bytes"}},{"fn":"cam.echo","args":{"data":"$0.data"}}]}`:                                                  `{"data":"oc1_b0"}`,
		`{"steps":[{"fn":"cam.echo","args":{"type":"image","data":"aGk="}},{"fn":"cam.echo","args":{"data":"$0.data","text":"${0.data}"}}]}`:                                 `{"data":"aGk=","text":"aGk="}`,
	} {
		a := e.Run(t.Context(), []byte(request), nil)
		if got := gjson.GetBytes(a.JSON, "result").Raw; got != want {
			t.Errorf("%s\n gives %s\n want %s\n in %s", request, got, want, a.JSON)
		}
	}
}

// What an inline chain passes on of its input is compared and shown as the bytes of a block are, by its digest.
func TestBlocksInInput(t *testing.T) {
	t.Parallel()
	c := &camera{picture: []byte("\x89PNG")}
	fns := c.functions()
	fns[len(fns)-1].Approve = steps.ApproveWrite
	e := engineOf(t, fns, chain.Options{Journal: newJournal(t, nil)}, true)
	a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"cam.shot"},
		{"chain":{"steps":[{"fn":"cam.store","args":{"x":"$input.p","y":"${$input.p}."}}]},"args":{"p":"$0.data"}}]}`), nil)
	digest := steps.Digest(c.picture)
	if got, want := gjson.GetBytes(a.JSON, "error.calls.0.args").Raw, `{"x":"`+digest+`","y":"`+digest+`."}`; got != want {
		t.Errorf("the approval shows %s, want %s: %s", got, want, a.JSON)
	}
	a = e.Run(t.Context(), fmt.Appendf(nil, `{"resume":%s,"approve":%s}`, gjson.GetBytes(a.JSON, "resume").Raw,
		gjson.GetBytes(a.JSON, "approve").Raw), nil)
	if !a.OK || string(*c.sent.Load()) != `{"x":"iVBORw==","y":"iVBORw==."}` {
		t.Errorf("%s is sent: %s", *c.sent.Load(), a.JSON)
	}
}

// A whole block in place of its bytes is refused with the reference to write, before anything runs if the function says what it returns.
func TestWholeBlockForBytes(t *testing.T) {
	t.Parallel()
	c := &camera{picture: []byte("\x89PNG")}
	input := json.RawMessage(`{"type":"object","properties":{"a/b":{"type":"array","items":{"type":"string"}},"x":{"type":["string","null"]}}}`)
	output := json.RawMessage(`{"type":"object","properties":{"kept":{"type":"object","properties":{"data":{"type":"string"}},"additionalProperties":false},
		"other":{"type":"object","properties":{"id":{"type":"string"}},"additionalProperties":false}},"additionalProperties":false}`)
	none := func(context.Context, []byte) ([]byte, error) { return []byte(`{}`), nil }
	e := engineOf(t, append(c.functions(), steps.Function{Spec: steps.Spec{Name: "to.text", Effect: steps.Read, Input: input}, Call: none},
		steps.Function{Spec: steps.Spec{Name: "cam.known", Effect: steps.Read, Output: output}, Call: none},
		steps.Function{Spec: steps.Spec{Name: "to.word", Effect: steps.Read, Input: json.RawMessage(`{"type":"object","properties":{"x":{"type":"string"}}}`)},
			Call: none}), chain.Options{}, true)
	for request, hint := range map[string]string{
		`{"cam.shot":{}},{"to.text":{"x":"$0"}}`:                                         "data, as in $0.data",
		`{"cam.shot":{}},{"to.text":{"a/b":["x","$0"]}}`:                                 "data, as in $0.data",
		`{"cam.shot":{},"select":"{size: $result.size}"},{"to.text":{"x":"$0"}}`:         "",
		`{"cam.known":{}},{"to.word":{"x":"$0.kept"}}`:                                   "data, as in $0.kept.data",
		`{"cam.known":{},"forEach":"[1]"},{"to.word":{"x":"$item.kept"},"forEach":"$0"}`: "data, as in $item.kept.data",
		`{"cam.known":{}},{"to.word":{"x":"$0.other"}}`:                                  "",
	} {
		a := e.Run(t.Context(), []byte(`{"steps":[`+request+`]}`), nil)
		told := strings.Contains(string(a.JSON), "For the bytes of a block")
		if a.OK || told != (hint != "") || !strings.Contains(string(a.JSON), hint) || !strings.Contains(string(a.JSON), "got object, want") {
			t.Errorf("%s gives %s, want the hint %q", request, a.JSON, hint)
		}
	}
}

// An undo gets the bytes of blocks, too.
func TestUndoWithBlocks(t *testing.T) {
	t.Parallel()
	c := &camera{picture: []byte("\x89PNG")}
	e := c.engine(t, chain.Options{Journal: newJournal(t, nil)})
	a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"cam.shot"},{"fn":"cam.store","args":{"id":1},"undo":{"fn":"cam.store","args":{"x":"$0.data"}}},
		{"expr":"int('none')"}],"onError":"undo"}`), nil)
	if c.stored.Load() != 2 || string(*c.sent.Load()) != `{"x":"iVBORw=="}` {
		t.Errorf("%d calls, the last with %s, want the undo with the bytes: %s", c.stored.Load(), *c.sent.Load(), a.JSON)
	}
}

// A handle that an expression, a select or forEach has taken out of its block is the bytes for a function, in place of a text that only
// onecall can read. A whole block stays one.
func TestHandlesInArguments(t *testing.T) {
	t.Parallel()
	c := &camera{picture: []byte("\x89PNG")}
	e := c.engine(t, chain.Options{})
	const data = "iVBORw=="
	for request, want := range map[string]string{
		`{"fn":"cam.shot","select":"$result.data"},{"fn":"cam.echo","args":{"x":"$0"}}`:                                          `{"x":"DATA"}`,
		`{"fn":"cam.shot","select":"{b: $result.data}"},{"fn":"cam.echo","args":{"x":"data:,${0.b}"}}`:                           `{"x":"data:,DATA"}`,
		`{"fn":"cam.shot"},{"expr":"{b: $0.data, l: [$0.data]}"},{"fn":"cam.echo","args":{"x":"$1.b","y":"$1"}}`:                 `{"x":"DATA","y":{"b":"DATA","l":["DATA"]}}`,
		`{"fn":"cam.shot"},{"fn":"cam.echo","forEach":"[$0.data, $0]","args":{"x":"$item"}}`:                                     `[{"x":"DATA"},{"x":BLOCK}]`,
		`{"fn":"cam.shot","forEach":"[1]"},{"fn":"cam.echo","forEach":"$0[*].data","args":{"data":"$item"}}`:                     `[{"data":"DATA"}]`,
		`{"fn":"cam.shot"},{"expr":"{size: $0.size, data: $0.data}"},{"fn":"cam.echo","args":{"x":"$1"}}`:                        `{"x":{"data":"DATA","size":4}}`,
		`{"fn":"cam.shot","select":"{b: $result}"},{"fn":"cam.echo","args":{"x":"$0.b","t":"${0.b}"}}`:                           `{"x":BLOCK,"t":TEXT}`,
		`{"fn":"cam.shot"},{"expr":"{data:$0.data,size:$0.size,mimeType:$0.mimeType,type:$0.type}"},{"cam.echo":{"x":"$1"}}`:     `{"x":{"data":HANDLE,"mimeType":"image/png","size":4,"type":"image"}}`,
		`{"fn":"cam.shot"},{"chain":{"steps":[{"expr":"$input.p.data"},{"fn":"cam.echo","args":{"x":"$0"}}]},"args":{"p":"$0"}}`: `{"x":"DATA"}`,
	} {
		a := e.Run(t.Context(), []byte(`{"steps":[`+request+`]}`), nil)
		handle := `"oc1_b[0-9]{39}"`
		block := `\{"type":"image","mimeType":"image/png","size":4,"data":` + handle + `\}`
		pattern := strings.NewReplacer("DATA", data, "BLOCK", block, "HANDLE", handle, "TEXT", `"\{.*\\"data\\":\\"oc1_b[0-9]{39}\\"\}"`).
			Replace(strings.NewReplacer("{", `\{`, "}", `\}`, "[", `\[`, "]", `\]`).Replace(want))
		if got := gjson.GetBytes(a.JSON, "result").Raw; !regexp.MustCompile("^" + pattern + "$").MatchString(got) {
			t.Errorf("%s\n gives %s\n want %s\n in %s", request, got, want, a.JSON)
		}
	}
}

// Base64 of some sizes is as long as what stands in its place, or shorter.
func TestSmallBlocks(t *testing.T) {
	t.Parallel()
	for size := range 70 {
		c := &camera{picture: bytes.Repeat([]byte{'x'}, size)}
		a := c.engine(t, chain.Options{}).Run(t.Context(),
			[]byte(`{"lite":true,"steps":[{"cam.shot":{}},{"cam.echo":{"x":"$0.data"}}],"return":["$1.x","$0.data"]}`), nil)
		data := base64.StdEncoding.EncodeToString(c.picture)
		if want := fmt.Sprintf(`[%q,%q]`, data, data); string(a.JSON) != want {
			t.Errorf("%d bytes are sent and returned as %s, want %s", size, a.JSON, want)
		}
	}
}

// Expressions, select, whole values and answers see the handle, which fetches the block.
func TestHandlesOfBlocks(t *testing.T) {
	t.Parallel()
	c := &camera{picture: []byte("\x89PNG")}
	e := c.engine(t, chain.Options{})
	for _, request := range []string{
		`{"steps":[{"fn":"cam.shot"}]}`,
		`{"steps":[{"fn":"cam.shot"},{"fn":"cam.echo","args":{"x":"$0"}}],"return":"$1.x"}`,
		`{"steps":[{"fn":"cam.shot"},{"expr":"{data: $0.data, size: $0.size}"}]}`,
		`{"steps":[{"fn":"cam.shot","select":"$result.data"}],"return":{"data":"$0","size":4}}`,
	} {
		a := e.Run(t.Context(), []byte(request), nil)
		handle := gjson.GetBytes(a.JSON, "result.data").Str
		if !strings.HasPrefix(handle, steps.BlockHandle) || gjson.GetBytes(a.JSON, "result.size").Int() != 4 {
			t.Errorf("%s gives %s, want a handle", request, a.JSON)
			continue
		}
		fetched := e.Run(t.Context(), fmt.Appendf(nil, `{"continuation_token":%q,"mode":"full","lite":true}`, handle), nil)
		if want := `{"type":"image","mimeType":"image/png","size":4,"data":"iVBORw=="}`; string(fetched.JSON) != want {
			t.Errorf("the handle gives %s, want %s", fetched.JSON, want)
		}
		other := e.Run(t.Context(), fmt.Appendf(nil, `{"lite":true,"steps":[{"cam.echo":{"x":"$input.data"}}],"input":{"data":%q}}`, handle), nil)
		if want := fmt.Sprintf(`{"x":%q}`, handle); string(other.JSON) != want {
			t.Errorf("a text that is the handle of another run gives %s, want %s", other.JSON, want)
		}
	}
}

// A result that the journal or the store of results has may have handles whose bytes are gone: that is a fault, and no text.
func TestHandlesOfLostBlocks(t *testing.T) {
	t.Parallel()
	const handle = steps.BlockHandle + "000000000000000000000000000000000000007"
	unsure := steps.Function{Spec: steps.Spec{Name: "cam.unsure", Effect: steps.Write}, Call: func(context.Context, []byte) ([]byte, error) {
		return nil, &fault.Error{Code: fault.Timeout, Message: "no answer", Outcome: fault.SentUnknown}
	}}
	fns := append((&camera{}).functions(), append(results.New().Functions(), unsure)...)
	e := engineOf(t, fns, chain.Options{Journal: newJournal(t, nil)}, true)
	a := e.Run(t.Context(), []byte(`{"steps":[{"cam.unsure":{}},{"cam.echo":{"x":"$0.data"}}]}`), nil)
	assumed := fmt.Sprintf(`{"resume":%q,"assume":{"0":{"result":{"data":%q}}}}`, gjson.GetBytes(a.JSON, "resume").Str, handle)
	a = e.Run(t.Context(), []byte(`{"lite":true,"budget":{"maxTotalTokens":300},"steps":[{"cam.echo":{"data":"`+handle+
		`","n":"$item"},"forEach":"1..60"}]}`), nil)
	kept := fmt.Sprintf(`{"steps":[{"result.get":{"token":%q}},{"fn":"cam.echo","args":{"x":"$0[3].data"}}]}`,
		gjson.GetBytes(a.JSON, "continuation_token").Str)
	for _, request := range []string{assumed, kept} {
		a := e.Run(t.Context(), []byte(request), nil)
		if a.OK || a.Error.Code != fault.TokenExpired || a.Error.At != "/steps/1/args/x" {
			t.Errorf("%s gives %s, want token_expired at /steps/1/args/x", request, a.JSON)
		}
	}
}

// result.get gives a later chain the bytes of the blocks whose handles stand in a kept value.
func TestBlocksInAKeptResult(t *testing.T) {
	t.Parallel()
	c := &camera{}
	e := engineOf(t, append(c.functions(), results.New().Functions()...), chain.Options{}, true)
	a := e.Run(t.Context(), []byte(`{"lite":true,"budget":{"maxTotalTokens":300},"steps":[{"cam.shot":{"n":"$item"},"forEach":"1..60"}]}`), nil)
	token := gjson.GetBytes(a.JSON, "continuation_token").Str
	if token == "" {
		t.Fatalf("got %s, want a probe", a.JSON)
	}
	a = e.Run(t.Context(), fmt.Appendf(nil, `{"lite":true,"steps":[{"result.get":{"token":%q}},{"cam.echo":{"x":"$0[3].data"}}],`+
		`"return":["$1.x","$0[3].data"]}`, token), nil)
	x, y := gjson.GetBytes(a.JSON, "0").Str, gjson.GetBytes(a.JSON, "1").Str
	if data, err := base64.StdEncoding.DecodeString(x); err != nil || !strings.HasPrefix(string(data), "picture ") || x != y {
		t.Errorf("got %s, want the bytes of a picture twice", a.JSON)
	}
}

// A text that only looks like what the engine writes in place of bytes stays a text.
func TestMarksCannotBeWritten(t *testing.T) {
	t.Parallel()
	ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{Blocks: &steps.Blocks{}})
	blocks := steps.CallbacksOf(ctx).Blocks
	if _, err := steps.KeepBlock(ctx, &steps.Block{Type: "image", Bytes: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`"oc1bytes"`, `"oc1bytesAAAAAAAAAAAAAAAAAAAAAAAAAA0000000000"`, `"oc1_b000000000000000000000000000000000000000"`} {
		if got := blocks.Expand([]byte(text)); string(got) != text {
			t.Errorf("%s becomes %s", text, got)
		}
		if got := blocks.Digests([]byte(text)); string(got) != text {
			t.Errorf("%s becomes %s in comparisons", text, got)
		}
	}
}

// A resume has the bytes of a write from the journal, and those of a read, too, while the journal has them.
func TestBlocksOfAResumedRun(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, fn string
		bytes    int
		shots    int64 // of both attempts
	}{
		{"a write", "cam.take", 100, 1},
		{"a large write", "cam.take", 3 << 20, 1},
		{"a read", "cam.shot", 100, 1},
		{"a read that the journal did not store", "cam.shot", 65 << 20, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			driver := &journal.Memory{}
			c := &camera{picture: bytes.Repeat([]byte{'x'}, test.bytes)}
			c.broken.Store(true)
			o := chain.Options{Journal: newJournal(t, driver), MaxResultBytes: 128 << 20, MaxChainBytes: 512 << 20}
			request := `{"steps":[{"fn":"` + test.fn + `"},{"fn":"cam.store","args":{"n":1,"x":"$0.data","whole":"$0"}}],"return":"$1"}`
			a := c.engine(t, o).Run(t.Context(), []byte(request), nil)
			token := gjson.GetBytes(a.JSON, "resume").Str
			if a.OK || token == "" {
				t.Fatalf("got %.300s, want a failure that can be resumed", a.JSON)
			}
			c.broken.Store(false)
			a = c.engine(t, o).Run(t.Context(), fmt.Appendf(nil, `{"resume":%q}`, token), nil)
			if !a.OK || c.shots.Load() != test.shots || c.stored.Load() != 1 {
				t.Fatalf("got %.300s after %d shots, want success after %d", a.JSON, c.shots.Load(), test.shots)
			}
			sent := *c.sent.Load()
			if want := base64.StdEncoding.EncodeToString(c.picture); gjson.GetBytes(sent, "x").Str != want {
				t.Errorf("sent %d bytes of data, want %d", len(gjson.GetBytes(sent, "x").Str), len(want))
			}
		})
	}
}

// Calls are compared by the bytes, not by their handles, which differ in each attempt.
func TestBlocksInComparisons(t *testing.T) {
	t.Parallel()
	c := &camera{picture: []byte("same")}
	o := chain.Options{Journal: newJournal(t, &journal.Memory{})}
	c.broken.Store(true)
	request := `{"key":"k","steps":[{"fn":"cam.shot","id":"%s"},{"id":"put","fn":"cam.store","args":{"whole":"$%[1]s","x":"$%[1]s.data"}},` +
		`{"fn":"cam.store","args":{"last":"$put.stored"}}]}`
	a := c.engine(t, o).Run(t.Context(), fmt.Appendf(nil, request, "a"), nil)
	if a.OK {
		t.Fatal(string(a.JSON))
	}
	c.broken.Store(false)
	a = c.engine(t, o).Run(t.Context(), fmt.Appendf(nil, `{"resume":%q}`, gjson.GetBytes(a.JSON, "resume").Str), nil)
	if !a.OK || c.stored.Load() != 2 {
		t.Fatalf("got %s after %d stores", a.JSON, c.stored.Load())
	}
}

// The journal's calls of two runs are equal if the bytes are.
func TestBlocksOfTwoRuns(t *testing.T) {
	t.Parallel()
	j, err := journal.New(&journal.Memory{}, &journal.Options{Values: true})
	must(t, err)
	t.Cleanup(func() { j.Close() })
	e := (&camera{picture: []byte("same")}).engine(t, chain.Options{Journal: j})
	for range 2 {
		a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"cam.take"},{"fn":"cam.store","args":{"x":"$0.data","whole":"$0"}}]}`), nil)
		if !a.OK {
			t.Fatal(string(a.JSON))
		}
	}
	rows, err := j.List(t.Context(), &journal.Filter{})
	must(t, err)
	var seen []string
	for i := range rows {
		past, err := j.Read(t.Context(), rows[i].ID, nil)
		must(t, err)
		text := ""
		for _, c := range past.Calls() {
			text += string(c.Args) + string(c.ComparableResult())
		}
		seen = append(seen, text)
	}
	digest := steps.Digest([]byte("same"))
	if len(seen) != 2 || seen[0] != seen[1] || strings.Count(seen[0], digest) != 3 || strings.Contains(seen[0], "oc1") {
		t.Errorf("the runs are %q, want them equal, with %s three times", seen, digest)
	}
}

func TestLimitsOfBlocks(t *testing.T) {
	t.Parallel()
	c := &camera{picture: bytes.Repeat([]byte{'x'}, 3<<20)}
	for _, test := range []struct {
		o       chain.Options
		request string
		at      string
	}{
		{chain.Options{MaxResultBytes: 2 << 20}, `{"steps":[{"fn":"cam.shot"}]}`, "/steps/0"},
		{chain.Options{MaxChainBytes: 8 << 20}, `{"steps":[{"fn":"cam.shot"},{"fn":"cam.shot","args":{"x":"$0.size"}}]}`, "/steps/1"},
		{chain.Options{MaxChainBytes: 8 << 20}, `{"steps":[{"fn":"cam.shot"},{"fn":"cam.echo","args":{"x":"$0.data","y":"$0.data"}}]}`, "/steps/1"},
		{chain.Options{MaxChainBytes: 8 << 20}, `{"steps":[{"fn":"cam.shot"}],"return":["$0.data","$0.data","$0.data"]}`, "/return"},
		{chain.Options{MaxChainBytes: 8 << 20},
			`{"steps":[{"fn":"cam.shot"},{"args":{"x":"$0.data","y":"$0.data","z":"$0.data"},"chain":{"steps":[{"expr":"len($input.x)"}]}}]}`,
			"/steps/1/chain/steps/0/expr"},
		{chain.Options{MaxChainBytes: 8 << 20},
			`{"steps":[{"chain":{"steps":[{"fn":"cam.shot"}],"return":["$0.data","$0.data","$0.data"]}}]}`, "/steps/0/chain/return"},
	} {
		a := c.engine(t, test.o).Run(t.Context(), []byte(test.request), nil)
		if a.OK || a.Error.Code != fault.LimitExceeded || !strings.HasPrefix(a.Error.At, test.at) {
			t.Errorf("%s gives %.400s, want limit_exceeded at %s", test.request, a.JSON, test.at)
		}
	}
}

// Short references stand for many bytes. They are counted before they are written, wherever they stand.
func TestManyReferencesToABlock(t *testing.T) {
	t.Parallel()
	c := &camera{picture: bytes.Repeat([]byte{'x'}, 1<<20)}
	c.broken.Store(true)
	o := chain.Options{MaxResultBytes: 2 << 20, MaxChainBytes: 8 << 20, Journal: newJournal(t, nil)}
	many := "[" + strings.TrimSuffix(strings.Repeat(`"$0.data",`, 10), ",") + "]"
	for request, want := range map[string]string{
		`{"steps":[{"fn":"cam.shot"}],"return":` + many + `}`:                                                           "/return",
		`{"steps":[{"fn":"cam.shot"},{"chain":{"steps":[{"expr":"len($input.x)"}]},"args":{"x":` + many + `}}]}`:        "/steps/1/chain/steps/0/expr",
		`{"steps":[{"fn":"cam.shot"},{"chain":{"steps":[{"cam.echo":{"x":"$input.x"}}]},"args":{"x":` + many + `}}]}`:   "/steps/1/chain/steps/0",
		`{"steps":[{"chain":{"steps":[{"fn":"cam.shot"}],"return":` + many + `}},{"fn":"cam.echo","args":{"x":"$0"}}]}`: "/steps/0/chain/return",
		`{"steps":[{"fn":"cam.shot"},{"fn":"cam.echo","args":{"x":` + many + `}}]}`:                                     "/steps/1",
		`{"steps":[{"fn":"cam.shot"},{"fn":"cam.take","undo":{"fn":"cam.echo","args":{"x":` + many + `}}},` +
			`{"fn":"cam.store","args":{"after":"$1"}}],"onError":"undo"}`: "limits.maxChainBytes",
	} {
		a := c.engine(t, o).Run(t.Context(), []byte(request), nil)
		if a.OK || a.Error.At != want && !strings.Contains(a.Error.Message, want) || a.Error.At == want && a.Error.Code != fault.LimitExceeded {
			t.Errorf("%s gives %.400s, want limit_exceeded, and %s", request, a.JSON, want)
		}
	}
}

// What a configuration demands of a text holds for the bytes of a block, and no message has them, or what stands for them.
func TestChecksOfBlocks(t *testing.T) {
	t.Parallel()
	c := &camera{picture: []byte("\x89PNG")}
	var got atomic.Pointer[string]
	mark := regexp.MustCompile("oc1bytes[A-Z2-7]")
	show := func(name, schema string) steps.Function {
		return steps.Function{Spec: steps.Spec{Name: name, Effect: steps.Write, Aliases: map[string]string{"other": "x"},
			Input: []byte(`{"type":"object","properties":{"x":` + schema + `}}`)}, Call: func(_ context.Context, args []byte) ([]byte, error) {
			got.Store(new(gjson.GetBytes(args, "x").Raw))
			return []byte("1"), nil
		}}
	}
	checked := show("to.checked", `{"type":["string","array"]}`)
	checked.Check = func(args []byte, known func(string) bool) *fault.Error {
		if known("/x") && strings.HasPrefix(gjson.GetBytes(args, "x").Str, "iVBOR") {
			return fault.New(fault.BadArguments, "no picture").Under("/x")
		}
		return nil
	}
	fns := append(c.functions(), checked, show("to.safe", `{"type":"string","pattern":"^[A-Za-z0-9_.-]+$"}`),
		show("to.png", `{"pattern":"^iVB"}`),
		show("to.short", `{"maxLength":7}`), show("to.fits", `{"maxLength":8}`), show("to.one", `{"enum":["iVBORw==","oc1bytes"]}`),
		show("to.word", `{"enum":["oc1bytes","word"]}`), show("to.either", `{"anyOf":[{"const":"word"},{"type":"string","maxLength":43}]}`),
		show("to.list", `{"items":{"pattern":"="}}`))
	fns = append(fns, steps.Function{Spec: steps.Spec{Name: "to.picture", Effect: steps.Read},
		Call: func(ctx context.Context, _ []byte) ([]byte, error) {
			return steps.KeepBlock(ctx, &steps.Block{Type: "image", Bytes: slices.Concat(c.picture, make([]byte, 29))}) // base64 is as long as a mark
		}})
	e := engineOf(t, fns, chain.Options{Journal: newJournal(t, nil)}, true)
	for step, refused := range map[string]bool{
		`{"fn":"to.safe","args":{"x":"$0.data"}}`:                                   true,
		`{"fn":"to.safe","args":{"other":"a/${0.data}"}}`:                           true,
		`{"fn":"to.safe","forEach":"[1]","args":{"x":"$0.data"}}`:                   true,
		`{"fn":"to.safe","args":{"x":"$0.data"},"repeat":{"until":"true","max":1}}`: true,
		`{"fn":"to.short","args":{"x":"$0.data"},"orElse":1,"retry":{"max":2}}`:     true,
		`{"fn":"to.word","args":{"x":"$0.data"}}`:                                   true,
		`{"fn":"to.checked","args":{"x":"$0.data"}}`:                                true,
		`{"fn":"to.checked","args":{"x":["$0.data"]}}`:                              false,
		`{"fn":"to.png","args":{"x":"$0.data"}}`:                                    false,
		`{"fn":"to.fits","args":{"x":"$0.data"}}`:                                   false,
		`{"fn":"to.one","args":{"x":"$0.data"}}`:                                    false,
		`{"fn":"to.either","args":{"x":"$0.data"}}`:                                 false,
		`{"fn":"to.list","args":{"x":["$0.data","a="]}}`:                            false,
		`{"fn":"to.list","args":{"x":["$0.data","$0.type"]}}`:                       true,
		`{"fn":"to.checked","args":{"x":"$long.data"}}`:                             true,
		`{"fn":"to.word","args":{"x":"$long.data"}}`:                                true,
	} {
		got.Store(nil)
		a := e.Run(t.Context(), []byte(`{"trace":"full","steps":[{"fn":"cam.shot"},{"id":"long","fn":"to.picture"},`+step+`]}`), nil)
		called := got.Load()
		switch {
		case refused && called != nil, !refused && (called == nil || !strings.Contains(*called, "iVBORw==")):
			t.Errorf("%s calls with %v, and answers %s", step, called, a.JSON)
		case refused && !strings.Contains(step, "orElse") &&
			(a.OK || a.Error.Code != fault.BadArguments || !strings.Contains(a.Error.At, "/steps/2/args")):
			t.Errorf("%s answers %s, want bad_arguments in its args", step, a.JSON)
		case mark.Match(a.JSON) || bytes.Contains(a.JSON, []byte(`got "`)):
			t.Errorf("%s shows what stands for the bytes: %s", step, a.JSON)
		}
	}
}

// A function that was left behind at its time limit may still return a block. The memory of all chains has nothing of it.
func TestBlockAfterTheRun(t *testing.T) {
	t.Parallel()
	left, kept := make(chan struct{}), make(chan error)
	slow := steps.Function{Spec: steps.Spec{Name: "cam.slow", Effect: steps.Read}, Call: func(ctx context.Context, _ []byte) ([]byte, error) {
		<-left
		value, err := steps.KeepBlock(ctx, &steps.Block{Type: "image", Bytes: make([]byte, 1<<20)})
		kept <- err
		return value, err
	}}
	shared := admit.New(1, 2)
	e := engineOf(t, []steps.Function{slow}, chain.Options{Admission: shared}, false)
	a := e.Run(t.Context(), []byte(`{"steps":[{"fn":"cam.slow","timeoutMs":1}]}`), nil)
	close(left)
	if err := <-kept; a.OK || a.Error.Code != fault.Timeout || fault.CodeOf(err) != fault.Cancelled {
		t.Errorf("the chain gives %s, and the block %v, want timeout and cancelled", a.JSON, err)
	}
	if n := shared.Held(); n != 0 {
		t.Errorf("%d bytes are counted after the run, want 0", n)
	}
}

// A chain that shows no block leaves nothing in the store of results.
func TestUnshownBlocksAreNotStored(t *testing.T) {
	t.Parallel()
	c := &camera{picture: bytes.Repeat([]byte{'x'}, 1<<20)}
	store := &countingDriver{}
	kept, err := budget.NewResults(store, nil)
	must(t, err)
	e := engineOf(t, c.functions(), chain.Options{Results: kept}, false)
	for request, want := range map[string]int64{
		`{"steps":[{"fn":"cam.shot"},{"fn":"cam.store","args":{"x":"$0.data"}}]}`: 0,
		`{"steps":[{"fn":"cam.shot"},{"fn":"cam.shot","args":{"x":1}}]}`:          1,
	} {
		store.puts.Store(0)
		if a := e.Run(t.Context(), []byte(request), nil); !a.OK || store.puts.Load() != want {
			t.Errorf("%s stores %d blocks, want %d: %s", request, store.puts.Load(), want, a.JSON)
		}
	}
}

// countingDriver stores nothing and counts what it should store.
type countingDriver struct {
	budget.Driver
	puts atomic.Int64
}

func (d *countingDriver) Put(context.Context, string, budget.Entry) error {
	d.puts.Add(1)
	return nil
}
