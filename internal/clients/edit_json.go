package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// jsonEditor edits JSON with comments and trailing commas.
type jsonEditor struct{}

// jsonFile is a text with a syntax tree that preserves every unchanged byte.
type jsonFile struct {
	root hujson.Value
	unit string // indentation of one level; "": the text is one line
}

func openJSON(text string) (*jsonFile, error) {
	if strings.TrimSpace(text) == "" {
		text = "{\n}\n"
	}
	root, err := hujson.Parse([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("it is not JSON")
	}
	object, ok := root.Value.(*hujson.Object)
	if !ok {
		return nil, fmt.Errorf("it is not an object")
	}
	f := &jsonFile{root, "  "}
	switch {
	case !strings.Contains(strings.TrimSpace(text), "\n"):
		f.unit = ""
	case len(object.Members) > 0:
		if _, indent := cutLastLine(object.Members[0].Name.BeforeExtra); indent != "" {
			f.unit = indent
		}
	}
	return f, nil
}

// cutLastLine splits what precedes a value at the last line break. line is the white space before the value on its own line.
func cutLastLine(extra hujson.Extra) (before, line string) {
	i := bytes.LastIndexByte(extra, '\n')
	if i < 0 {
		return string(extra), ""
	}
	return string(extra[:i]), string(extra[i+1:])
}

// line returns the line break and the indentation before a member at a depth; "": the text is one line.
func (f *jsonFile) line(depth int) string {
	if f.unit == "" {
		return ""
	}
	return "\n" + strings.Repeat(f.unit, depth)
}

// object returns the object at a path, creating it if create is set.
func (f *jsonFile) object(path []string, create bool) (*hujson.Object, error) {
	object := f.root.Value.(*hujson.Object)
	for depth, key := range path {
		i := memberOf(object, key)
		if i < 0 && create {
			member := hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(key)}, Value: hujson.Value{Value: &hujson.Object{}}}
			if f.unit != "" {
				member.Value.BeforeExtra = hujson.Extra(" ")
			}
			f.append(object, depth+1, member)
			i = len(object.Members) - 1
		}
		if i < 0 {
			return nil, fmt.Errorf("it has no %s", key)
		}
		inner, ok := object.Members[i].Value.Value.(*hujson.Object)
		if !ok {
			return nil, fmt.Errorf("%s is not an object", key)
		}
		object = inner
	}
	return object, nil
}

// memberOf returns the index of a member, the last one if the key is duplicated; -1: none.
func memberOf(object *hujson.Object, key string) int {
	for i := len(object.Members) - 1; i >= 0; i-- {
		if name, ok := object.Members[i].Name.Value.(hujson.Literal); ok && name.String() == key {
			return i
		}
	}
	return -1
}

// append adds a member on a line of its own, before comments at the closing brace.
func (f *jsonFile) append(object *hujson.Object, depth int, member hujson.ObjectMember) {
	trailing := false // whether a comma follows the last member: hujson writes one if that member's AfterExtra is not nil
	if n := len(object.Members); n > 0 {
		trailing = object.Members[n-1].Value.AfterExtra != nil
	}
	comments := strings.TrimRight(string(object.AfterExtra), " \t\n")
	if comments != "" && f.unit == "" {
		comments += "\n"
	}
	member.Name.BeforeExtra = hujson.Extra(comments + f.line(depth) + strings.TrimLeft(string(member.Name.BeforeExtra), " \t\n"))
	member.Value.AfterExtra = nil
	if trailing {
		member.Value.AfterExtra = hujson.Extra{}
	}
	object.AfterExtra = hujson.Extra(f.line(depth - 1))
	object.Members = append(object.Members, member)
}

func (jsonEditor) remove(text string, path []string, name string) (string, entry, error) {
	f, err := openJSON(text)
	if err != nil {
		return "", entry{}, err
	}
	object, err := f.object(path, false)
	if err != nil {
		return "", entry{}, err
	}
	i := memberOf(object, name)
	if i < 0 {
		return "", entry{}, fmt.Errorf("it has no %s", name)
	}
	member := object.Members[i]
	head, lead := cutFirstLine(string(member.Name.BeforeExtra))
	object.Members = append(object.Members[:i:i], object.Members[i+1:]...)
	switch {
	case i < len(object.Members):
		next := &object.Members[i].Name
		next.BeforeExtra = joinLines(head, next.BeforeExtra)
	default:
		object.AfterExtra = joinLines(head, object.AfterExtra)
		if i > 0 && member.Value.AfterExtra == nil {
			last := &object.Members[i-1].Value
			object.AfterExtra = joinLines(strings.TrimRight(string(last.AfterExtra), " \t\n"), object.AfterExtra)
			last.AfterExtra = nil
		}
	}
	member.Name.BeforeExtra = hujson.Extra(strings.TrimLeft(lead, " \t\n"))
	member.Value.AfterExtra = nil
	alone := hujson.Value{Value: &hujson.Object{Members: []hujson.ObjectMember{member}}}
	packed := alone.Pack() // in braces, which are cut off
	return string(f.root.Pack()), entry{name, string(packed[1 : len(packed)-1])}, nil
}

// cutFirstLine splits what precedes a member into the comment on the previous member's line, and the rest.
func cutFirstLine(extra string) (head, rest string) {
	line, rest, ok := strings.Cut(extra, "\n")
	if !ok || strings.TrimSpace(line) == "" {
		return "", extra
	}
	return line, "\n" + rest
}

// joinLines puts a comment before what follows it.
func joinLines(comment string, extra hujson.Extra) hujson.Extra {
	if comment != "" && !bytes.Contains(extra, []byte{'\n'}) {
		comment += "\n"
	}
	return hujson.Extra(comment + string(extra))
}

func (jsonEditor) insert(text string, path []string, one entry) (string, error) {
	f, err := openJSON(text)
	if err != nil {
		return "", err
	}
	object, err := f.object(path, true)
	if err != nil {
		return "", err
	}
	alone, err := hujson.Parse([]byte("{" + one.Text + "\n}"))
	if err != nil {
		return "", errLayout
	}
	members := alone.Value.(*hujson.Object).Members
	if len(members) != 1 {
		return "", errLayout
	}
	f.append(object, len(path)+1, members[0])
	return string(f.root.Pack()), nil
}

func (jsonEditor) render(text string, path []string, name string, fields []field) entry {
	f, err := openJSON(text)
	if err != nil {
		f = &jsonFile{unit: "  "}
	}
	member, colon := objectField(name, fields), ":"
	var b bytes.Buffer
	b.Write(member.value)
	if f.unit != "" {
		colon = ": "
		b.Reset()
		_ = json.Indent(&b, member.value, strings.Repeat(f.unit, len(path)+1), f.unit) // never fails, as the fields are JSON
	}
	return entry{name, string(rawjson.AppendQuote(nil, name)) + colon + b.String()}
}
