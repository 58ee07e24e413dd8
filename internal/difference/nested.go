package difference

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// compareObjects compares objects member by member. It reports false if a JSON Pointer cannot tell their members apart.
func (c *comparison) compareObjects(earlier, now []byte, depth int) bool {
	before, plain := membersOf(earlier)
	after, alsoPlain := membersOf(now)
	if !plain || !alsoPlain {
		return false
	}
	for _, name := range before.names {
		c.inside(name, func() {
			if value := after.values[name]; value != nil {
				c.compare(before.values[name], value, depth)
			} else {
				c.add("remove", before.values[name], nil)
			}
		})
	}
	for _, name := range after.names {
		if before.values[name] == nil {
			c.inside(name, func() { c.add("add", nil, after.values[name]) })
		}
	}
	return true
}

// members are the members of an object.
type members struct {
	names  []string
	values map[string][]byte
}

// membersOf returns the members of an object. It reports false if it has a name twice, or one that is not plain.
func membersOf(object []byte) (m members, plain bool) {
	m.values = map[string][]byte{}
	for key, value := range rawjson.Members(object) {
		name := rawjson.Unquote(string(key))
		if !isPlain(name) || m.values[name] != nil {
			return m, false
		}
		m.names = append(m.names, name)
		m.values[name] = value
	}
	return m, true
}

// compareArrays compares the elements of arrays. Those that are equal are found as lines of a text are, since compact JSON has no line
// breaks.
func (c *comparison) compareArrays(earlier, now []byte, depth int) {
	before, after := elementsOf(earlier), elementsOf(now)
	var i, j, removed, added int // the next elements, and how many from there on differ
	settle := func() {
		c.compareRun(before[i:i+removed], after[j:j+added], j, depth)
		i, j, removed, added = i+removed, j+added, 0, 0
	}
	for line := range bytes.Lines(hunks(asLines(before), asLines(after))) {
		switch line[0] {
		case '-':
			removed++
		case '+':
			added++
		case ' ':
			settle()
			i, j = i+1, j+1
		default:
			settle()
			i, j = firstLines(line)
		}
	}
	settle()
}

// compareRun compares elements that differ, the first of which stands at this index of the new array. What stands before it is as in the
// new array already.
func (c *comparison) compareRun(before, after [][]byte, index, depth int) {
	pairs := min(len(before), len(after))
	for k := range pairs {
		c.inside(strconv.Itoa(index+k), func() { c.compare(before[k], after[k], depth) })
	}
	for _, element := range before[pairs:] {
		c.inside(strconv.Itoa(index+pairs), func() { c.add("remove", element, nil) })
	}
	for k := pairs; k < len(after); k++ {
		c.inside(strconv.Itoa(index+k), func() { c.add("add", nil, after[k]) })
	}
}

func elementsOf(array []byte) (list [][]byte) {
	for start, end := range rawjson.Elements(array) {
		list = append(list, array[start:end])
	}
	return list
}

// asLines writes each element on a line.
func asLines(list [][]byte) []byte {
	text := bytes.Join(list, []byte{'\n'})
	if len(list) > 0 {
		text = append(text, '\n')
	}
	return text
}

// hunks returns the unified diff of two texts without its header.
func hunks(earlier, now []byte) []byte {
	text := diff.Diff("", earlier, "", now)
	for range 3 {
		_, text, _ = bytes.Cut(text, []byte{'\n'})
	}
	return text
}

// firstLines returns where a hunk begins, from 0, by the line that opens it. A side without lines names the line before it.
func firstLines(line []byte) (i, j int) {
	var before, after int
	_, _ = fmt.Sscanf(string(line), "@@ -%d,%d +%d,%d", &i, &before, &j, &after)
	return i - min(before, 1), j - min(after, 1)
}
