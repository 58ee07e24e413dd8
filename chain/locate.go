package chain

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// maxLocated bounds the bytes that are searched for the positions of faults. Later faults get the position of a value around them.
const maxLocated = 64 << 20

// faultTarget is a fault whose position is being looked for.
type faultTarget struct {
	fault     *fault.Error
	remaining []string // of its JSON Pointer
	offset    int      // of its key if the fault is about that, otherwise of the nearest value around it
	ofKey     bool
}

// Locate sets the lines and columns of faults that have none, in a chain's text: of the values at their JSON Pointers (At), or of the
// nearest existing values around them. A fault with the cause fault.ErrUnknownKey gets the position of the key. It does nothing if text is
// not JSON.
func Locate(text []byte, list []*fault.Error) {
	var all []*faultTarget
	for _, f := range list {
		if f.Line == 0 {
			all = append(all, &faultTarget{fault: f, remaining: pointerTokens(f.At), ofKey: errors.Is(f.Err, fault.ErrUnknownKey)})
		}
	}
	if len(all) == 0 || !gjson.ValidBytes(text) {
		return
	}
	walked := 0
	descend(gjson.ParseBytes(text), 0, all, &walked)
	slices.SortStableFunc(all, func(a, b *faultTarget) int { return cmp.Compare(a.offset, b.offset) })
	p := positionCounter{text: text}
	for _, w := range all {
		w.fault.Line, w.fault.Column = p.advance(w.offset)
	}
}

// descend finds the offsets of targets within a value, whose key is at keyOffset.
func descend(value gjson.Result, keyOffset int, all []*faultTarget, walked *int) {
	byName := map[string][]*faultTarget{}
	for _, w := range all {
		w.offset = value.Index
		if w.ofKey && len(w.remaining) == 0 {
			w.offset = keyOffset
		}
		if len(w.remaining) > 0 {
			byName[w.remaining[0]] = append(byName[w.remaining[0]], w)
			w.remaining = w.remaining[1:]
		}
	}
	if *walked += len(value.Raw); len(byName) == 0 || *walked > maxLocated {
		return
	}
	isArray, i := value.IsArray(), -1
	if !isArray && !value.IsObject() {
		return // gjson would pass the value itself
	}
	value.ForEach(func(key, v gjson.Result) bool {
		name, keyOffset := key.Str, key.Index
		if isArray {
			i++
			name, keyOffset = strconv.Itoa(i), v.Index
		}
		if inner := byName[name]; inner != nil {
			delete(byName, name) // the first of duplicate keys
			descend(v, keyOffset, inner, walked)
		}
		return len(byName) > 0
	})
}

// positionCounter converts offsets, in ascending order, to lines and columns.
type positionCounter struct {
	text           []byte
	at             int
	lines, columns int // before at
}

func (p *positionCounter) advance(offset int) (line, column int) {
	offset = min(max(offset, p.at), len(p.text))
	passed := p.text[p.at:offset]
	if last := bytes.LastIndexByte(passed, '\n'); last >= 0 {
		p.lines += bytes.Count(passed, []byte{'\n'})
		p.columns, passed = 0, passed[last+1:]
	}
	p.at, p.columns = offset, p.columns+utf8.RuneCount(passed)
	return p.lines + 1, p.columns + 1
}

// position returns the line and column of a byte offset, both from 1. Columns count characters.
func position(text []byte, offset int) (line, column int) {
	return (&positionCounter{text: text}).advance(offset)
}
