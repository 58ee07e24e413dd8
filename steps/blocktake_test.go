package steps

import (
	"context"
	"encoding/json"
	"testing"
)

// heldArguments counts the bytes that arguments hold for base64.
type heldArguments struct{ held int }

func (*heldArguments) KeepBlock(int) error         { return nil }
func (m *heldArguments) HoldArguments(n int) error { m.held += n; return nil }
func (*heldArguments) ReleaseArguments(int)        {}

// TestTakenWithoutBase64: a function that takes bytes as they are gets no base64 for the check of other arguments, which are not there.
func TestTakenWithoutBase64(t *testing.T) {
	t.Parallel()
	input := `{"type":"object","properties":{"data":{"type":"string"},"mode":{"type":"string","pattern":"^[0-7]{3}$"},"undo":{"const":"none"}}}`
	r, err := NewRegistry([]Function{{Spec: Spec{Name: "disk.write", TakesMarks: true, Input: json.RawMessage(input)},
		Call: func(context.Context, []byte) ([]byte, error) { return []byte("1"), nil }}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	memory := &heldArguments{}
	blocks := &Blocks{Memory: memory}
	handle, err := blocks.Add(NewBlock("image/png", make([]byte, 1000)))
	if err != nil {
		t.Fatal(err)
	}
	mark, _ := blocks.Refer(handle)
	entry, err := r.Resolve("disk.write")
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]bool{`{"data":"` + mark + `"}`: false, `{"data":"` + mark + `","mode":"600"}`: true} {
		memory.held = 0
		_, err := entry.Call(WithCallbacks(t.Context(), &Callbacks{Blocks: blocks}), []byte(args))
		if err != nil || (memory.held > 0) != want {
			t.Errorf("%s: %d bytes for base64, %v; want some: %t", args, memory.held, err, want)
		}
	}
}

func TestTake(t *testing.T) {
	t.Parallel()
	blocks := &Blocks{}
	block := &KeptBlock{Handle: newHandle(), Block: *NewBlock("image/png", []byte("\x89PNG"))}
	if err := blocks.Restore(block); err != nil {
		t.Fatal(err)
	}
	mark, _ := blocks.Refer(block.Handle)
	for _, test := range []struct {
		args, want string
		taken      bool
	}{
		{`{"path":"a","data":"` + mark + `"}`, `{"path":"a","data":""}`, true},
		{`{"data":"` + mark + `","text":"data:` + mark + `"}`, `{"data":"","text":"data:iVBORw=="}`, true},
		{`{"path":"a","data":"x` + mark + `"}`, `{"path":"a","data":"xiVBORw=="}`, false},
		{`{"path":"` + mark + `"}`, `{"path":"iVBORw=="}`, false},
		{`{"data":7}`, `{"data":7}`, false},
	} {
		taken, rest := blocks.Take([]byte(test.args), "data")
		if (taken != nil) != test.taken || taken != nil && string(taken.Bytes) != "\x89PNG" || string(rest) != test.want {
			t.Errorf("%s: took %v, left %s, want %s", test.args, taken, rest, test.want)
		}
	}
	var none *Blocks
	if taken, rest := none.Take([]byte(`{"data":"x"}`), "data"); taken != nil || string(rest) != `{"data":"x"}` {
		t.Errorf("without blocks: took %v, left %s", taken, rest)
	}
}

func TestNewBlock(t *testing.T) {
	t.Parallel()
	for mediaType, want := range map[string]string{
		"image/png": "image", "audio/mpeg": "audio", "application/pdf": "resource", "text/plain; charset=utf-8": "resource", "": "resource",
	} {
		if got := NewBlock(mediaType, nil); got.Type != want || got.MIME != mediaType {
			t.Errorf("%s: %+v, want the type %s", mediaType, got, want)
		}
	}
}
