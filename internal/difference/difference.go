// Package difference tells how one JSON value became another: as a unified diff of texts, or as a JSON Patch (RFC 6902) of other values.
// It works on raw bytes, so what a patch sets keeps its spelling.
package difference

import (
	"bytes"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// MaxBytes is the size of the larger value above which Between does not compare.
const MaxBytes = 256 << 10

// maxDepth is the nesting below which values are compared as a whole, since each level reads all that is in it again.
const maxDepth = 32

// maxTexts is how many changes a unified diff may tell.
const maxTexts = 20

// Between compares two values, which are compact, valid JSON. They are the same if they differ at most in the order of keys and in
// how strings are escaped. Otherwise ways has what says the difference in fewer bytes than the new value, each of it JSON:
//
//   - a JSON Patch, unless the values are texts;
//   - a string with a unified diff, where only texts and other scalars have changed, and among them a text of several lines. Of values
//     that are not texts themselves, each changed member has a part of its own, with its JSON Pointer in the place of the file's name. A
//     number, boolean or null counts as one line.
func Between(earlier, now []byte) (ways [][]byte, same bool) {
	if bytes.Equal(earlier, now) {
		return nil, true
	}
	if max(len(earlier), len(now)) > MaxBytes {
		return nil, false
	}
	c := &comparison{limit: len(now)}
	c.compare(earlier, now, 0)
	if len(c.changes) == 0 {
		return nil, true
	}
	if len(c.patch) < c.limit && c.changes[0].at != "" {
		ways = append(ways, append(c.patch, ']'))
	}
	if text := c.unified(); text != nil && len(text) < c.limit {
		ways = append(ways, rawjson.AppendQuote(nil, text))
	}
	return ways, false
}

// comparison is the work of one Between.
type comparison struct {
	path    []byte // the JSON Pointer of what is being compared
	patch   []byte // the operations, without the closing bracket
	changes []change
	limit   int // the bytes from which on a difference is of no use
}

// change is one operation of the patch.
type change struct {
	at           string
	earlier, now []byte // nil: there is none
}

// isUseless reports whether neither a patch nor a unified diff can be the result. A patch that is too long may hold texts of which only a
// line has changed.
func (c *comparison) isUseless() bool { return len(c.patch) >= c.limit && len(c.changes) > maxTexts }

// compare adds the operations that make now of earlier.
func (c *comparison) compare(earlier, now []byte, depth int) {
	if bytes.Equal(earlier, now) || c.isUseless() {
		return
	}
	if depth < maxDepth {
		switch {
		case isText(earlier) && isText(now) && sameText(earlier, now):
			return
		case earlier[0] == '{' && now[0] == '{' && c.compareObjects(earlier, now, depth+1):
			return
		case earlier[0] == '[' && now[0] == '[':
			c.compareArrays(earlier, now, depth+1)
			return
		}
	}
	c.add("replace", earlier, now)
}

// add adds an operation at the path; now is nil if it has no value.
func (c *comparison) add(op string, earlier, now []byte) {
	c.changes = append(c.changes, change{string(c.path), earlier, now})
	if len(c.patch) >= c.limit {
		return
	}
	w := &rawjson.Writer{B: append(c.patch, '[')}
	if len(c.patch) > 0 {
		w.B[len(w.B)-1] = ','
	}
	w.B = append(w.B, '{')
	w.Text("op", op)
	w.Text("path", string(c.path))
	if now != nil {
		w.Raw("value", now)
	}
	w.Close('}')
	c.patch = w.B
}

// inside calls do with the path of a member or an element.
func (c *comparison) inside(name string, do func()) {
	n := len(c.path)
	c.path = append(c.path, '/')
	for i := range len(name) {
		switch name[i] {
		case '~':
			c.path = append(c.path, "~0"...)
		case '/':
			c.path = append(c.path, "~1"...)
		default:
			c.path = append(c.path, name[i])
		}
	}
	do()
	c.path = c.path[:n]
}
