package steps

import "testing"

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
