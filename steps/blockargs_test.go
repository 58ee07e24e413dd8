package steps

import (
	"strings"
	"testing"
)

func TestMarkHandles(t *testing.T) {
	t.Parallel()
	blocks := &Blocks{}
	block := &KeptBlock{Handle: newHandle(), Block: Block{Type: "resource", URI: "a://{b", MIME: "image/png", Bytes: []byte("\x89PNG")}}
	if err := blocks.Restore(block); err != nil {
		t.Fatal(err)
	}
	mark, _ := blocks.Refer(block.Handle)
	whole := string(block.JSON(`"H"`))
	for args, want := range map[string]string{
		`{"x":"H"}`:                     `{"x":"M"}`,
		`{"data":"H"}`:                  `{"data":"M"}`,
		`["H","a H, H"]`:                `["M","a M, M"]`,
		`{"x":` + whole + `,"y":"H"}`:   `{"x":` + whole + `,"y":"M"}`,
		whole:                           whole,
		`[` + whole + `,` + whole + `]`: `[` + whole + `,` + whole + `]`,
		strings.Replace(whole, `"size":4`, `"size":5`, 1):                               strings.NewReplacer(`"size":4`, `"size":5`, "H", "M").Replace(whole),
		strings.Replace(whole, `{`, `{"more":1,`, 1):                                    strings.NewReplacer(`{"type`, `{"more":1,"type`, "H", "M").Replace(whole),
		`{"data":"H","mimeType":"image/png","size":4,"type":"resource","uri":"a://{b"}`: "",
		`{"data":"H","mimeType":"image/png","size":4,"type":"resource","uri":"a://{b","z":"H"}`: `{"data":"M","mimeType":"image/png","size":4,` +
			`"type":"resource","uri":"a://{b","z":"M"}`,
		`{"H":1,"t":"{\"data\":\"H\"}"}`: "",
		`{"x":"oc1_b0","y":"oc1_b"}`:     "",
	} {
		if want == "" {
			want = args
		}
		in := strings.NewReplacer("H", block.Handle)
		if got := string(blocks.MarkHandles([]byte(in.Replace(args)))); got != strings.NewReplacer("H", block.Handle, "M", mark).Replace(want) {
			t.Errorf("%s becomes %s, want %s", args, got, want)
		}
	}
}
