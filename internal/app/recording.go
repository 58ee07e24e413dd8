package app

import (
	"fmt"
	"os"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
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
	o := replay.RecorderOptions{Blocks: replay.BlocksFolder(path)}
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

// recordedSettings returns the settings that answers depend on, for the recording; nil: none. A server's own limits are among them.
func (a *App) recordedSettings() []byte {
	c := a.config.Config
	if a.process.serve {
		c.Budget.MaxTotalTokens = new(config.Or(c.Budget.MaxTotalTokens, defaultServedTokens))
		c.Budget.MaxDurationMs = new(config.Or(c.Budget.MaxDurationMs, int(defaultServedDuration.Milliseconds())))
	}
	return c.Recorded()
}

// takeRecordedSettings adds to the configuration those settings of the recording that it does not give itself.
func (a *App) takeRecordedSettings() error {
	settings := a.cassette.Settings()
	if settings == nil {
		return nil
	}
	recorded, faults := config.Parse("settings.json", settings, func(string) (string, bool) { return "", false })
	if len(faults) > 0 {
		return fault.New(faults[0].Code, "%s: the settings of the recording: %s: %s", a.process.Replay, faults[0].At, faults[0].Message)
	}
	a.config.FillRecorded(&recorded.Config)
	return nil
}

// withSettings applies the configuration's settings to a recorded function. Calls are recorded after aliases and defaults were applied, so
// a request must get them, too, to match. A setting of the configuration wins over that of the recording. The name stays: it is the name
// after renaming.
func (a *App) withSettings(fn steps.Function) steps.Function {
	name, own, path, possible := fn.Name, fn.OwnName, fn.Path, fn.PossiblePaths
	fn.Name = a.settings.Original(name)
	fn, _ = a.settings.Apply(fn) // a recorded function stays, even if it is hidden now
	fn.Name, fn.OwnName, fn.Path, fn.PossiblePaths = name, own, path, possible
	return fn
}
