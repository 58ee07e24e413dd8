package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"io/fs"
	"strconv"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

type writeArgs struct {
	Path       string
	Text, Data *string
	Mode       string
	IfMatch    *string
	Undo       string

	block *steps.Block // what data refers to; nil: it is base64
}

// callWrite is the raw call of fs.write.
func (s *Source) callWrite(ctx context.Context, args []byte) ([]byte, error) {
	block, args := steps.CallbacksOf(ctx).Blocks.Take(args, "data")
	return call(s.write, writeArgs{block: block})(ctx, args)
}

type writeResult struct {
	Path    string `json:"path"`
	Size    int    `json:"size"`
	Digest  string `json:"digest"`
	Created bool   `json:"created,omitempty"`
}

// noUndo is the value of Undo with which nothing is kept.
const noUndo, insteadNoUndo = "none", `with undo: "none" it is changed without one`

func (s *Source) write(ctx context.Context, a writeArgs) (*writeResult, error) {
	content, mode, err := a.decode(s.maxKeptBytes)
	if err != nil {
		return nil, err
	}
	p, err := s.placeOf("path", a.Path)
	if err != nil {
		return nil, err
	}
	c := &change{place: p, ifMatch: a.IfMatch, content: a.Undo != noUndo, instead: insteadNoUndo}
	before, end, err := s.begin(ctx, c)
	if err != nil {
		return nil, err
	}
	defer end()
	digest := digestOfBytes(content)
	if a.Undo != noUndo {
		err = c.undoReplace(ctx, &before, digest)
	}
	if err == nil {
		err = c.replace(ctx, &before, content, mode)
	}
	if err != nil {
		return nil, err
	}
	return &writeResult{Path: p.rel, Size: len(content), Digest: digest, Created: before.info == nil}, nil
}

// decode returns the content and the mode; 0: none is given.
func (a *writeArgs) decode(maxBytes int64) ([]byte, fs.FileMode, error) {
	var content []byte
	switch {
	case (a.Text == nil) == (a.Data == nil):
		return nil, 0, fault.New(fault.BadArguments, "give one of text and data")
	case a.Text != nil:
		content = []byte(*a.Text)
	case a.block != nil:
		content = a.block.Bytes
	default:
		var err error
		if content, err = base64.StdEncoding.DecodeString(*a.Data); err != nil {
			f := badArgument("data", "data is not base64: give plain text as text")
			if strings.HasPrefix(*a.Data, steps.BlockHandle) {
				f = badArgument("data", "data is the handle of a block, not its bytes: refer to the data of a step's result, as in $0.data; "+
					"result.get with this token as its token gives a step such a result")
			}
			f.Err = err
			return nil, 0, f
		}
	}
	if int64(len(content)) > maxBytes {
		return nil, 0, fault.New(fault.LimitExceeded, "the content has %d bytes: at most %d are written at once", len(content), maxBytes)
	}
	if a.Mode == "" {
		return content, 0, nil
	}
	mode, err := strconv.ParseUint(a.Mode, 8, 9)
	if err != nil || len(a.Mode) != 3 {
		return nil, 0, badArgument("mode", "mode is three octal digits, such as 755")
	}
	return content, fs.FileMode(mode), nil
}

func digestOfBytes(content []byte) string {
	digest := sha256.New()
	digest.Write(content)
	return digestText(digest)
}

type editArgs struct {
	Path, Old, New string
	Count          integer
	IfMatch        *string
}

type editResult struct {
	Path   string `json:"path"`
	Size   int    `json:"size"`
	Digest string `json:"digest"`
	Line   int    `json:"line"` // of the first replacement
}

func (s *Source) edit(ctx context.Context, a editArgs) (*editResult, error) {
	if a.Old == "" || a.Count < 1 {
		return nil, fault.New(fault.BadArguments, "old is the text to replace, and count, at least 1, how often it occurs")
	}
	p, err := s.placeOf("path", a.Path)
	if err != nil {
		return nil, err
	}
	c := &change{place: p, ifMatch: a.IfMatch, content: true, instead: "read and write such a file by another program"}
	before, end, err := s.begin(ctx, c)
	if err != nil {
		return nil, err
	}
	defer end()
	if before.info == nil {
		return nil, s.missing(p)
	}
	content, line, err := c.replaceText(&before, &a, s.maxKeptBytes)
	if err != nil {
		return nil, err
	}
	digest := digestOfBytes(content)
	if err := c.undoReplace(ctx, &before, digest); err != nil {
		return nil, err
	}
	if err := c.replace(ctx, &before, content, 0); err != nil {
		return nil, err
	}
	return &editResult{Path: p.rel, Size: len(content), Digest: digest, Line: line}, nil
}

// replaceText returns the content after an edit, and the line of its first replacement.
func (c *change) replaceText(before *version, a *editArgs, maxBytes int64) ([]byte, int, error) {
	old, found := []byte(a.Old), bytes.Count(before.content, []byte(a.Old))
	wrong := func(format string, args ...any) ([]byte, int, error) {
		f := c.fault(fault.FunctionFailed, format, args...)
		f.At = "/old"
		return nil, 0, f
	}
	switch {
	case encodingOf(before.content) != "":
		return nil, 0, c.fault(fault.FunctionFailed, "%q is UTF-16, which is not edited: write it whole, as data", fault.Short(c.rel))
	case found == 0 && strings.Contains(a.Old, "\n") && bytes.Contains(before.content, bytes.ReplaceAll(old, []byte("\n"), []byte("\r\n"))):
		return wrong(`old does not occur in %q, whose lines end in \r\n: write them so`, fault.Short(c.rel))
	case found == 0:
		return wrong("old does not occur in %q: it must be the exact text, with all white space; read the file again", fault.Short(c.rel))
	case found != int(a.Count):
		return wrong("old occurs %d times in %q, first in the lines %s, and count is %d: take in more of the text around it, or set count",
			found, fault.Short(c.rel), linesOf(before.content, old), a.Count)
	}
	if size := int64(len(before.content)) + int64(found)*int64(len(a.New)-len(a.Old)); size > maxBytes {
		return nil, 0, c.fault(fault.LimitExceeded, "%q would have %d bytes: at most %d are written at once", fault.Short(c.rel), size, maxBytes)
	}
	first, _, _ := bytes.Cut(before.content, old)
	line := 1 + bytes.Count(first, []byte("\n"))
	return bytes.ReplaceAll(before.content, old, []byte(a.New)), line, nil
}

// linesOf returns the numbers of the first lines in which a text occurs.
func linesOf(content, text []byte) string {
	const most = 5
	var numbers []string
	for line := 1; len(numbers) < most; {
		i := bytes.Index(content, text)
		if i < 0 {
			break
		}
		line += bytes.Count(content[:i], []byte("\n"))
		numbers = append(numbers, strconv.Itoa(line))
		line += bytes.Count(text, []byte("\n"))
		content = content[i+len(text):]
	}
	return strings.Join(numbers, ", ")
}
