package files

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"math"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/steps"
)

type catArgs struct {
	Path                 string
	Head, Tail, From, To *integer
	Symbol               *string
	Outline, Digest      bool
}

type catResult struct {
	Path        string  `json:"path"`
	Size        int64   `json:"size"`               // the size of the file, in bytes
	Lines       *int    `json:"lines,omitempty"`    // the number of lines of the file; nil if only part of it was read
	From        *int    `json:"from,omitempty"`     // the number of the first line in text; nil: unknown, for the tail of a large file
	To          *int    `json:"to,omitempty"`       // the number of the last line in text; From-1 if text has no lines; nil if From is nil
	Encoding    string  `json:"encoding,omitempty"` // "" for UTF-8
	InvalidUTF8 bool    `json:"invalidUTF8,omitempty"`
	Binary      bool    `json:"binary,omitempty"`
	Type        string  `json:"type,omitempty"` // media type of a binary file
	Truncated   bool    `json:"truncated,omitempty"`
	Next        int     `json:"next,omitempty"`   // the line to continue from
	Digest      string  `json:"digest,omitempty"` // of all bytes of the file
	Text        *string `json:"text,omitempty"`

	Outline     *[]symbol `json:"outline,omitempty"`
	SyntaxError string    `json:"syntaxError,omitempty"` // why the outline may lack symbols

	digest hash.Hash   // nil: not requested
	room   *admit.Room // counts the text until the result is written
}

// lineRange is the range of lines requested.
type lineRange struct {
	from, to int  // the first and the last line; to is lastLine for all following lines
	tail     int  // number of last lines instead of from and to; -1: not requested
	all      bool // no range was given
}

// lastLine is above any line number. Adding a few lines to it does not overflow.
const lastLine = math.MaxInt / 4

func (a *catArgs) lineRange() (lineRange, error) {
	r := lineRange{from: 1, to: lastLine, tail: -1}
	count := 0
	for _, n := range []struct {
		name    string
		value   *integer
		minimum integer
		set     func(int)
	}{
		{"head", a.Head, 0, func(n int) { r.to = n }},
		{"tail", a.Tail, 0, func(n int) { r.tail = n }},
		{"from", a.From, 1, func(n int) { r.from = n }},
		{"to", a.To, 1, func(n int) { r.to = n }},
	} {
		if n.value == nil {
			continue
		}
		if *n.value < n.minimum {
			return r, badArgument(n.name, "%s is %d or more", n.name, n.minimum)
		}
		n.set(int(*n.value))
		count++
	}
	if pair := a.From != nil && a.To != nil; count > 2 || count == 2 && !pair {
		return r, fault.New(fault.BadArguments, "give one of head, tail, or from and to")
	}
	if symbols := a.Symbol != nil || a.Outline; symbols && (count > 0 || a.Symbol != nil && a.Outline) {
		return r, fault.New(fault.BadArguments, "give one of symbol, outline, or lines")
	}
	if a.From != nil && r.to < r.from {
		return r, badArgument("to", "to is the last line: it is not below from")
	}
	r.all = count == 0
	return r, nil
}

// cat reads a text, which gives a *catResult, or a block, as JSON.
func (s *Source) cat(ctx context.Context, a catArgs) (any, error) {
	lines, err := a.lineRange()
	if err != nil {
		return nil, err
	}
	rel, info, err := s.locate(a.Path)
	if err != nil {
		return nil, err
	}
	switch {
	case info.IsDir():
		return nil, atPath(fault.New(fault.FunctionFailed, "%q is a folder: fs.list shows what it holds", fault.Short(rel)))
	case !info.Mode().IsRegular():
		return nil, notRegularFault(rel)
	}
	f, info, err := openRegular(s.root, rel)
	if errors.Is(err, errNotRegular) {
		return nil, notRegularFault(rel)
	}
	if err != nil {
		return nil, s.accessFault(rel, err)
	}
	defer f.Close()
	c := &catResult{Path: rel, Size: info.Size(), room: admit.NewRoom(ctx)}
	defer c.room.Release()
	if a.Digest {
		c.digest = sha256.New()
	}
	switch large := c.Size > s.maxFileBytes; {
	case large && a.Digest:
		err = fault.New(fault.LimitExceeded, "%q has %d bytes, more than the %d that are read at once: fs.stat gives its digest",
			fault.Short(c.Path), c.Size, s.maxFileBytes)
	case a.Symbol != nil || a.Outline:
		err = c.showSymbols(f, &a, s.maxFileBytes)
	case !large:
		err = c.readWhole(f, lines, s.maxFileBytes)
	case lines.all:
		err = c.refuseLarge(f, s.maxFileBytes)
	case lines.tail >= 0:
		err = c.readTail(ctx, f, lines.tail, s.maxFileBytes)
	default:
		err = c.readLines(ctx, f, lines, s.maxFileBytes)
	}
	switch _, coded := fault.As(err); {
	case errors.Is(err, errBinary) && lines.all && a.Symbol == nil && !a.Outline && !a.Digest:
		return s.block(ctx, c, f)
	case errors.Is(err, errBinary):
		return c.describe(f), nil
	case ctx.Err() != nil:
		return nil, contextFault(ctx.Err())
	case err != nil && !coded:
		return nil, s.accessFault(rel, err)
	case err != nil:
		return nil, err
	}
	return c.encode()
}

// encode writes the result. Its text counts a second time meanwhile.
func (c *catResult) encode() (any, error) {
	if c.Text != nil {
		if err := c.room.Cover(2 * len(*c.Text)); err != nil {
			return nil, err
		}
	}
	encoded, err := encode(c)
	return json.RawMessage(encoded), err
}

// block returns the block of a binary file.
func (s *Source) block(ctx context.Context, c *catResult, f *regularFile) (any, error) {
	tooLarge := atPath(fault.New(fault.LimitExceeded, "%q is binary and has more than %d bytes, the most that a result may have",
		fault.Short(c.Path), s.maxKeptBytes))
	if c.Size > s.maxKeptBytes {
		return nil, tooLarge
	}
	content, full, err := c.room.ReadAll(&cancellable{ctx, io.NewSectionReader(f, 0, s.maxKeptBytes+1)}, int(c.Size))
	switch {
	case ctx.Err() != nil:
		return nil, contextFault(ctx.Err())
	case full != nil:
		return nil, full
	case err != nil:
		return nil, s.accessFault(c.Path, err)
	case int64(len(content)) > s.maxKeptBytes: // it has grown
		return nil, tooLarge
	}
	c.room.Release() // from here on it counts as a block
	value, err := steps.KeepBlock(ctx, steps.NewBlock(binaryType(content), content))
	return json.RawMessage(value), err
}

func notRegularFault(rel string) *fault.Error {
	return atPath(fault.New(fault.FunctionFailed, "%q is neither file nor folder, but a FIFO, socket or device: these are not read",
		fault.Short(rel)))
}

func (c *catResult) tooLargeFault(maxBytes int64) *fault.Error {
	return atPath(fault.New(fault.LimitExceeded, "%q has %d bytes, more than the %d that are read at once: ask for lines by head, "+
		"tail, or from and to", fault.Short(c.Path), c.Size, maxBytes))
}

// refuseLarge returns the fault of a file that is too large to be read whole as text; errBinary if it is none.
func (c *catResult) refuseLarge(f *regularFile, maxBytes int64) error {
	head := make([]byte, window)
	if n, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	} else if bytes.IndexByte(head[:n], 0) >= 0 && encodingOf(head) == "" {
		return errBinary
	}
	return c.tooLargeFault(maxBytes)
}

// readText reads a whole file within the bound, and counts its lines.
func (c *catResult) readText(f *regularFile, maxBytes int64) ([]byte, error) {
	var from io.Reader = f
	if c.digest != nil {
		from = io.TeeReader(f, c.digest)
	}
	r, encoding := textReader(from)
	text, full, err := c.room.ReadAll(io.LimitReader(r, maxBytes+1), int(min(c.Size, maxBytes)))
	if err = cmp.Or(full, err); err != nil {
		return nil, err
	}
	if c.digest != nil && int64(len(text)) <= maxBytes { // all was read
		c.Digest = digestText(c.digest)
	}
	if bytes.IndexByte(text, 0) >= 0 {
		return nil, errBinary
	}
	if int64(len(text)) > maxBytes { // the file has grown, or its size was not known
		return nil, c.tooLargeFault(maxBytes)
	}
	count := countLines(text)
	c.Encoding, c.Lines = encoding, &count
	return text, nil
}

// readWhole reads a whole file within the bound, and takes the requested lines.
func (c *catResult) readWhole(f *regularFile, lines lineRange, maxBytes int64) error {
	text, err := c.readText(f, maxBytes)
	if err != nil {
		return err
	}
	from, to := lines.from, lines.to
	if lines.tail >= 0 {
		from, to = max(1, *c.Lines-lines.tail+1), lastLine
	}
	c.showRange(text, from, to)
	return nil
}

// showRange sets the text to lines of a whole file.
func (c *catResult) showRange(text []byte, from, to int) {
	to = min(to, *c.Lines) // to may be the largest integer
	start := lineStart(text, from)
	c.show(text[start:start+lineStart(text[start:], to-from+2)], from) // up to the start of the line after to
}

// readLines reads a file above the bound up to the last requested line. It holds only the requested lines.
func (c *catResult) readLines(ctx context.Context, f *regularFile, lines lineRange, maxBytes int64) error {
	r, encoding := textReader(f)
	c.Encoding = encoding
	var text []byte
	line, textStart, midLine := 1, 0, false // the current line, where it starts in text, whether part of it was read
	for line <= lines.to && ctx.Err() == nil {
		piece, err := r.ReadSlice('\n')
		if bytes.IndexByte(piece, 0) >= 0 {
			return errBinary
		}
		if line >= lines.from {
			text = append(text, piece...)
			if full := c.room.Cover(cap(text)); full != nil {
				return full
			}
		}
		if int64(len(text)) > maxBytes {
			if textStart == 0 {
				return atPath(fault.New(fault.LimitExceeded, "line %d of %q is longer than %d bytes, the most that is read at once", line,
					fault.Short(c.Path), maxBytes))
			}
			c.Truncated, c.Next = true, line
			text = text[:textStart]
			break
		}
		if err == io.EOF {
			if len(piece) == 0 && !midLine { // the file ends with a line break, after which no line begins
				line--
			}
			c.Lines = &line
			break
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if midLine = err != nil; !midLine {
			line++
			textStart = len(text)
		}
	}
	c.show(text, lines.from)
	return nil
}

// readTail reads the last n lines of a file above the bound, from its end.
func (c *catResult) readTail(ctx context.Context, f *regularFile, n int, maxBytes int64) error {
	head := make([]byte, len(utf8BOM))
	if _, err := f.ReadAt(head, 0); err != nil {
		return err
	}
	if encodingOf(head) != "" {
		return atPath(fault.New(fault.LimitExceeded, "the tail of UTF-16 text is read only up to %d bytes: ask for lines by from and to",
			maxBytes))
	}
	var text []byte
	for size := int64(tailBytes); ; size = min(2*size, maxBytes) {
		if full := c.room.Cover(int(size)); full != nil {
			return full
		}
		text = make([]byte, size)
		if _, err := f.ReadAt(text, c.Size-size); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if bytes.IndexByte(text, 0) >= 0 {
			return errBinary
		}
		// The first line of text may be cut, so text must hold one line more than requested.
		if count := countLines(text); count > n {
			c.setText(text[lineStart(text, count-n+1):])
			return nil
		}
		if size == maxBytes {
			return atPath(fault.New(fault.LimitExceeded, "the last %d lines of %q have more than %d bytes, the most that is read at once", n,
				fault.Short(c.Path), maxBytes))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// tailBytes is the size of the first read for a tail.
const tailBytes = minBytes

// describe returns the result for a binary file: its type, and no text.
func (c *catResult) describe(f *regularFile) *catResult {
	head := make([]byte, 512) // enough to detect the media type
	n, _ := f.ReadAt(head, 0)
	return &catResult{Path: c.Path, Size: c.Size, Binary: true, Type: binaryType(head[:n]), Digest: c.Digest}
}

// binaryType detects the media type of a binary file. It is no text, however it begins.
func binaryType(content []byte) string {
	if found := http.DetectContentType(content); !strings.HasPrefix(found, "text/") {
		return found
	}
	return "application/octet-stream"
}

// show sets the text and its line numbers, which begin at from.
func (c *catResult) show(text []byte, from int) {
	to := from - 1 + countLines(text)
	c.From, c.To = &from, &to
	c.setText(text)
}

func (c *catResult) setText(text []byte) {
	content := string(text)
	c.Text, c.InvalidUTF8 = &content, !utf8.Valid(text)
}
