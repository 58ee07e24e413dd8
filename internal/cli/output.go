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

// output is where answers go: stdout, a device or pipe, or a file that appears under its name only when it is complete.
type output struct {
	w         *bufio.Writer
	terminal  bool // a terminal shows the output
	forPerson bool // a person reads the output: results are indented, failures are explained
	raw       bool // only the result is written, and a string without its quotes
	fullSize  int  // size in bytes of a result that was cut; 0: it was not
	// unrepeatable: a second run would write again, so nothing may advise one
	unrepeatable bool
	folder       string   // takes the blocks of the result; "": they are not written
	path         string   // the path of the file to create; "": no file is created
	file         *os.File // the temporary file, device or pipe; nil: stdout
}

// newOutput opens the output of a command. An empty path is stdout, and so is that of a folder, which takes the blocks. The caller must end
// the output with commit or discard; discard after a commit does nothing.
func (s *streams) newOutput(path string) (*output, error) {
	if path == "" {
		return &output{w: bufio.NewWriter(s.out), terminal: s.outTerminal, forPerson: s.outTerminal && !s.asJSON && !s.raw, raw: s.raw}, nil
	}
	if isFolder(path) {
		out, err := s.newOutput("")
		if err == nil {
			out.folder = path
		}
		return out, err
	}
	mode := fs.FileMode(0o666)
	if info, err := os.Stat(path); err == nil {
		if !info.Mode().IsRegular() { // a device or a pipe is written to, not replaced
			file, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return nil, opErrorf("--out: %v", err)
			}
			return &output{w: bufio.NewWriter(file), file: file, raw: s.raw}, nil
		}
		mode = info.Mode().Perm()
		if path, err = filepath.EvalSymlinks(path); err != nil { // replace the file, not a link to it
			return nil, opErrorf("--out: %v", err)
		}
	}
	file, err := os.OpenFile(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text()+".tmp"),
		os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, opErrorf("--out: %s cannot be written: %v", path, textfile.Cause(err))
	}
	return &output{w: bufio.NewWriterSize(file, 64<<10), path: path, file: file, raw: s.raw}, nil
}

// writeAnswer writes an answer on one line, or indented for a person. Indenting does not change how values are written.
func (o *output) writeAnswer(text []byte) error {
	if o.forPerson {
		var b bytes.Buffer
		if err := json.Indent(&b, text, "", "  "); err == nil {
			text = b.Bytes()
		}
	}
	return o.writeLine(text)
}

// writeResult writes a string without quotes and any other result as JSON. At a terminal it removes control characters from the string, and
// cuts a result that is too long to read.
func (o *output) writeResult(result []byte) error {
	if parsed := gjson.ParseBytes(result); parsed.Type == gjson.String {
		return o.writeText(parsed.Str)
	}
	return o.writeAnswer([]byte(o.cut(string(result))))
}

// cut cuts what is too long to read at a terminal.
func (o *output) cut(text string) string {
	if o.terminal && len(text) > maxShown {
		o.fullSize, text = len(text), textfile.Prefix(text, maxShown)
	}
	return text
}

// writeText writes a text and a line break. At a terminal it removes control characters, and cuts a text that is too long to read.
func (o *output) writeText(text string) error {
	if text = o.cut(text); o.terminal {
		text = strings.Map(func(c rune) rune {
			if c == '\n' || c == '\t' || unicode.IsGraphic(c) {
				return c
			}
			return -1
		}, text)
	}
	if _, err := o.w.WriteString(strings.TrimSuffix(text, "\n")); err != nil {
		return o.wrapWriteError(err)
	}
	return o.wrapWriteError(o.w.WriteByte('\n'))
}

// writeLine writes JSON and a line break. At a terminal it escapes control characters, which JSON has only in strings.
func (o *output) writeLine(text []byte) error {
	if o.terminal {
		text = rawjson.Visible(text)
	}
	if _, err := o.w.Write(text); err != nil {
		return o.wrapWriteError(err)
	}
	return o.wrapWriteError(o.w.WriteByte('\n'))
}

func (o *output) flush() error { return o.wrapWriteError(o.w.Flush()) }

func (o *output) wrapWriteError(err error) error {
	if err == nil {
		return nil
	}
	return app.Failure{Err: fmt.Errorf("the answer could not be written: %w", err)}
}

// commit flushes the output and ends it. A file then appears under its name, or is removed if it could not be written.
func (o *output) commit() error { return o.commitAs(o.path) }

// partialSuffix is added to the name of the file that an interrupted batch leaves.
const partialSuffix = ".partial"

// commitPartial ends the output of an interrupted batch. It does not touch the requested file, but writes the answers that it has, in whole
// lines, to a file beside it.
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
	return o.wrapWriteError(err)
}

// discard removes an output that was not committed.
func (o *output) discard() {
	if o.file != nil && o.file.Close() == nil { // closing fails after a commit, which has closed the file
		o.remove()
	}
}

func (o *output) remove() {
	if o.path != "" {
		os.Remove(o.file.Name())
	}
}

// writeJSON writes the JSON answer of a command that runs no chain.
func (s *streams) writeJSON(text []byte) error {
	o, err := s.newOutput("")
	if err != nil {
		return err
	}
	if err := o.writeAnswer(bytes.TrimSpace(text)); err != nil {
		return err
	}
	return o.commit()
}

// writeText writes an answer that is text.
func (s *streams) writeText(text []byte) error {
	if _, err := s.out.Write(text); err != nil {
		return app.Failure{Err: fmt.Errorf("the answer could not be written: %w", err)}
	}
	return nil
}

// writeLines writes lines for a person.
func (o *output) writeLines(text string) { _, _ = o.w.WriteString(text) } // commit reports the error
