package cli

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// output takes the answers: the standard output, or a file that appears whole when it is committed.
type output struct {
	w        *bufio.Writer
	terminal bool   // it shows what is written
	person   bool   // who reads it is spoken to, and gets no bare JSON
	raw      bool   // a result alone, a text as it is
	cut      int    // how many bytes the result has that is shown in part; 0: it is whole
	path     string // of the file that appears, "" for none
	file     *os.File
}

// newOutput opens the output of a command; path "" is the standard output.
func (s *streams) newOutput(path string) (*output, error) {
	if path == "" {
		return &output{w: bufio.NewWriter(s.out), terminal: s.outTerminal, person: s.outTerminal && !s.asJSON && !s.raw, raw: s.raw}, nil
	}
	mode := fs.FileMode(0o666)
	if info, err := os.Stat(path); err == nil {
		if info.IsDir() {
			return nil, unable("--out: %s is a folder", path)
		}
		if !info.Mode().IsRegular() { // a device or a pipe cannot be replaced, only written to
			file, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return nil, unable("--out: %v", err)
			}
			return &output{w: bufio.NewWriter(file), file: file, raw: s.raw}, nil
		}
		mode = info.Mode().Perm()
		if path, err = filepath.EvalSymlinks(path); err != nil { // the file is replaced, not the link to it
			return nil, unable("--out: %v", err)
		}
	}
	file, err := os.OpenFile(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text()+".tmp"),
		os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, unable("--out: %s cannot be written: %v", path, textfile.Cause(err))
	}
	return &output{w: bufio.NewWriterSize(file, 64<<10), path: path, file: file, raw: s.raw}, nil
}

// answer writes one answer on a line of its own, or indented for a person. Indenting keeps the spelling of all values.
func (o *output) answer(text []byte) error {
	if o.person {
		var b bytes.Buffer
		if err := json.Indent(&b, text, "", "  "); err == nil {
			text = b.Bytes()
		}
	}
	return o.line(text)
}

// text writes a result that is a text as it is, any other as JSON. At a terminal, control characters are left out, and what is longer than a
// person reads is cut.
func (o *output) text(result []byte) error {
	text, isText := string(result), false
	if parsed := gjson.ParseBytes(result); parsed.Type == gjson.String {
		text, isText = parsed.Str, true
	}
	if o.terminal && len(text) > maxShown {
		o.cut, text = len(text), prefix(text, maxShown)
	}
	if !isText {
		return o.answer([]byte(text))
	}
	if o.terminal {
		text = strings.Map(func(c rune) rune {
			if c == '\n' || c == '\t' || unicode.IsGraphic(c) {
				return c
			}
			return -1
		}, text)
	}
	if _, err := o.w.WriteString(strings.TrimSuffix(text, "\n")); err != nil {
		return o.failed(err)
	}
	return o.failed(o.w.WriteByte('\n'))
}

// line writes JSON and a line break. At a terminal, control characters are escaped: outside of strings, JSON has none.
func (o *output) line(text []byte) error {
	if o.terminal {
		text = rawjson.Visible(text)
	}
	if _, err := o.w.Write(text); err != nil {
		return o.failed(err)
	}
	return o.failed(o.w.WriteByte('\n'))
}

func (o *output) flush() error { return o.failed(o.w.Flush()) }

func (o *output) failed(err error) error {
	if err == nil {
		return nil
	}
	return app.Failure{Err: fmt.Errorf("the answer could not be written: %w", err)}
}

// commit ends the output: the file appears under its name.
func (o *output) commit() error { return o.commitAs(o.path) }

// partialSuffix is put to the name of a file that an interrupted batch leaves.
const partialSuffix = ".partial"

// commitPartial ends the output of an interrupted batch. The file that was asked for is not touched: what was answered
// appears beside it, in whole lines.
func (o *output) commitPartial() error {
	if o.path == "" {
		return o.commit()
	}
	return o.commitAs(o.path + partialSuffix)
}

func (o *output) commitAs(path string) error {
	err := o.w.Flush()
	if o.file != nil {
		err = errors.Join(err, o.file.Close())
		if err == nil && path != "" {
			err = os.Rename(o.file.Name(), path)
		}
		if err != nil {
			o.remove()
		}
	}
	return o.failed(err)
}

// discard removes an output that was not committed.
func (o *output) discard() {
	if o.file != nil && o.file.Close() == nil {
		o.remove()
	}
}

func (o *output) remove() {
	if o.path != "" {
		os.Remove(o.file.Name())
	}
}

// writeJSON answers JSON for a command that runs no chain.
func (s *streams) writeJSON(text []byte) error {
	o, err := s.newOutput("")
	if err != nil {
		return err
	}
	if err := o.answer(bytes.TrimSpace(text)); err != nil {
		return err
	}
	return o.commit()
}

// writeText answers text as it is.
func (s *streams) writeText(text []byte) error {
	if _, err := s.out.Write(text); err != nil {
		return app.Failure{Err: fmt.Errorf("the answer could not be written: %w", err)}
	}
	return nil
}

// drawn writes lines for a person.
func (o *output) drawn(text string) { _, _ = o.w.WriteString(text) } // commit tells of its error
