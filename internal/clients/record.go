package clients

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// record is what was there before onecall was installed in a client. It stands beside the client's file until onecall is removed.
type record struct {
	// Backup is the name of the copy of the whole file, beside it; "": there was no file.
	Backup string `json:"backup,omitempty"`
	// Taken are the entries that were taken out, in their order.
	Taken []entry `json:"taken"`
	// After is the SHA-256 of the file once onecall was in it: a file that is still the same is replaced by its backup as a whole.
	// It is "" while an installation is under way, and after a second one.
	After string `json:"after,omitempty"`

	first bool // the installation under way is the first
}

func recordPath(file string) string { return file + ".onecall.json" }

// readRecord reads the record of a client's file; nil: there is none.
func readRecord(file string) (*record, error) {
	text, err := textfile.Read(recordPath(file), 2*maxClientFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r := new(record)
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		return nil, fault.New(fault.BadRequest, "%s, in which onecall keeps what was there, cannot be read: %v",
			recordPath(file), textfile.Cause(err))
	}
	return r, nil
}

// keep writes the record, and at the first installation the backup.
func (p *Plan) keep() error {
	if !isFolder(filepath.Dir(p.file)) && p.command == nil {
		return noFolder(p.client, p.file)
	}
	switch {
	case p.unfinished():
		p.record.first, p.record.Taken = true, nil
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
	for _, one := range p.taken {
		// What a later installation finds under onecall's name is onecall's own. One that was cut off has been here before.
		if (p.record.first || one.Name != ownName) && !slices.Contains(p.record.Taken, one) {
			p.record.Taken = append(p.record.Taken, one)
		}
	}
	p.record.After = ""
	return p.record.write(p.file)
}

// backUp writes a copy of a file beside it, and returns its name. A copy of the same text that is there already will do.
func backUp(file string, text []byte) (string, error) {
	backup := file + ".before-onecall"
	err := WriteNew(backup, text)
	for n := 2; errors.Is(err, fs.ErrExist); n++ { // of an earlier installation
		if there, failed := os.ReadFile(backup); failed == nil && bytes.Equal(there, text) {
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

// unfinished reports whether an earlier installation was cut off before it changed the file: then this one is the first.
func (p *Plan) unfinished() bool {
	if p.record == nil || p.record.After != "" {
		return false
	}
	backup, err := os.ReadFile(p.backup())
	return p.record.Backup == "" && p.before == nil || p.record.Backup != "" && err == nil && bytes.Equal(backup, p.before)
}

// done notes what the file is once onecall is in it. If the client's own command has changed more than the servers, the backup is not
// to take its place as a whole.
func (p *Plan) done() error {
	if !p.record.first || !reflect.DeepEqual(p.besides(p.before), p.besides(p.after)) {
		return nil
	}
	p.record.After = digest(p.after)
	return p.record.write(p.file)
}

// besides is what a text of the client's file says beside its servers.
func (p *Plan) besides(text []byte) map[string]any {
	path := p.client.servers.path
	d := openDocument(formatOf(p.file), path[:len(path)-1], text)
	rest, _, _ := d.without(d.text, path[len(path)-1]) // of a text that was read: never fails
	return rest
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func (r *record) write(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = writeFile(recordPath(file), text, 0o600)
	}
	if err != nil {
		return fault.New(fault.BadRequest, "%s cannot be written: %v", recordPath(file), textfile.Cause(err))
	}
	return nil
}
