package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/mcp"
	"github.com/onecall-mcp/onecall/mcp/internal/mcptest"
	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// camera is a source whose function returns a block of its arguments: an image of width and height, or so many bytes of another type.
type camera struct{}

func (camera) Close() error { return nil }

func (camera) Functions() []steps.Function {
	input := json.RawMessage(`{"type":"object","properties":{"type":{"type":"string"},"width":{"type":"integer"},"height":{"type":"integer"},"bytes":{"type":"integer"}}}`)
	return []steps.Function{{Spec: steps.Spec{Name: "cam.shot", Effect: steps.Read, EffectDeclared: true, Input: input},
		Call: func(ctx context.Context, args []byte) ([]byte, error) {
			asked := gjson.ParseBytes(args)
			b := &steps.Block{Type: asked.Get("type").Str, MIME: "image/png", Bytes: make([]byte, asked.Get("bytes").Int())}
			if width := int(asked.Get("width").Int()); width > 0 {
				var encoded bytes.Buffer
				if err := png.Encode(&encoded, image.NewGray(image.Rect(0, 0, width, int(asked.Get("height").Int())))); err != nil {
					return nil, err
				}
				b.Bytes = encoded.Bytes()
			}
			return steps.KeepBlock(ctx, b)
		}}}
}

// TestBlocksOfAnswers: a result that is a block, or a list of blocks, comes as MCP content after the text, within both bounds.
func TestBlocksOfAnswers(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *mcp.Options) {
		o.MaxBlockBytes = 10_000
		if err := o.Catalog.Add("cam", camera{}); err != nil {
			t.Fatal(err)
		}
	})
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Callers{"ann": {ID: "jwt:ann", Rights: steps.Rights{Tier: steps.TierReadWrite}}}})
	const small, large = `{"type":"image","width":75,"height":20}`, `{"type":"image","width":3000,"height":1000}`
	const sound, file = `{"type":"audio","bytes":6000}`, `{"type":"resource","bytes":6000}`
	for _, test := range []struct {
		name, shots, more string
		content           string
		tokens            int64
		left              string // of the warning about the one block that is left out; "": none is
	}{
		{"a block", small, ``, "image", 2, ""},
		{"a list, in order", small + `,` + sound + `,` + small, ``, "image audio image", 4, ""},
		{"more bytes than may go", sound + `,` + file + `,` + small, ``, "audio image", 2, "1 of the 3 blocks of the result do not go with the answer, but their handles stand in it: the blocks of an answer have at most 10000 bytes together"},
		{"a file", file, ``, "resource", 0, ""},
		{"more tokens than may be spent", large + `,` + small, `,"budget":{"maxTotalTokens":2000}`, "image", 2, "images count as tokens"},
		{"none that fits", large, `,"budget":{"maxTotalTokens":2000}`, "", 0, "1 of the 1 blocks"},
		{"an image of unknown size", `{"type":"image","bytes":9}`, ``, "image", 1600, ""},
		{"something else", small, `,"return":{"x":"$0"}`, "", 0, ""},
		{"the bytes as text", small, `,"return":"$0[0].data"`, "", 0, ""},
		{"nothing", small, `,"return":[]`, "", 0, ""},
	} {
		for _, version := range []string{statelessVersion, "2025-06-18"} {
			t.Run(test.name+" "+version, func(t *testing.T) {
				t.Parallel()
				chain := `{"steps":[{"fn":"cam.shot","forEach":"$input.shots","args":{"type":"$item.type","width":"$item.width ?? 0","height":"$item.height ?? 0","bytes":"$item.bytes ?? 0"}}],"input":{"shots":[` + test.shots + `]}` + test.more + `}`
				var args map[string]any
				if err := json.Unmarshal([]byte(chain), &args); err != nil {
					t.Fatal(err)
				}
				result, err := connectAs(t, url, "ann", version).CallTool(t.Context(), &sdk.CallToolParams{Name: "chain", Arguments: args})
				if err != nil || result.IsError {
					t.Fatalf("got %v, %v", result, err)
				}
				text := result.Content[0].(*sdk.TextContent).Text
				var kinds string
				var sum int64
				for _, c := range result.Content[1:] {
					switch c := c.(type) {
					case *sdk.ImageContent:
						kinds, sum = kinds+" image", sum+int64(len(c.Data))
					case *sdk.AudioContent:
						kinds, sum = kinds+" audio", sum+int64(len(c.Data))
					case *sdk.EmbeddedResource:
						kinds, sum = kinds+" resource", sum+int64(len(c.Resource.Blob))
					}
				}
				content, want := "", ""
				if test.content == "" && test.left != "" {
					want = `{"count":0,"bytes":0,"tokens":0}`
				}
				if test.content != "" {
					content, want = " "+test.content, fmt.Sprintf(`{"count":%d,"bytes":%d,"tokens":%d}`, len(result.Content)-1, sum, test.tokens)
				}
				if test.left != "" {
					want = strings.TrimSuffix(want, "}") + `,"left":1}`
				}
				if told := gjson.Get(text, "warnings.0.message").Str; test.left == "" && told != "" || !strings.Contains(told, test.left) {
					t.Errorf("the warning is %q, want %q", told, test.left)
				}
				if usage := gjson.Get(text, "usage.blocks").Raw; kinds != content || usage != want {
					t.Errorf("the content is%s, want%s; usage.blocks is %s, want %s: %s", kinds, content, usage, want, text)
				}
				if limit := gjson.Get(text, "usage.limit").Int(); limit != 0 && test.more != "" && test.content != "" && limit != 2000 {
					t.Errorf("the limit is %d, want 2000", limit)
				}
			})
		}
	}
}

// TestBlocksSpendTheSession: what the images of an answer cost counts against the tokens of its session.
func TestBlocksSpendTheSession(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *mcp.Options) {
		o.MaxBlockBytes, o.SessionTokens = 10_000, 1_500
		if err := o.Catalog.Add("cam", camera{}); err != nil {
			t.Fatal(err)
		}
	})
	url := s.serveAs(t, &transport.Access{Callers: mcptest.Callers{"ann": {ID: "jwt:ann", Rights: steps.Rights{Tier: steps.TierReadWrite}}}})
	for shown, want := range map[string]int{"$0": 1, "$0.size": 0} {
		client := connectAs(t, url, "ann", statefulVersion)
		args := json.RawMessage(`{"steps":[{"cam.shot":{"type":"image","bytes":9}}],"return":"` + shown + `"}`)
		if result, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: "chain", Arguments: args}); err != nil || result.IsError {
			t.Fatalf("got %v, %v", result, err)
		}
		if text, _ := mcptest.Ask(t, client, "chain", `{"steps":[{"expr":"1"}]}`); len(sessionWarnings(text)) != want {
			t.Errorf("after an answer with %s: %s, want %d warnings", shown, text, want)
		}
	}
}
