package clients

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// record is what a client's file was before onecall was installed. It is stored beside that file until onecall is removed.
type record struct {
	// Backup is the name of the copy of the whole file, in the same folder; "": there was no file.
	Backup string `json:"backup,omitempty"`
	// Removed are the entries that were removed from the file, in order.
	Removed []entry `json:"taken"`
	// After is the SHA-256 of the file with onecall in it. If the file is still the same, its backup replaces it as a whole. It is "" during
	// an installation, after a second one, and if the client's own command has changed more than the servers.
	After string `json:"after,omitempty"`

	first bool // this installation is the first
}

func recordPath(file string) string { return file + ".onecall.json" }

// readRecord reads the record of a client's file; nil: there is none.
func readRecord(file string) (*record, error) {
	text, err := textfile.ReadFound(recordPath(file), 2*maxClientFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r := new(record)
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		return nil, fault.New(fault.BadRequest, "%s, onecall's record of what was there, cannot be read: %v",
			recordPath(file), textfile.Cause(err))
	}
	return r, nil
}

// writeRecord writes the record and, for the first installation, the backup. The client's folder must exist, unless the client's command
// may create it.
func (p *Plan) writeRecord() error {
	if !isFolder(filepath.Dir(p.file)) && p.command == nil {
		return noFolderError(p.client, p.file)
	}
	switch {
	case p.unfinished():
		p.record.first, p.record.Removed = true, nil
	case p.record == nil:
		p.record = &record{first: true}
		if p.before == nil {
			break
		}
		var err error
		if p.record.Backup, err = backUp(p.file, p.before); err != nil {
			return err
		}
	}
	for _, one := range p.removed {
		// In later installations, the entry of that name is onecall's own. An interrupted installation has already recorded its entries.
		if (p.record.first || one.Name != onecallName) && !slices.Contains(p.record.Removed, one) {
			p.record.Removed = append(p.record.Removed, one)
		}
	}
	p.record.After = ""
	return p.record.write(p.file)
}

// backUp writes a copy of a file's text to the file's folder, and returns the name of the copy. If a copy of the same text exists, it is
// used instead.
func backUp(file string, text []byte) (string, error) {
	backup := file + ".before-onecall"
	err := WriteNew(backup, text)
	for n := 2; errors.Is(err, fs.ErrExist); n++ { // that name is taken by the backup of an earlier installation
		if existing, readErr := textfile.ReadFound(backup, maxClientFile); readErr == nil && bytes.Equal(existing, text) {
			return filepath.Base(backup), nil
		}
		backup = fmt.Sprintf("%s.before-onecall-%d", file, n)
		err = WriteNew(backup, text)
	}
	if err != nil {
		return "", fault.New(fault.BadRequest, "the backup %s cannot be written: %v: nothing was changed", backup, textfile.Cause(err))
	}
	return filepath.Base(backup), nil
}

// unfinished reports whether an earlier installation was interrupted before it changed the file, which makes this one the first.
func (p *Plan) unfinished() bool {
	if p.record == nil || p.record.After != "" {
		return false
	}
	backup, err := textfile.ReadFound(p.backup(), maxClientFile)
	return p.record.Backup == "" && p.before == nil || p.record.Backup != "" && err == nil && bytes.Equal(backup, p.before)
}

// recordResult records the hash of the file with onecall in it, unless the client's command has changed more than the servers: the backup
// must not replace such a file as a whole.
func (p *Plan) recordResult() error {
	if !p.record.first || !reflect.DeepEqual(p.otherContent(p.before), p.otherContent(p.after)) {
		return nil
	}
	p.record.After = digest(p.after)
	return p.record.write(p.file)
}

// otherContent returns the content of a client's file other than its servers.
func (p *Plan) otherContent(text []byte) map[string]any {
	path := p.client.servers.path
	d := openDocument(formatOf(p.file), path[:len(path)-1], text)
	rest, _, _ := d.dataWithout(d.text, path[len(path)-1]) // never fails, as the text was read before
	return rest
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func (r *record) write(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = WriteFile(recordPath(file), text, 0o600)
	}
	if err != nil {
		return fault.New(fault.BadRequest, "%s cannot be written: %v", recordPath(file), textfile.Cause(err))
	}
	return nil
}
