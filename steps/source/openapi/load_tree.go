package openapi

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// tree is a parsed JSON text. It keeps the bytes, and so the order of members and the spelling of numbers. The nodes are in the
// order of the text, each before its contents: a document of 13 MB needs only 20 MB more, in two slices. One goroutine uses it.
type tree struct {
	text       []byte
	nodes      []node
	large      map[int32]map[string]int32 // members of large objects by name, indexed at the first lookup
	base       string                     // the reference to this file; "": the document itself
	duplicates []string                   // duplicate keys: the last one counts
}

// node is one value of a tree.
type node struct {
	start, end  int32         // its bytes
	key, keyEnd int32         // its name, including quotes; both 0 for elements and the root
	next        int32         // the first node after it and its contents
	kind        jsontext.Kind // 0: a dropped duplicate of a later member
}

// Bounds of a document: its bytes and its values. Objects of more than fewMembers members get an index.
const maxDocumentBytes, maxValues, fewMembers = 64 << 20, 5_000_000, 24

// parseTree parses JSON. It accepts duplicate keys, as most readers do; the last one counts. It fails with bad_request,
// with Line and Column, if the text is not JSON, and limit_exceeded if it is too large.
func parseTree(text []byte) (*tree, error) {
	if len(text) > maxDocumentBytes {
		return nil, documentTooLarge(len(text))
	}
	if text = bytes.TrimPrefix(text, []byte("\ufeff")); !utf8.Valid(text) {
		text = bytes.ToValidUTF8(text, []byte("\ufffd"))
	}
	t := &tree{text: text, nodes: make([]node, 0, len(text)/24+1), large: map[int32]map[string]int32{}}
	decoder := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true))
	if err := t.read(decoder); err != nil {
		return nil, t.fault(err)
	}
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		f := fault.New(fault.BadRequest, "the document is not JSON: text follows its end")
		f.Line, f.Column = t.lineColumn(decoder.InputOffset())
		return nil, f
	}
	return t, nil
}

func documentTooLarge(size int) *fault.Error {
	return fault.New(fault.LimitExceeded, "the document has %d bytes, and %d are read at most: leave out the paths that are not needed",
		size, maxDocumentBytes)
}

var errTooManyValues = fault.New(fault.LimitExceeded, "the document holds more than %d values: leave out the paths that are not needed",
	maxValues)

// read fills the nodes. It does not recurse, because documents may be deeply nested.
func (t *tree) read(decoder *jsontext.Decoder) error {
	var open []int32
	var key, keyEnd int32
	for {
		kind := decoder.PeekKind()
		if kind == '}' || kind == ']' {
			if _, err := decoder.ReadToken(); err != nil {
				return err
			}
			last := open[len(open)-1]
			open = open[:len(open)-1]
			t.nodes[last].end, t.nodes[last].next = int32(decoder.InputOffset()), int32(len(t.nodes))
			if kind == '}' {
				t.dropDuplicates(last)
			}
		} else {
			n := node{key: key, keyEnd: keyEnd, kind: kind}
			var err error
			if n.start, n.end, err = span(decoder, kind); err != nil {
				return err
			}
			inObject := len(open) > 0 && t.nodes[open[len(open)-1]].kind == '{'
			if inObject && keyEnd == 0 { // this value is a name; the value of the member follows
				key, keyEnd = n.start, n.end
				continue
			}
			key, keyEnd = 0, 0
			if len(t.nodes) == maxValues {
				return errTooManyValues
			}
			n.next = int32(len(t.nodes)) + 1
			t.nodes = append(t.nodes, n)
			if kind == '{' || kind == '[' {
				open = append(open, int32(len(t.nodes)-1))
			}
		}
		if len(open) == 0 {
			return nil
		}
	}
}

// span reads a scalar, or the start of an object or array, and returns its position.
func span(decoder *jsontext.Decoder, kind jsontext.Kind) (start, end int32, err error) {
	if kind == '{' || kind == '[' {
		_, err = decoder.ReadToken()
		end = int32(decoder.InputOffset())
		return end - 1, end, err
	}
	raw, err := decoder.ReadValue()
	end = int32(decoder.InputOffset())
	return end - int32(len(raw)), end, err
}

// dropDuplicates drops all but the last of an object's members with equal keys.
func (t *tree) dropDuplicates(object int32) {
	count, last := 0, t.nodes[object].next
	for i := object + 1; i < last; i = t.nodes[i].next {
		count++
	}
	if count < 2 {
		return
	}
	if count <= fewMembers {
		for i := object + 1; i < last; i = t.nodes[i].next {
			for j := t.nodes[i].next; j < last; j = t.nodes[j].next {
				if t.nodes[i].kind != 0 && bytes.Equal(t.keyOf(i), t.keyOf(j)) {
					t.drop(i)
				}
			}
		}
		return
	}
	seen := make(map[string]int32, count)
	for i := object + 1; i < last; i = t.nodes[i].next {
		name := string(t.keyOf(i))
		if former, twice := seen[name]; twice {
			t.drop(former)
		}
		seen[name] = i
	}
}

func (t *tree) drop(i int32) {
	t.nodes[i].kind = 0
	const maxDuplicates = 5
	if len(t.duplicates) < maxDuplicates {
		line, _ := t.lineColumn(int64(t.nodes[i].key))
		t.duplicates = append(t.duplicates, fault.Short(string(t.keyOf(i)))+" in line "+strconv.Itoa(line))
	}
}

func (t *tree) keyOf(i int32) []byte { return t.text[t.nodes[i].key:t.nodes[i].keyEnd] }

// lineColumn returns line and column, from 1, of an offset.
func (t *tree) lineColumn(offset int64) (line, column int) {
	before := t.text[:min(max(offset, 0), int64(len(t.text)))]
	return 1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
}

func (t *tree) fault(err error) error {
	if f, ok := fault.As(err); ok {
		return f
	}
	f := fault.New(fault.BadRequest, "the document is not JSON")
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		f.Line, f.Column = t.lineColumn(syntax.ByteOffset)
		f.Message += ": " + strings.TrimPrefix(syntax.Err.Error(), "jsontext: ")
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		f.Message = "the document is not JSON: it ends too early: a bracket, a brace or a quote is missing"
	}
	f.Err = err
	return f
}

// value is a node of a tree. The zero value is no node; all methods accept it.
type value struct {
	t  *tree
	at int32
}

func (t *tree) root() value { return value{t, 0} }

func (v value) ok() bool { return v.t != nil }

// kind returns one of { [ " 0 t f n, as in jsontext; 0 for no node.
func (v value) kind() jsontext.Kind {
	if v.t == nil {
		return 0
	}
	return v.t.nodes[v.at].kind
}

func (v value) isObject() bool { return v.kind() == '{' }
func (v value) isTrue() bool   { return v.kind() == 't' }

// raw returns the text of a scalar; of other values, the bytes as written, including blanks.
func (v value) raw() []byte {
	if v.t == nil {
		return nil
	}
	n := &v.t.nodes[v.at]
	return v.t.text[n.start:n.end]
}

// key returns the name of a member; "" for an element or the root.
func (v value) key() string {
	if quoted := v.t.keyOf(v.at); len(quoted) > 0 {
		return rawjson.Unquote(string(quoted))
	}
	return ""
}

// text returns a string's text, "" for other values.
func (v value) text() string {
	if v.kind() != '"' {
		return ""
	}
	return rawjson.Unquote(string(v.raw()))
}

// members yields an object's members in the order written; none for other values.
func (v value) members() iter.Seq2[string, value] {
	return func(yield func(string, value) bool) {
		if !v.isObject() {
			return
		}
		for i := v.at + 1; i < v.t.nodes[v.at].next; i = v.t.nodes[i].next {
			if v.t.nodes[i].kind != 0 && !yield(rawjson.Unquote(string(v.t.keyOf(i))), value{v.t, i}) {
				return
			}
		}
	}
}

// elements yields an array's elements; none for other values.
func (v value) elements() iter.Seq2[int, value] {
	return func(yield func(int, value) bool) {
		if v.kind() != '[' {
			return
		}
		position := 0
		for i := v.at + 1; i < v.t.nodes[v.at].next; i = v.t.nodes[i].next {
			if !yield(position, value{v.t, i}) {
				return
			}
			position++
		}
	}
}

// get returns the member with that name; no node if there is none.
func (v value) get(name string) value {
	if !v.isObject() {
		return value{}
	}
	t := v.t
	if names, ok := t.large[v.at]; ok {
		if i, ok := names[name]; ok {
			return value{t, i}
		}
		return value{}
	}
	count := 0
	for i := v.at + 1; i < t.nodes[v.at].next; i = t.nodes[i].next {
		if t.nodes[i].kind != 0 && sameKey(t.keyOf(i), name) {
			return value{t, i}
		}
		if count++; count > fewMembers {
			t.large[v.at] = t.namesOf(v)
			return v.get(name)
		}
	}
	return value{}
}

func (t *tree) namesOf(v value) map[string]int32 {
	names := map[string]int32{}
	for name, member := range v.members() {
		names[name] = member.at
	}
	return names
}

func sameKey(quoted []byte, name string) bool {
	if bytes.IndexByte(quoted, '\\') >= 0 {
		return rawjson.Unquote(string(quoted)) == name
	}
	return string(quoted[1:len(quoted)-1]) == name
}

// pointer follows the fragment of a reference: a JSON Pointer (RFC 6901), percent-encoded. A part of it with invalid percent-encoding, or
// whose decoded name does not exist, is used as written. It returns no node if there is no target.
func (v value) pointer(fragment string) value {
	if fragment == "" {
		return v
	}
	for token := range strings.SplitSeq(strings.TrimPrefix(fragment, "/"), "/") {
		v = v.child(token)
	}
	return v
}

var pointerEscapes = strings.NewReplacer("~1", "/", "~0", "~")

func (v value) child(token string) value {
	plain := token
	if decoded, err := url.PathUnescape(token); err == nil {
		plain = decoded
	}
	plain = pointerEscapes.Replace(plain)
	if v.kind() == '[' {
		n, err := strconv.Atoi(plain)
		for i, element := range v.elements() {
			if err == nil && i == n {
				return element
			}
		}
		return value{}
	}
	if member := v.get(plain); member.ok() || plain == token {
		return member
	}
	return v.get(pointerEscapes.Replace(token))
}

// appendCompact appends the value without blanks between its tokens.
func (v value) appendCompact(out []byte) []byte {
	switch v.kind() {
	case '{':
		out = append(out, '{')
		first := true
		for i := v.at + 1; i < v.t.nodes[v.at].next; i = v.t.nodes[i].next {
			if v.t.nodes[i].kind == 0 {
				continue
			}
			if !first {
				out = append(out, ',')
			}
			first = false
			out = append(append(out, v.t.keyOf(i)...), ':')
			out = value{v.t, i}.appendCompact(out)
		}
		return append(out, '}')
	case '[':
		out = append(out, '[')
		for i, element := range v.elements() {
			if i > 0 {
				out = append(out, ',')
			}
			out = element.appendCompact(out)
		}
		return append(out, ']')
	}
	return append(out, v.raw()...)
}
