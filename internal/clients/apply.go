package clients

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// Apply carries out the plan. An error says what was not done; the state before Apply can then still be restored.
func (p *Plan) Apply(ctx context.Context) error { return p.apply(ctx) }

// install carries out an installation: record and backup, then onecall's configuration, then the client's file.
func (p *Plan) install(ctx context.Context) error {
	if err := p.checkUnchanged(); err != nil {
		return err
	}
	if err := p.writeRecord(); err != nil {
		return err
	}
	if err := p.writeConfiguration(); err != nil {
		return p.removeRecord(err)
	}
	if len(p.inserted) > 0 && p.runClientCommand(ctx) {
		if err := p.recompute(); err != nil {
			return err
		}
	}
	if err := replace(p.client, p.file, p.after); err != nil {
		return p.removeRecord(err)
	}
	return p.recordResult()
}

// removeRecord removes the record of a first installation that has failed with err before the client's file was changed. It returns err.
// The record stays if another installation is at work, because that installation uses it too. The backup always stays.
func (p *Plan) removeRecord(err error) error {
	now, failed := readTarget(p.client, p.file)
	if failed == nil && p.record.first && bytes.Equal(now, p.before) && !errors.Is(err, errChanged) {
		_ = os.Remove(recordPath(p.file)) // else it would record an installation that did not happen
	}
	return err
}

// checkUnchanged fails if a file was changed since the plan was made. It checks onecall's configuration even if nothing is added to it: a
// server may leave the client's file only because the configuration has it already, and would be lost if that entry were gone by now.
func (p *Plan) checkUnchanged() error {
	now, err := readTarget(p.client, p.file)
	if err == nil && !bytes.Equal(now, p.before) {
		err = changedError(p.file)
	}
	if err != nil || p.config == "" {
		return err
	}
	now, err = p.configurationText()
	if err == nil && ((now == nil) != (p.configOld == nil) || !bytes.Equal(now, p.configOld)) {
		err = changedError(p.config)
	}
	return err
}

var errChanged = errors.New("a file has changed in the meantime")

func changedError(file string) error {
	f := fault.New(fault.BadRequest, "%s has changed in the meantime: run this again; nothing was changed", file)
	f.Err = errChanged
	return f
}

// writeConfiguration writes onecall's configuration, if it changes. It first backs up an existing configuration.
func (p *Plan) writeConfiguration() (err error) {
	if p.configNew == nil {
		return nil
	}
	if p.configOld != nil {
		if _, err = backUp(p.config, p.configOld); err != nil {
			return err
		}
		return replace(nil, p.config, p.configNew)
	}
	if err = os.MkdirAll(filepath.Dir(p.config), 0o700); err == nil {
		err = WriteNew(p.config, p.configNew)
	}
	switch {
	case errors.Is(err, fs.ErrExist): // another installation has created it meanwhile
		return changedError(p.config)
	case err != nil:
		return fault.New(fault.BadRequest, "%s cannot be written: %v: nothing was changed", p.config, textfile.Cause(err))
	}
	return nil
}

// clientCommandTimeout bounds the client's own command, which may open a window.
const clientCommandTimeout = time.Minute

// runClientCommand runs the client's own command that adds onecall, and reports whether it succeeded. If the command fails, the plan gets a
// warning.
func (p *Plan) runClientCommand(ctx context.Context) bool {
	if p.command == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, clientCommandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.command[0], p.command[1:]...)
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		p.warnings = append(p.warnings, filepath.Base(p.command[0])+" did not add onecall: the client's file was edited instead")
		return false
	}
	return true
}

// recompute plans the text of the client's file again, after the client's own command has changed the file.
func (p *Plan) recompute() error {
	text, err := readTarget(p.client, p.file)
	if err != nil {
		return err
	}
	d := openDocument(formatOf(p.file), p.client.servers.path, text)
	for _, srv := range p.moved {
		if _, err := d.remove(srv.original); err != nil {
			return fault.New(fault.BadRequest, "%s: %s could not be moved: %v", p.file, srv.original, err)
		}
	}
	return p.addItself(d)
}
