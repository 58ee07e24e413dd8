package textfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tailscale/hujson"
)

// SyntaxError says where a text stops being JSON with comments.
type SyntaxError struct {
	Line, Column int // from 1
	err          string
}

// Error implements error. It quotes one character of the text at most.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.err)
}

// PlainJSON returns JSON with comments and trailing commas as plain JSON: blanks stand in their place, so that lines and columns stay. A
// text without a value becomes empty.
func PlainJSON(text []byte) ([]byte, *SyntaxError) {
	text = append(bytes.Clone(text), '\n') // Standardize writes into it, and a comment must not be open at its end
	value, err := hujson.Parse(text)
	switch {
	case err == nil:
		value.Standardize()
		plain := value.Pack()
		return plain[:len(plain)-1], nil
	case value.Value == nil && errors.Is(err, io.ErrUnexpectedEOF) && len(value.BeforeExtra) == len(text):
		return nil, nil
	}
	bad := &SyntaxError{}
	_, bad.err, _ = strings.Cut(strings.TrimPrefix(err.Error(), "hujson: "), ": ")
	_, _ = fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &bad.Line, &bad.Column)
	written := bytes.TrimRight(text, " \t\r\n")
	if last := 1 + bytes.Count(written, []byte{'\n'}); bad.Line > last { // the text ends too early
		bad.Line, bad.Column = last, len(written)-bytes.LastIndexByte(written, '\n')
	}
	return nil, bad
}
