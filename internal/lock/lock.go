// Package lock compares the functions of a configuration with those that a file remembers, onecall.lock: what has changed, and which chains
// break by it.
package lock

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// FileName is the name of the file, beside the configuration.
const FileName = "onecall.lock"

// MaxBytes bounds the file: 5,000 functions are some 10 MB.
const MaxBytes = 256 << 20

// version is that of the file's form.
const version = 1

// File is a lock.
type File struct {
	All       bool       // it names every function, not only those that chains and rules of approval name
	Functions []Function // sorted by name, each once
}

// Function is a function as a lock remembers it.
type Function struct {
	Name          string
	Effect        steps.Effect
	Description   string          // the digest of the description, and of the titles; "": there is none
	Input, Output json.RawMessage // the schemas, with sorted keys; nil: there is none
	Digest        string          // of all of these
}

// Of returns a function as a lock remembers it.
func Of(spec *steps.Spec) Function {
	f := Function{Name: spec.Name, Effect: spec.Effect, Input: sorted(spec.Input), Output: sorted(spec.Output)}
	words := spec.Description
	for _, path := range []string{"title", "annotations.title"} { // clients that see the tool itself show its titles
		if title := gjson.GetBytes(spec.Listing, path).Str; title != "" {
			words += "\x00" + title
		}
	}
	if words != "" {
		f.Description = digestOf([]byte(words))
	}
	f.Digest = f.digest()
	return f
}

// sorted returns a schema with sorted keys; nil for a text that is no JSON, which no call is checked with.
func sorted(schema []byte) json.RawMessage {
	if len(schema) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(schema))
	decoder.UseNumber() // numbers keep their spelling
	var value any
	if decoder.Decode(&value) != nil {
		return nil
	}
	text, err := rawjson.Marshal(value)
	if err != nil {
		return nil
	}
	return text
}

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (f *Function) digest() string {
	var b []byte
	for _, part := range [][]byte{[]byte(f.Name), []byte(f.Effect.String()), []byte(f.Description), f.Input, f.Output} {
		b = append(append(b, part...), 0)
	}
	return digestOf(b)
}

// Find returns the function with this name; nil: the lock does not name it.
func (l *File) Find(name string) *Function {
	i, found := slices.BinarySearchFunc(l.Functions, name, func(f Function, name string) int { return strings.Compare(f.Name, name) })
	if !found {
		return nil
	}
	return &l.Functions[i]
}

// Set adds or replaces a function.
func (l *File) Set(f Function) {
	i, found := slices.BinarySearchFunc(l.Functions, f.Name, func(f Function, name string) int { return strings.Compare(f.Name, name) })
	if found {
		l.Functions[i] = f
		return
	}
	l.Functions = slices.Insert(l.Functions, i, f)
}

// Remove removes the function with this name, if the lock names it.
func (l *File) Remove(name string) {
	l.Functions = slices.DeleteFunc(l.Functions, func(f Function) bool { return f.Name == name })
}

// Text returns the text of the file: JSON, the functions by name, each member of a schema on a line of its own.
func (l *File) Text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\n  \"version\": %d,\n  \"all\": %t,\n  \"functions\": {", version, l.All)
	for i := range l.Functions {
		f := &l.Functions[i]
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "\n    %s: {\n      \"digest\": %q,\n      \"effect\": %q", rawjson.AppendQuote(nil, f.Name), f.Digest, f.Effect)
		if f.Description != "" {
			fmt.Fprintf(&b, ",\n      \"description\": %q", f.Description)
		}
		for _, s := range []struct {
			key  string
			text []byte
		}{{"input", f.Input}, {"output", f.Output}} {
			if s.text != nil {
				fmt.Fprintf(&b, ",\n      %q: ", s.key)
				_ = json.Indent(&b, s.text, "      ", "  ") // it is JSON
			}
		}
		b.WriteString("\n    }")
	}
	if len(l.Functions) > 0 {
		b.WriteString("\n  ")
	}
	b.WriteString("}\n}\n")
	return b.Bytes()
}

// Parse reads the text of a file, whose name messages show. It fails with bad_request if the text is broken, of a newer version, or
// was edited, and says how to mend it.
func Parse(name string, text []byte) (*File, *fault.Error) {
	if !gjson.ValidBytes(text) {
		return nil, notJSON(name, text)
	}
	root := gjson.Parse(rawjson.View(text))
	switch number := root.Get("version"); {
	case number.Type != gjson.Number || number.Num < 1:
		return nil, fault.New(fault.BadRequest, "%s is no lock: it has no version. Remove it and run onecall lock", name)
	case number.Num > version:
		return nil, fault.New(fault.BadRequest, "%s has version %s, which a newer onecall has written, and this one knows version %d: use that "+
			"onecall, or remove the file and run onecall lock", name, number.Raw, version)
	}
	l := &File{}
	var f *fault.Error
	root.ForEach(func(key, value gjson.Result) bool {
		switch {
		case key.Str == "version":
		case key.Str == "all" && value.IsBool():
			l.All = value.Bool()
		case key.Str == "functions" && value.IsObject():
			value.ForEach(func(key, value gjson.Result) bool {
				f = l.parseFunction(name, text, key, value)
				return f == nil
			})
		default:
			f = fault.New(fault.BadRequest, "%s cannot be read: what is %s? Restore it, or remove it and run onecall lock", name,
				fault.Quote(key.Str))
			f.Line, f.Column = position(text, key.Index)
		}
		return f == nil
	})
	if f != nil {
		return nil, f
	}
	slices.SortFunc(l.Functions, func(a, b Function) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(l.Functions); i++ {
		if twice := l.Functions[i].Name; twice == l.Functions[i-1].Name {
			return nil, fault.New(fault.BadRequest, "%s names %s twice, as after a merge that kept both: remove one, or restore the file", name,
				fault.Quote(twice))
		}
	}
	return l, nil
}

// parseFunction adds one function of the file.
func (l *File) parseFunction(name string, text []byte, key, value gjson.Result) *fault.Error {
	f := Function{Name: key.String()}
	var digest string
	known := value.IsObject()
	var err error
	value.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "digest":
			digest = value.String()
		case "effect":
			f.Effect, err = steps.ParseEffect(value.String())
		case "description":
			f.Description = value.String()
		case "input":
			f.Input = rawjson.AppendCompact(nil, rawjson.Bytes(value.Raw))
		case "output":
			f.Output = rawjson.AppendCompact(nil, rawjson.Bytes(value.Raw))
		default:
			known = false
		}
		return known && err == nil
	})
	if f.Digest = f.digest(); !known || err != nil || f.Digest != digest {
		wrong := fault.New(fault.BadRequest, "what %s says of %s was changed by hand: its digest does not fit. Restore the file, or write it "+
			"again with onecall lock", name, fault.Quote(f.Name))
		wrong.Line, wrong.Column = position(text, key.Index)
		return wrong
	}
	l.Functions = append(l.Functions, f)
	return nil
}

// notJSON returns the fault of a text that is no JSON.
func notJSON(name string, text []byte) *fault.Error {
	var value json.RawMessage
	err := json.Unmarshal(text, &value)
	f := fault.New(fault.BadRequest, "%s cannot be read: %v. Restore it, or remove it and run onecall lock", name, err)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		f.Line, f.Column = position(text, int(syntax.Offset)-1)
	}
	return f
}

// position returns the line and column of an offset, from 1.
func position(text []byte, offset int) (line, column int) {
	before := text[:max(min(offset, len(text)), 0)]
	return 1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n')
}
