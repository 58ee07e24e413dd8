package steps

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// NewBlock returns a block of these bytes, of the type that its media type says.
func NewBlock(mediaType string, data []byte) *Block {
	b := &Block{Type: "resource", MIME: mediaType, Bytes: data}
	if kind, _, _ := strings.Cut(mediaType, "/"); kind == "image" || kind == "audio" {
		b.Type = kind
	}
	return b
}

// Take returns the block whose bytes the argument name is, and the arguments with an empty text in its place; nil: it is anything else.
// Marks in other places become base64. It is for functions with Spec.TakesMarks.
func (b *Blocks) Take(args []byte, name string) (taken *Block, rest []byte) {
	if b.view() == nil {
		return nil, args
	}
	value := gjson.GetBytes(args, name)
	if taken = b.Marked(value.Str); taken == nil || value.Index == 0 {
		return nil, b.Expand(args)
	}
	rest = append(append(make([]byte, 0, len(args)), args[:value.Index+1]...), args[value.Index+len(value.Raw)-1:]...)
	return taken, b.Expand(rest)
}

var handles = regexp.MustCompile(BlockHandle + "[0-9]{" + strconv.Itoa(handleDigits) + "}")

// HandlesIn returns the texts in a JSON text that have the form of handles, each once.
func HandlesIn(text []byte) (list []string) {
	if !bytes.Contains(text, []byte(BlockHandle)) {
		return nil
	}
	seen := map[string]bool{}
	for _, handle := range handles.FindAll(text, -1) {
		if !seen[string(handle)] {
			seen[string(handle)] = true
			list = append(list, string(handle))
		}
	}
	return list
}
