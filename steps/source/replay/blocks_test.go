package replay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/replay"
)

// blockFunctions are a function that returns two blocks with the same bytes and one with others, and one that returns its argument.
func blockFunctions() []steps.Function {
	return []steps.Function{
		{Spec: steps.Spec{Name: "cam.shots", Effect: steps.Read}, Call: func(ctx context.Context, _ []byte) ([]byte, error) {
			var list [][]byte
			for _, text := range []string{"one", "one", "two"} {
				value, err := steps.KeepBlock(ctx, &steps.Block{Type: "image", MIME: "image/png", Bytes: []byte(text)})
				if err != nil {
					return nil, err
				}
				list = append(list, value)
			}
			return append(append([]byte{'['}, bytes.Join(list, []byte{','})...), ']'), nil
		}},
		{Spec: steps.Spec{Name: "cam.echo", Effect: steps.Read}, Call: func(_ context.Context, args []byte) ([]byte, error) {
			return bytes.Clone(args), nil
		}},
	}
}

// useBlocks calls both functions: echo with the bytes of the last block. It returns the bytes of the blocks, and what echo answers.
func useBlocks(ctx context.Context, t *testing.T, r *steps.Registry) (texts []string, echo string, err error) {
	t.Helper()
	blocks := &steps.Blocks{}
	ctx = steps.WithCallbacks(ctx, &steps.Callbacks{Blocks: blocks})
	call := func(name, args string) ([]byte, error) {
		entry, err := r.Resolve(name)
		if err != nil {
			t.Fatal(err)
		}
		return entry.Call(ctx, []byte(args))
	}
	result, err := call("cam.shots", `{}`)
	if err != nil {
		return nil, "", err
	}
	within := blocks.Within(result)
	for _, b := range within {
		texts = append(texts, string(b.Bytes))
	}
	mark, _ := blocks.Refer(within[len(within)-1].Handle)
	answered, err := call("cam.echo", `{"x":"`+mark+`"}`)
	return texts, string(answered), err
}

func TestRecordedBlocks(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tape.jsonl")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	recorder := replay.NewRecorder(file, &replay.RecorderOptions{Blocks: replay.BlocksFolder(path)})
	registry, err := steps.NewRegistry(blockFunctions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	texts, echo, err := useBlocks(t.Context(), t, registry.Observe(recorder.Observe))
	if err != nil || echo != `{"x":"dHdv"}` || strings.Join(texts, " ") != "one one two" {
		t.Fatalf("got %q, %s, %v", texts, echo, err)
	}
	if err := errors.Join(recorder.Err(), file.Close()); err != nil {
		t.Fatal(err)
	}
	tape, err := os.ReadFile(path)
	two := steps.Digest([]byte("two"))
	if err != nil || bytes.Contains(tape, []byte("oc1")) || !bytes.Contains(tape, []byte(`"args":{"x":"`+two+`"}`)) {
		t.Errorf("the recording has handles, or not the digest of the argument: %s, %v", tape, err)
	}
	base, err := steps.NewRegistry(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	play := func(base *steps.Registry) ([]string, string, error) {
		cassette, err := replay.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		replayed, err := cassette.Registry(base)
		if err != nil {
			t.Fatal(err)
		}
		return useBlocks(cassette.Cursor(t.Context(), ""), t, replayed)
	}
	for name, base := range map[string]*steps.Registry{"without its source": base, "over its source": registry} {
		texts, echo, err = play(base)
		if err != nil || strings.Join(texts, " ") != "one one two" || echo != `{"x":"`+two+`"}` && echo != `{"x":"dHdv"}` {
			t.Errorf("%s the replay has %q, and answers %s, %v", name, texts, echo, err)
		}
	}
	stored := filepath.Join(replay.BlocksFolder(path), strings.TrimPrefix(two, "sha256:"))
	for name, change := range map[string]func() error{
		"changed": func() error { return os.WriteFile(stored, []byte("Two"), 0o600) },
		"gone":    func() error { return os.Remove(stored) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := play(base); fault.CodeOf(err) != fault.NotRecorded || !strings.Contains(err.Error(), stored) {
			t.Errorf("with bytes %s the replay gives %v, want not_recorded with the file", name, err)
		}
		if err := os.WriteFile(stored, []byte("two"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A text that is the digest of a block stays a text, and blocks with the same bytes stay apart. The same block twice stays one.
func TestDigestsThatAreText(t *testing.T) {
	t.Parallel()
	digest := steps.Digest([]byte("one"))
	png := `{"type":"image","mimeType":"image/png","size":3,"data":"` + digest + `"}`
	gif := strings.Replace(png, "png", "gif", 1)
	text := `{"data":"` + digest + `","sums":["` + digest + `"]}`
	for name, test := range map[string]struct {
		result, blocks string
		want           string // H0 is the first block, and so on
	}{
		"a text before":       {`[` + text + `,` + png + `]`, png, `[` + text + `,H0]`},
		"a text within":       {`{"at":"` + digest + `","b":` + png + `}`, png, `{"at":"` + digest + `","b":H0}`},
		"twins":               {`[` + png + `,` + png + `,` + text + `]`, png + `,` + png, `[H0,H1,` + text + `]`},
		"the same twice":      {`[` + png + `,` + png + `]`, png, `[H0,H0]`},
		"of two types":        {`[` + png + `,` + gif + `]`, png + `,` + gif, `[H0,H1]`},
		"with blanks":         {`[ ` + strings.ReplaceAll(png, `":`, `" : `) + ` ]`, png, `[H0]`},
		"in another order":    {`{"data":"` + digest + `","mimeType":"image/png","size":3,"type":"image"}`, png, `H0`},
		"one that is no more": {`[]`, png, `[]`},
	} {
		path := filepath.Join(t.TempDir(), "tape.jsonl")
		folder := replay.BlocksFolder(path)
		err := errors.Join(os.Mkdir(folder, 0o700),
			os.WriteFile(filepath.Join(folder, strings.TrimPrefix(digest, "sha256:")), []byte("one"), 0o600),
			os.WriteFile(path, []byte(`{"fn":"a.b","result":`+test.result+`,"blocks":[`+test.blocks+`]}`), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		cassette, err := replay.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		base, err := steps.NewRegistry(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		replayed, err := cassette.Registry(base)
		if err != nil {
			t.Fatal(err)
		}
		entry, err := replayed.Resolve("a.b")
		if err != nil {
			t.Fatal(err)
		}
		blocks := &steps.Blocks{}
		got, err := entry.Call(steps.WithCallbacks(cassette.Cursor(t.Context(), ""), &steps.Callbacks{Blocks: blocks}), []byte(`{}`))
		want := test.want
		for i, b := range blocks.Within(got) {
			object := strings.Replace(`{"type":"image","mimeType":"image/png","size":3,"data":"H"}`, "image/png", b.MIME, 1)
			if name == "in another order" {
				object = `{"data":"H","mimeType":"image/png","size":3,"type":"image"}`
			}
			want = strings.ReplaceAll(want, fmt.Sprintf("H%d", i), strings.Replace(object, "H", b.Handle, 1))
		}
		if err != nil || string(got) != want {
			t.Errorf("%s: %s replays as %s, %v, want %s", name, test.result, got, err, want)
		}
	}
}

// A line cannot name a file outside the folder.
func TestDigestsInLines(t *testing.T) {
	t.Parallel()
	for _, blocks := range []string{`{}`, `[{}]`, `[{"data":"sha256:../../x"}]`, `[{"data":"` + strings.Repeat("0", 64) + `"}]`} {
		_, err := replay.Read(strings.NewReader(`{"fn":"a.b","result":1,"blocks":`+blocks+`}`), "tape")
		if f, _ := fault.As(err); f == nil || f.Code != fault.BadRequest || !strings.HasPrefix(f.At, "/blocks") {
			t.Errorf("blocks %s: got %v, want bad_request at /blocks", blocks, err)
		}
	}
}

// A recording whose blocks cannot be written has a gap.
func TestBlocksThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var tape bytes.Buffer
	recorder := replay.NewRecorder(&tape, &replay.RecorderOptions{Blocks: folder})
	registry, err := steps.NewRegistry(blockFunctions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := useBlocks(t.Context(), t, registry.Observe(recorder.Observe)); err != nil {
		t.Fatal(err)
	}
	if recorder.Lost() != 1 || recorder.Err() == nil || !strings.Contains(tape.String(), `{"gap":1}`) {
		t.Errorf("lost %d lines, %v, want 1: %s", recorder.Lost(), recorder.Err(), tape.String())
	}
}

// The address of a block may hold a secret argument. The recording has the digest of that in all places, and a replay the address.
func TestSecretsOfBlocks(t *testing.T) {
	t.Parallel()
	const address, secret = "https://files.test/?key=opensesame-4711", "opensesame-4711"
	input := []byte(`{"type":"object","properties":{"password":{"type":"string"},"from":{"type":"string"}}}`)
	fetch := steps.Function{Spec: steps.Spec{Name: "cam.fetch", Effect: steps.Read, Input: input},
		Call: func(ctx context.Context, args []byte) ([]byte, error) {
			return steps.KeepBlock(ctx, &steps.Block{Type: "resource", URI: gjson.GetBytes(args, "from").Str, Bytes: []byte("bytes")})
		}}
	for _, from := range []string{address, secret} {
		path := filepath.Join(t.TempDir(), "tape.jsonl")
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		recorder := replay.NewRecorder(file, &replay.RecorderOptions{Blocks: replay.BlocksFolder(path)})
		registry, err := steps.NewRegistry([]steps.Function{fetch}, nil)
		if err != nil {
			t.Fatal(err)
		}
		call := func(ctx context.Context, r *steps.Registry) string {
			blocks := &steps.Blocks{}
			entry, err := r.Resolve("cam.fetch")
			if err != nil {
				t.Fatal(err)
			}
			result, err := entry.Call(steps.WithCallbacks(ctx, &steps.Callbacks{Blocks: blocks}), []byte(`{"password":"`+secret+`","from":"`+from+`"}`))
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range blocks.Within(result) {
				return b.URI
			}
			return "no block in " + string(result)
		}
		if got := call(t.Context(), registry.Observe(recorder.Observe)); got != from {
			t.Fatal(got)
		}
		if err := errors.Join(recorder.Err(), file.Close()); err != nil {
			t.Fatal(err)
		}
		tape, err := os.ReadFile(path)
		if err != nil || bytes.Contains(bytes.ReplaceAll(tape, []byte(`"from":"`+from+`"`), nil), []byte(secret)) {
			t.Errorf("the recording has the secret: %s, %v", tape, err)
		}
		cassette, err := replay.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		replayed, err := cassette.Registry(registry)
		if err != nil {
			t.Fatal(err)
		}
		if got := call(cassette.Cursor(t.Context(), ""), replayed); got != from {
			t.Errorf("the replay has a block from %s, want %s", got, from)
		}
	}
}
