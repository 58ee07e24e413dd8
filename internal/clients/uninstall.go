package clients

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// Uninstall plans to remove onecall from a client and to restore what was there before. Other changes to its file are kept.
func Uninstall(c *Client) (*Plan, error) {
	m, err := thisMachine()
	if err != nil {
		return nil, err
	}
	return m.uninstall(c)
}

func (m *machine) uninstall(c *Client) (*Plan, error) {
	p := &Plan{client: c}
	p.apply = p.uninstall
	if err := m.findRecord(p); err != nil {
		return nil, err
	}
	var err error
	if p.before, err = readTarget(c, p.file); err != nil {
		return nil, err
	}
	if p.before == nil {
		return nil, fault.New(fault.BadRequest, "%s no longer exists: %s holds what was in it before onecall was installed", p.file, p.backup())
	}
	if p.unfinished() {
		return nil, fault.New(fault.BadRequest, "nothing to do: %s is as it was before onecall was installed", p.file)
	}
	if digest(p.before) == p.record.After {
		return p, p.restoreBackup()
	}
	return p, p.restoreEntries()
}

// findRecord finds the client's file in which onecall was installed, and sets p.file and p.record. It is an error if there is none.
func (m *machine) findRecord(p *Plan) (err error) {
	for _, location := range p.client.locations {
		for _, file := range m.paths(location) {
			p.file = file
			if p.record, err = readRecord(file); err != nil || p.record != nil {
				return err
			}
		}
	}
	return fault.New(fault.BadRequest, "nothing to do: init --install has not installed onecall in %s. If %s has an entry made by hand, "+
		"remove it there",
		p.client.Title, p.file)
}

// backup returns the path of what holds the old content of the client's file: the backup, or the record if there was no file.
func (p *Plan) backup() string {
	if p.record.Backup == "" {
		return recordPath(p.file)
	}
	return filepath.Join(filepath.Dir(p.file), filepath.Base(p.record.Backup))
}

// restoreBackup plans to replace a file that is as onecall left it with its backup.
func (p *Plan) restoreBackup() (err error) {
	p.removed, p.inserted = []entry{{Name: onecallName}}, p.record.Removed
	if p.record.Backup == "" {
		return nil // there was no file before, so after stays nil and the file is removed
	}
	if p.after, err = textfile.ReadFound(p.backup(), maxClientFile); err != nil {
		return fault.New(fault.BadRequest, "%s cannot be read: %v: nothing was changed", p.backup(), textfile.Cause(err))
	}
	return nil
}

// restoreEntries plans to remove onecall from a file that has changed since the installation, and to put back the removed entries that are
// missing.
func (p *Plan) restoreEntries() error {
	d := openDocument(formatOf(p.file), p.client.servers.path, p.before)
	if taken, err := d.remove(onecallName); err == nil {
		p.removed = append(p.removed, taken)
	}
	for _, one := range p.record.Removed {
		if _, exists, err := d.dataWithout(d.text, one.Name); err == nil && exists {
			p.warnings = append(p.warnings, one.Name+" exists again, and is left unchanged")
			continue
		}
		if err := d.insert(one); err != nil {
			return fault.New(fault.BadRequest, "%s: %s cannot be put back: %v: %s holds what was there; nothing was changed",
				p.file, one.Name, err, p.backup())
		}
		p.inserted = append(p.inserted, one)
	}
	p.after = d.bytes()
	if p.record.Backup != "" {
		p.warnings = append(p.warnings,
			fmt.Sprintf("%s has changed since the installation: its other changes stay, and so does the backup %s", p.file, p.backup()))
	}
	return nil
}

// uninstall carries out a removal: it writes or removes the client's file, and then removes the record, and the backup if it was restored.
func (p *Plan) uninstall(context.Context) error {
	if err := p.checkUnchanged(); err != nil {
		return err
	}
	if p.after == nil {
		if err := os.Remove(p.file); err != nil {
			return fault.New(fault.BadRequest, "%s cannot be removed: %v", p.file, textfile.Cause(err))
		}
	} else if err := replace(p.client, p.file, p.after); err != nil {
		return err
	}
	if digest(p.before) == p.record.After && p.record.Backup != "" {
		if err := os.Remove(p.backup()); err != nil {
			p.warnings = append(p.warnings, p.backup()+" could not be removed")
		}
	}
	if err := os.Remove(recordPath(p.file)); err != nil {
		return fault.New(fault.BadRequest, "%s cannot be removed: %v: remove it by hand", recordPath(p.file), textfile.Cause(err))
	}
	return nil
}
