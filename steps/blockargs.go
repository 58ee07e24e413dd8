package steps

import (
	"bytes"

	"github.com/tidwall/gjson"
)

// dataMember is what stands before the handle of a block in its object.
const dataMember = `"data":"`

// MarkHandles returns compact arguments with marks in place of the handles of the run, as a reference to data writes them: a function can
// do nothing with a handle. It stays in a block that is passed whole, in the name of a member, and in JSON within a text. If nothing
// changes, it returns args itself.
func (b *Blocks) MarkHandles(args []byte) []byte {
	marked := args
	b.eachHandle(args, func(at, length int, block *KeptBlock) {
		before, after := args[:at], args[at+length:]
		isName := bytes.HasSuffix(before, []byte{'"'}) && bytes.HasPrefix(after, []byte(`":`))
		if isName || bytes.HasSuffix(before, []byte(`\"`)) || block.StandsAt(args, at, block.Handle) {
			return
		}
		if &marked[0] == &args[0] {
			marked = bytes.Clone(args)
		}
		mark, _ := b.Refer(block.Handle)
		copy(marked[at:], mark) // has the length of a handle
	})
	return marked
}

// StandsAt reports whether the text at of a compact JSON text, which is data without its quotes, is the data of this block's object.
func (b *Block) StandsAt(text []byte, at int, data string) bool {
	if !bytes.HasSuffix(text[:at], []byte(dataMember)) || !bytes.HasPrefix(text[at:], []byte(data+`"`)) {
		return false
	}
	whole := b.JSON(`"` + data + `"`)
	end := at + len(data) + len(`"}`)
	if end <= len(text) && bytes.HasSuffix(text[:end], whole) {
		return true
	}
	for from := max(0, end-len(whole)); from < at && from+len(whole) <= len(text); from++ {
		if object := text[from : from+len(whole)]; object[0] == '{' && object[len(object)-1] == '}' && b.Is(gjson.ParseBytes(object), data) {
			return true
		}
	}
	return false
}

// Is reports whether a JSON value is the block's object with these data, and nothing else. An expression may have changed the order of its
// members.
func (b *Block) Is(value gjson.Result, data string) bool {
	if !value.IsObject() || value.Get("data").Str != data {
		return false
	}
	same := true
	whole := gjson.ParseBytes(b.JSON(`"` + data + `"`)).Map()
	value.ForEach(func(name, member gjson.Result) bool {
		same = same && whole[name.Str].Raw == member.Raw
		delete(whole, name.Str)
		return same
	})
	return same && len(whole) == 0
}
