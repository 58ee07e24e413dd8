package app

import (
	"fmt"
	"os"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/textfile"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/replay"
)

// recording is the file that calls are recorded to.
type recording struct {
	path     string
	file     *os.File
	recorder *replay.Recorder
	served   bool // the process is a server, which logs write errors when they happen
}

// openRecording opens the file for appending. A server logs write errors at once and continues.
func (p *process) openRecording() (*recording, error) {
	path := p.Record
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "--record: %s cannot be written: %v", path, textfile.Cause(err))
	}
	if err := endLine(file); err != nil {
		file.Close()
		return nil, fault.New(fault.Unavailable, "--record: %s cannot be written: %v", path, textfile.Cause(err))
	}
	var o replay.RecorderOptions
	if log := p.log; log != nil {
		o.Report = func(err error) {
			if err == nil {
				log.Warn("the recording is written again; a line marks the gap", "file", path)
				return
			}
			log.Error("the recording cannot be written: calls are missing from it until it can be", "file", path, "error", textfile.Cause(err))
		}
	}
	return &recording{path: path, file: file, recorder: replay.NewRecorder(file, &o), served: p.serve}, nil
}

// endLine terminates the last line of a truncated file, so that the next line stands alone.
func endLine(file *os.File) error {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := file.ReadAt(last, info.Size()-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = file.WriteString("\n")
	return err
}

// Close ends the recording. For a command it returns unavailable if calls are missing or the file cannot be closed. For a server it returns
// nil even then, because the server has logged the missing calls.
func (r *recording) Close() error {
	r.recorder.End()
	err := r.recorder.Err()
	if closing := r.file.Close(); err == nil {
		err = closing
	}
	if err == nil || r.served {
		return nil
	}
	return &fault.Error{Code: fault.Unavailable, Message: fmt.Sprintf("%s does not hold all calls: %v", r.path, textfile.Cause(err)), Err: err}
}

// withSettings adds the configured aliases and defaults to a function that is known only from a recording. Calls are recorded after aliases
// and defaults were applied, so a request must get them, too, to match.
func (a *App) withSettings(fn steps.Function) steps.Function {
	known := fn
	known.Name = a.settings.Original(fn.Name)
	known, _ = a.settings.Apply(known)
	fn.Aliases, fn.Defaults = known.Aliases, known.Defaults
	return fn
}
