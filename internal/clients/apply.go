package clients

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// Apply carries the plan out. An error says what was not done; what was there can be put back at any point.
func (p *Plan) Apply(ctx context.Context) error { return p.apply(ctx) }

func (p *Plan) install(ctx context.Context) error {
	if err := p.unchanged(); err != nil {
		return err
	}
	if err := p.keep(); err != nil {
		return err
	}
	if err := p.writeConfiguration(); err != nil {
		return err
	}
	if len(p.put) > 0 && p.runOwnCommand(ctx) {
		if err := p.recompute(); err != nil {
			return err
		}
	}
	if err := replace(p.client, p.file, p.after); err != nil {
		return err
	}
	return p.done()
}

// unchanged refuses to write over what was written since the plan was made. The configuration counts even if nothing is added to it: a
// server that moves may be there already, and would be lost if it no longer were.
func (p *Plan) unchanged() error {
	now, err := readTarget(p.client, p.file)
	if err == nil && !bytes.Equal(now, p.before) {
		err = changed(p.file)
	}
	if err != nil || p.config == "" {
		return err
	}
	now, err = p.configurationText()
	if err == nil && ((now == nil) != (p.configOld == nil) || !bytes.Equal(now, p.configOld)) {
		err = changed(p.config)
	}
	return err
}

func changed(file string) error {
	return fault.New(fault.BadRequest, "%s has changed in the meantime: run this again; nothing was changed", file)
}

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
	if err != nil {
		return fault.New(fault.BadRequest, "%s cannot be written: %v: nothing was changed", p.config, textfile.Cause(err))
	}
	return nil
}

// ownCommandTime bounds the client's own command: some start a program with a window.
const ownCommandTime = time.Minute

// runOwnCommand reports whether the client's own command succeeded. If not, the file is edited.
func (p *Plan) runOwnCommand(ctx context.Context) bool {
	if p.command == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, ownCommandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.command[0], p.command[1:]...)
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		p.notes = append(p.notes, filepath.Base(p.command[0])+" did not add onecall: its file was edited")
		return false
	}
	return true
}

// recompute makes the client's file again after its own command has changed it.
func (p *Plan) recompute() error {
	text, err := readTarget(p.client, p.file)
	if err != nil {
		return err
	}
	d := openDocument(formatOf(p.file), p.client.servers.path, text)
	for _, one := range p.moved {
		if _, err := d.take(one.original); err != nil {
			return fault.New(fault.BadRequest, "%s: %s could not be moved: %v", p.file, one.original, err)
		}
	}
	return p.addItself(d)
}
