// Package textfile reads small text files and converts positions in them.
package textfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Open opens a file for reading. A folder is an error.
func Open(path string) (*os.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err == nil && info.IsDir() {
		file.Close()
		return nil, errors.New("it is a folder")
	}
	return file, nil
}

// Read reads at most limit+1 bytes of a file: a result longer than limit means that the file is too long.
func Read(path string, limit int64) ([]byte, error) {
	file, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return ReadAll(file, limit)
}

// ReadFound is Read for a file that onecall has looked for itself. Unlike one that its user names, such a file must be a regular one: a
// pipe in its place would be waited for.
func ReadFound(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode(); !mode.IsRegular() && !mode.IsDir() {
		return nil, errors.New("it is not a regular file")
	}
	return Read(path, limit)
}

// ReadAll is Read for an open file or a stream.
func ReadAll(in io.Reader, limit int64) ([]byte, error) {
	return io.ReadAll(io.LimitReader(in, limit+1))
}

// WithoutMark removes a byte order mark.
func WithoutMark(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\ufeff")) }

// Cause returns the cause of a file system error, without the path. The message around it names the path.
func Cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// Offset converts a column, counted from 1 in characters, to a byte offset. Past the end of the line it returns the end.
func Offset(line string, column int) int {
	for i := range line {
		if column--; column < 1 {
			return i
		}
	}
	return len(line)
}

// Printable replaces control and unprintable characters. A tab becomes one blank, which preserves columns.
func Printable(text string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == '\t':
			return ' '
		case c == utf8.RuneError || !unicode.IsPrint(c):
			return '·'
		}
		return c
	}, text)
}

// Prefix returns at most n bytes of a text, cut between characters.
func Prefix(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// Suffix returns at most n bytes of the end of a text, cut between characters.
func Suffix(text string, n int) string {
	if len(text) <= n {
		return text
	}
	start := len(text) - n
	for start < len(text) && !utf8.RuneStart(text[start]) {
		start++
	}
	return text[start:]
}
