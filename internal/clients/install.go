package clients

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// ownName is the name of onecall among a client's servers.
const ownName = "onecall"

// Plan is what installing onecall in a client, or removing it, will change. Nothing is changed before Apply.
type Plan struct {
	client *Client
	file   string // the client's
	before []byte // as it was read; nil: there is no file
	after  []byte // nil: the file is removed

	moved, stays []*found
	taken, put   []entry // what leaves the client's file, and what comes into it

	config               string // the configuration of onecall
	configOld, configNew []byte // nil: there is none; it stays as it is
	im                   *Import

	command []string // the client's own that adds onecall; nil: the file is edited
	fields  []field  // onecall's entry
	record  *record
	notes   []string
	apply   func(ctx context.Context) error
}

// Install plans to put onecall into a client, with the configuration at a path, and to move the client's servers there.
func Install(c *Client, configuration string) (*Plan, error) {
	m, err := thisMachine()
	if err != nil {
		return nil, err
	}
	command, installed := ownPath()
	if !installed {
		return nil, fault.New(fault.BadRequest, "this onecall was built to be run once: install it first (go install ./cmd/onecall), on the PATH")
	}
	if configuration, err = filepath.Abs(configuration); err != nil {
		return nil, fault.New(fault.BadRequest, "the working directory is not known: %v", textfile.Cause(err))
	}
	return m.install(c, configuration, command, os.LookupEnv)
}

func thisMachine() (*machine, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, fault.New(fault.BadRequest, "the home folder is not known: %v: set HOME", err)
	}
	return &machine{system: runtime.GOOS, home: home, getenv: os.Getenv, program: exec.LookPath}, nil
}

func (m *machine) install(c *Client, configuration, command string, lookup func(string) (string, bool)) (*Plan, error) {
	file, err := m.target(c)
	if err != nil {
		return nil, err
	}
	p := &Plan{client: c, file: file, config: configuration, fields: c.fields(command, []string{"serve", "--config", configuration})}
	p.apply = p.install
	if p.before, err = readTarget(c, file); err != nil {
		return nil, err
	}
	if p.record, err = readRecord(file); err != nil {
		return nil, err
	}
	p.im = &Import{out: filepath.Dir(configuration), lookup: lookup}
	if err := p.readConfiguration(); err != nil {
		return nil, err
	}
	if err := p.sort(); err != nil {
		return nil, err
	}
	if err := p.changeConfiguration(); err != nil {
		return nil, err
	}
	p.command = m.ownCommand(c, p.fields)
	return p, nil
}

// readTarget reads a client's file, which must be one that can be changed; nil: there is none.
func readTarget(c *Client, file string) ([]byte, error) {
	if err := writable(file); err != nil {
		return nil, err
	}
	text, err := textfile.Read(file, maxClientFile)
	if errors.Is(err, fs.ErrNotExist) {
		if _, link := os.Readlink(file); link == nil {
			return nil, fault.New(fault.BadRequest, "%s is a link to a file that is not there: make the file, or remove the link", file)
		}
		return nil, nil
	}
	if err != nil {
		return nil, fault.New(fault.BadRequest, "%s cannot be read: %v", file, textfile.Cause(err))
	}
	if len(text) > maxClientFile {
		return nil, fault.New(fault.LimitExceeded, "%s has more than %d bytes", file, maxClientFile)
	}
	d := openDocument(formatOf(file), c.servers.path, text)
	if _, _, err := d.without(d.text, ownName); err != nil {
		return nil, fault.New(fault.BadRequest, "%s: %v: mend it first; nothing was changed", file, err)
	}
	return text, nil
}

// writable refuses a file that its user has made read-only: it could be replaced all the same.
func writable(file string) error {
	if info, err := os.Stat(file); err == nil && info.Mode()&0o200 == 0 {
		return fault.New(fault.BadRequest, "%s is read-only: make it writable, then run this again; nothing was changed", file)
	}
	return nil
}

// configurationText is the text of the configuration; nil: there is none.
func (p *Plan) configurationText() ([]byte, error) {
	text, err := textfile.Read(p.config, config.MaxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fault.New(fault.BadRequest, "%s cannot be read: %v", p.config, textfile.Cause(err))
	}
	return text, nil
}

// readConfiguration reads the servers that onecall has already. Their names are taken.
func (p *Plan) readConfiguration() error {
	text, err := p.configurationText()
	if text == nil || err != nil {
		return err
	}
	if err := p.loads(text); err != nil {
		return err
	}
	object, err := formatOf(p.config).json(textfile.WithoutMark(text))
	if err != nil {
		return fault.New(fault.BadRequest, "%s: %v", p.config, err)
	}
	if err := writable(p.config); err != nil {
		return err
	}
	p.configOld = text
	p.im.add(&clientFile{client: "onecall", path: p.config}, gjson.GetBytes(object, "mcpServers"), nil)
	for _, one := range p.im.servers {
		one.present = true
	}
	return nil
}

// loads reports what is wrong with a text of the configuration.
func (p *Plan) loads(text []byte) error {
	if _, faults := config.Parse(p.config, text, p.im.lookup); len(faults) > 0 {
		return fault.New(fault.BadRequest, "%s does not load: %s: mend it first; nothing was changed", p.config, faults[0].Message)
	}
	return nil
}

// sort decides which of the client's servers move, and changes the client's file accordingly.
func (p *Plan) sort() error {
	d := openDocument(formatOf(p.file), p.client.servers.path, p.before)
	object, err := d.format.json([]byte(d.text))
	if err != nil {
		return fault.New(fault.BadRequest, "%s: %v", p.file, err)
	}
	known := len(p.im.servers)
	file := &clientFile{client: p.client.Title, path: p.file, sections: []section{p.client.servers}}
	p.im.readSection(file, gjson.ParseBytes(object), p.client.servers)
	p.im.settle()
	for _, one := range p.im.servers[known:] {
		if one.original == ownName && one.itself {
			continue
		}
		if one.skip = one.reasonToStay(); one.skip == "" {
			var taken entry
			if taken, err = d.take(one.original); err == nil {
				p.taken, p.moved = append(p.taken, taken), append(p.moved, one)
				continue
			}
			one.skip = err.Error()
		}
		if one.original == ownName {
			return fault.New(fault.BadRequest, "%s has another server by the name onecall, which cannot be moved: %s: rename it there",
				p.file, one.skip)
		}
		p.stays = append(p.stays, one)
	}
	return p.addItself(d)
}

// reasonToStay says why a server stays in the client; "" if it moves.
func (one *found) reasonToStay() string {
	switch {
	case one.skip != "" && one.twin == nil:
		return one.skip
	case len(one.unset) > 0:
		return "not set is " + strings.Join(one.unset, ", ") + ": set it, and install again"
	case one.lost != "":
		return one.lost
	case slices.ContainsFunc(one.fields, func(f field) bool { return bytes.Contains(f.value, []byte("${workspaceFolder}")) }):
		return "it depends on the folder of the project"
	}
	return ""
}

// addItself puts onecall into the client's file, if it is not there as it should be.
func (p *Plan) addItself(d *document) error {
	if !p.starts(d) {
		own := d.render(ownName, p.fields)
		replaced, err := d.replaceOwn(own)
		if err != nil {
			return fault.New(fault.BadRequest, "%s: %v: write onecall's entry by hand; nothing was changed:\n%s", p.file, err, own.Text)
		}
		p.taken, p.put = append(p.taken, replaced...), append(p.put, own)
	}
	p.after = d.bytes()
	return nil
}

// replaceOwn puts onecall's entry in, in the place of one that is there.
func (d *document) replaceOwn(own entry) (replaced []entry, err error) {
	_, there, err := d.without(d.text, own.Name)
	if err == nil && there {
		var old entry
		old, err = d.take(own.Name)
		replaced = append(replaced, old)
	}
	if err != nil {
		return nil, err
	}
	return replaced, d.put(own)
}

// starts reports whether the client starts onecall as it should.
func (p *Plan) starts(d *document) bool {
	object, err := d.format.json([]byte(d.text))
	if err != nil {
		return false
	}
	read := func(server gjson.Result) (command, args string) {
		fields, _ := members(server), ""
		if p.client.servers.form != nil {
			fields, _ = p.client.servers.form(server)
		}
		normal := gjson.ParseBytes(objectField("", fields).value)
		return normal.Get("command").String(), normal.Get("args|@ugly").Raw
	}
	servers := gjson.GetBytes(object, strings.Join(p.client.servers.path, "."))
	command, args := read(servers.Get(ownName))
	wantCommand, wantArgs := read(gjson.ParseBytes(objectField("", p.fields).value))
	return command == wantCommand && args == wantArgs
}

// changeConfiguration adds the servers that move to the configuration.
func (p *Plan) changeConfiguration() error {
	added := p.added()
	switch {
	case p.configOld == nil:
		p.configNew = p.im.Document()
	case len(added) > 0:
		d := openDocument(formatOf(p.config), mcpServers.path, p.configOld)
		for _, one := range added {
			text := one.entry()
			if d.format == jsonFormat {
				text = d.render(one.name, one.fields)
			}
			if err := d.put(text); err != nil {
				return fault.New(fault.BadRequest, "%s: %v: nothing was changed", p.config, err)
			}
		}
		p.configNew = d.bytes()
	default:
		return nil
	}
	return p.loads(p.configNew)
}

// ownCommand is the client's own command, if it is on the PATH. Scripts of Windows are left out: their arguments cannot be quoted
// reliably.
func (m *machine) ownCommand(c *Client, fields []field) []string {
	if c.add == nil || m.program == nil {
		return nil
	}
	program, err := m.program(c.add[0])
	if ext := strings.ToLower(filepath.Ext(program)); err != nil || ext == ".cmd" || ext == ".bat" {
		return nil
	}
	own := gjson.ParseBytes(objectField("", fields).value)
	command := []string{program}
	for _, word := range c.add[1:] {
		switch word {
		case "$ENTRY":
			command = append(command, own.Raw)
		case "$NAMED":
			command = append(command, string(objectField("", append([]field{value("name", ownName)}, fields...)).value))
		case "$COMMAND":
			command = append(command, own.Get("command").String())
			for _, arg := range own.Get("args").Array() {
				command = append(command, arg.String())
			}
		default:
			command = append(command, word)
		}
	}
	return command
}

// Nothing reports whether all is as it should be.
func (p *Plan) Nothing() bool {
	return p.im != nil && p.configNew == nil && len(p.taken)+len(p.put) == 0
}

// Client is the client whose files change.
func (p *Plan) Client() *Client { return p.client }
