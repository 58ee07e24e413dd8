package plan

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
)

// maxSearched bounds the bytes that are searched for the positions of faults; nested values count once per level. Past the limit, a fault
// gets the position of an enclosing value.
const maxSearched = 64 << 20

// faultTarget is a fault whose position is being looked for.
type faultTarget struct {
	fault     *fault.Error
	remaining []string // the tokens of its JSON Pointer that are still to be followed
	offset    int      // the offset of the innermost value found so far or, if atKey and remaining is empty, of its key
	atKey     bool     // the fault is about the key, not the value
}

// Locate sets the line and column of each fault in list that has none; text is the chain's text. The position is that of the value at the
// fault's JSON Pointer (At) or, if that does not exist, of the innermost enclosing value. A fault with the cause fault.ErrUnknownKey gets
// the position of its key. Locate does nothing if text is not JSON.
func Locate(text []byte, list []*fault.Error) {
	var targets []*faultTarget
	for _, f := range list {
		if f.Line == 0 {
			targets = append(targets, &faultTarget{fault: f, remaining: pointerTokens(f.At), atKey: errors.Is(f.Err, fault.ErrUnknownKey)})
		}
	}
	if len(targets) == 0 || !gjson.ValidBytes(text) {
		return
	}
	searched := 0
	descend(gjson.ParseBytes(text), 0, targets, &searched)
	slices.SortStableFunc(targets, func(a, b *faultTarget) int { return cmp.Compare(a.offset, b.offset) })
	counter := positionCounter{text: text}
	for _, target := range targets {
		target.fault.Line, target.fault.Column = counter.advance(target.offset)
	}
}

// descend sets the offsets of targets, whose remaining tokens start at value. keyOffset is the offset of the value's key or, for an array
// element, which has no key, of the value itself. descend adds the bytes that it searches to searched.
func descend(value gjson.Result, keyOffset int, targets []*faultTarget, searched *int) {
	byName := map[string][]*faultTarget{}
	for _, target := range targets {
		target.offset = value.Index
		if len(target.remaining) == 0 {
			if target.atKey {
				target.offset = keyOffset
			}
			continue
		}
		name := target.remaining[0]
		byName[name] = append(byName[name], target)
		target.remaining = target.remaining[1:]
	}
	*searched += len(value.Raw)
	if len(byName) == 0 || *searched > maxSearched {
		return
	}
	isArray, i := value.IsArray(), -1
	if !isArray && !value.IsObject() {
		return // ForEach would visit the value itself
	}
	value.ForEach(func(key, v gjson.Result) bool {
		name, keyOffset := key.Str, key.Index
		if isArray {
			i++
			name, keyOffset = strconv.Itoa(i), v.Index
		}
		if inner := byName[name]; inner != nil {
			delete(byName, name) // only the first of duplicate keys counts
			descend(v, keyOffset, inner, searched)
		}
		return len(byName) > 0
	})
}

// positionCounter converts offsets, in ascending order, to lines and columns.
type positionCounter struct {
	text           []byte
	offset         int // of the last position
	lines, columns int // line breaks before offset, and characters between the last of them and offset
}

// advance returns the line and column of an offset, both from 1. An offset before the last position counts as the last position.
func (p *positionCounter) advance(offset int) (line, column int) {
	offset = min(max(offset, p.offset), len(p.text))
	passed := p.text[p.offset:offset]
	if last := bytes.LastIndexByte(passed, '\n'); last >= 0 {
		p.lines += bytes.Count(passed, []byte{'\n'})
		p.columns, passed = 0, passed[last+1:]
	}
	p.offset, p.columns = offset, p.columns+utf8.RuneCount(passed)
	return p.lines + 1, p.columns + 1
}

// position returns the line and column of a byte offset, both from 1. Columns count characters.
func position(text []byte, offset int) (line, column int) {
	return (&positionCounter{text: text}).advance(offset)
}

// pointerTokens splits a JSON Pointer into its unescaped tokens.
func pointerTokens(at string) []string {
	if at == "" {
		return nil
	}
	tokens := strings.Split(at[1:], "/")
	for i, token := range tokens {
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
	}
	return tokens
}
