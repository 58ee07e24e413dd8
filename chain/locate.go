package chain

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// maxLocated bounds the bytes that are walked to find the positions of faults; those beyond have the position of a value around
// them.
const maxLocated = 64 << 20

// wanted is a fault whose position is looked for.
type wanted struct {
	fault  *fault.Error
	left   []string // of its JSON Pointer
	offset int      // of the nearest value around it
}

// Locate finds the lines and columns, in a chain's text, of faults that have none: of the values at their JSON Pointers (At), or of the
// nearest values around them that are there. Text that is no JSON gives none.
func Locate(text []byte, list []*fault.Error) {
	var all []*wanted
	for _, f := range list {
		if f.Line == 0 {
			all = append(all, &wanted{fault: f, left: pointerTokens(f.At)})
		}
	}
	if len(all) == 0 || !gjson.ValidBytes(text) {
		return
	}
	walked := 0
	descend(gjson.ParseBytes(text), all, &walked)
	slices.SortStableFunc(all, func(a, b *wanted) int { return cmp.Compare(a.offset, b.offset) })
	p := places{text: text}
	for _, w := range all {
		w.fault.Line, w.fault.Column = p.of(w.offset)
	}
}

// descend finds the offsets of what is wanted within a value.
func descend(value gjson.Result, all []*wanted, walked *int) {
	within := map[string][]*wanted{}
	for _, w := range all {
		w.offset = value.Index
		if len(w.left) > 0 {
			within[w.left[0]] = append(within[w.left[0]], w)
			w.left = w.left[1:]
		}
	}
	if *walked += len(value.Raw); len(within) == 0 || *walked > maxLocated {
		return
	}
	isArray, i := value.IsArray(), -1
	if !isArray && !value.IsObject() {
		return // of which gjson would give the value itself
	}
	value.ForEach(func(key, v gjson.Result) bool {
		name := key.Str
		if isArray {
			i++
			name = strconv.Itoa(i)
		}
		if inner := within[name]; inner != nil {
			delete(within, name) // of duplicates the first
			descend(v, inner, walked)
		}
		return len(within) > 0
	})
}

// places gives the lines and columns of offsets, which come in ascending order.
type places struct {
	text           []byte
	at             int
	lines, columns int // before at
}

func (p *places) of(offset int) (line, column int) {
	offset = min(max(offset, p.at), len(p.text))
	passed := p.text[p.at:offset]
	if last := bytes.LastIndexByte(passed, '\n'); last >= 0 {
		p.lines += bytes.Count(passed, []byte{'\n'})
		p.columns, passed = 0, passed[last+1:]
	}
	p.at, p.columns = offset, p.columns+utf8.RuneCount(passed)
	return p.lines + 1, p.columns + 1
}

// position gives the line and column, both from 1, of a byte offset; columns count characters.
func position(text []byte, offset int) (line, column int) {
	return (&places{text: text}).of(offset)
}
