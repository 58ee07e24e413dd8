package clients

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// onecallName is the name of onecall among a client's servers, ownFile that of its own configuration among clients.
const onecallName, ownFile = "onecall", "onecall"

// Plan holds the changes that install onecall in a client, or remove it. Apply carries them out.
type Plan struct {
	client *Client
	file   string // the client's file
	before []byte // its text as read; nil: there is no file
	after  []byte // the text to write; nil: the file is removed

	moved, stays      []*clientServer // the client's servers that move to the configuration, and those that do not
	removed, inserted []entry         // entries to remove from and to insert into the client's file

	rules []string // files with the client's rules

	config               string  // path of onecall's configuration; "": the plan removes onecall
	configOld, configNew []byte  // its text as read (nil: there is no file), and the text to write (nil: nothing is written)
	im                   *Import // the servers of the configuration and of the client; nil: the plan removes onecall

	command  []string // the client's command that adds onecall; nil: the file is edited
	fields   []field  // onecall's entry
	record   *record  // what was there before the first installation; nil: onecall was never installed
	warnings []string // what the user should know, shown by Report and Warnings
	apply    func(ctx context.Context) error
}

// Install plans to install onecall in a client. The client's servers move to the configuration, the path of a file that need not exist, and
// the client will start onecall with it.
func Install(c *Client, configuration string) (*Plan, error) {
	m, err := thisMachine()
	if err != nil {
		return nil, err
	}
	command, installed := executablePath()
	if !installed {
		return nil, fault.New(fault.BadRequest,
			"this onecall is a temporary build of go run: first install onecall on the PATH (go install ./cmd/onecall)")
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
	p.rules = m.rulesOf(c)
	if err := p.readConfiguration(); err != nil {
		return nil, err
	}
	if err := p.selectServers(); err != nil {
		return nil, err
	}
	if err := p.changeConfiguration(); err != nil {
		return nil, err
	}
	p.command = m.clientCommand(c, p.fields)
	return p, nil
}

// readTarget reads a client's file and checks that it can be changed. The text is nil if there is no file.
func readTarget(c *Client, file string) ([]byte, error) {
	if err := checkWritable(file); err != nil {
		return nil, err
	}
	text, err := textfile.ReadFound(file, maxClientFile)
	if errors.Is(err, fs.ErrNotExist) {
		if _, readErr := os.Readlink(file); readErr == nil {
			return nil, fault.New(fault.BadRequest, "%s is a link to a file that does not exist: create the file, or remove the link", file)
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
	if _, _, err := d.dataWithout(d.text, onecallName); err != nil {
		return nil, fault.New(fault.BadRequest, "%s: %v: correct it first; nothing was changed", file, err)
	}
	return text, nil
}

// checkWritable refuses a read-only file, because a rename would replace it all the same. A missing file is no error.
func checkWritable(file string) error {
	if info, err := os.Stat(file); err == nil && info.Mode()&0o200 == 0 {
		return fault.New(fault.BadRequest, "%s is read-only: make it writable, then run this again; nothing was changed", file)
	}
	return nil
}

// configurationText returns the text of the configuration; nil: there is none.
func (p *Plan) configurationText() ([]byte, error) {
	text, err := textfile.ReadFound(p.config, config.MaxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fault.New(fault.BadRequest, "%s cannot be read: %v", p.config, textfile.Cause(err))
	}
	return text, nil
}

// readConfiguration reads the servers that the configuration already has: their names are taken. Without a configuration it does nothing.
func (p *Plan) readConfiguration() error {
	text, err := p.configurationText()
	if text == nil || err != nil {
		return err
	}
	if err := p.checkConfiguration(text); err != nil {
		return err
	}
	object, err := formatOf(p.config).json(textfile.WithoutMark(text))
	if err != nil {
		return fault.New(fault.BadRequest, "%s: %v", p.config, err)
	}
	if err := checkWritable(p.config); err != nil {
		return err
	}
	p.configOld = text
	p.im.add(&clientFile{client: ownFile, path: p.config}, gjson.GetBytes(object, "mcpServers"), plainServers)
	for _, srv := range p.im.servers {
		srv.configured = true
	}
	return nil
}

// checkConfiguration reports what is wrong with a text of the configuration.
func (p *Plan) checkConfiguration(text []byte) error {
	if _, faults := config.Parse(p.config, text, p.im.lookup); len(faults) > 0 {
		position := p.config
		if f := faults[0]; f.Line > 0 {
			position = fmt.Sprintf("%s, line %d, column %d,", position, f.Line, f.Column)
		}
		return fault.New(fault.BadRequest, "%s does not load: %s: correct it first; nothing was changed", position, faults[0].Message)
	}
	return nil
}

// maxServers bounds the servers of a client's file. Each is moved by an edit of its own, which is checked against the whole file.
const maxServers = 250

// selectServers decides which of the client's servers move, and plans the text of the client's file without those servers and with onecall.
func (p *Plan) selectServers() error {
	d := openDocument(formatOf(p.file), p.client.servers.path, p.before)
	object, err := d.format.json([]byte(d.text))
	if err != nil {
		return fault.New(fault.BadRequest, "%s: %v", p.file, err)
	}
	configured := len(p.im.servers)
	file := &clientFile{client: p.client.Title, path: p.file, sections: []section{p.client.servers}}
	p.im.readSection(file, gjson.ParseBytes(object), p.client.servers)
	if n := len(p.im.servers) - configured; n > maxServers {
		return fault.New(fault.LimitExceeded,
			"%s has %d servers, and at most %d are moved: move some to %s by hand; nothing was changed", p.file, n, maxServers, p.config)
	}
	p.im.carryRules(p.client.Title, p.rules)
	for _, problem := range p.im.problems {
		p.warnings = append(p.warnings, "cannot be read: "+problem)
	}
	p.im.assignNames()
	for _, srv := range p.im.servers[configured:] {
		if srv.original == onecallName && srv.isOnecall {
			continue
		}
		if srv.skip = srv.reasonToStay(); srv.skip == "" {
			var taken entry
			if taken, err = d.remove(srv.original); err == nil {
				p.removed, p.moved = append(p.removed, taken), append(p.moved, srv)
				continue
			}
			srv.skip = err.Error()
		}
		switch {
		case srv.original == onecallName && srv.disabled:
			return fault.New(fault.BadRequest,
				"%s has a server by the name onecall, which is disabled: enable or remove it in the file, then run this again", p.file)
		case srv.original == onecallName:
			return fault.New(fault.BadRequest,
				"%s has another server by the name onecall, which cannot be moved: %s: rename that server in the file", p.file, srv.skip)
		}
		p.stays = append(p.stays, srv)
	}
	return p.addItself(d)
}

// reasonToStay returns why a server stays in the client; "": it moves.
func (srv *clientServer) reasonToStay() string {
	switch {
	case srv.skip != "" && srv.duplicateOf == nil:
		return srv.skip
	case len(srv.unset) > 0:
		return "set " + strings.Join(srv.unset, ", ") + ", and install again"
	case srv.ignored != "":
		return srv.ignored
	case slices.ContainsFunc(srv.fields, func(f field) bool { return bytes.Contains(f.value, []byte("${workspaceFolder}")) }):
		return "it depends on the folder of the project"
	}
	return ""
}

// addItself adds onecall's entry to the client's document d, unless it is already there and correct, and sets the text to write.
func (p *Plan) addItself(d *document) error {
	if !p.alreadyInstalled(d) {
		added := d.render(onecallName, p.fields)
		replaced, err := d.replaceOnecall(added)
		if err != nil {
			return fault.New(fault.BadRequest, "%s: %v: write onecall's entry by hand; nothing was changed:\n%s", p.file, err, added.Text)
		}
		p.removed, p.inserted = append(p.removed, replaced...), append(p.inserted, added)
	}
	p.after = d.bytes()
	return nil
}

// replaceOnecall inserts onecall's entry, replacing an existing one.
func (d *document) replaceOnecall(added entry) (replaced []entry, err error) {
	_, exists, err := d.dataWithout(d.text, added.Name)
	if err == nil && exists {
		var old entry
		old, err = d.remove(added.Name)
		replaced = append(replaced, old)
	}
	if err != nil {
		return nil, err
	}
	return replaced, d.insert(added)
}

// alreadyInstalled reports whether the client already starts onecall correctly.
func (p *Plan) alreadyInstalled(d *document) bool {
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
	command, args := read(servers.Get(onecallName))
	wantCommand, wantArgs := read(gjson.ParseBytes(objectField("", p.fields).value))
	return command == wantCommand && args == wantArgs
}

// changeConfiguration plans the text of the configuration, with the servers that move to it. If there is no configuration yet, it plans one
// even if no server moves.
func (p *Plan) changeConfiguration() error {
	added := p.added()
	switch {
	case p.configOld == nil:
		p.configNew = p.im.Document()
	case len(added) > 0:
		d := openDocument(formatOf(p.config), mcpServers.path, p.configOld)
		for _, srv := range added {
			text := srv.entry()
			if d.format == jsonFormat {
				text = d.render(srv.name, srv.fields)
			}
			if err := d.insert(text); err != nil {
				return fault.New(fault.BadRequest, "%s: %v: nothing was changed", p.config, err)
			}
		}
		p.configNew = d.bytes()
		p.insertSettings(added)
	default:
		return nil
	}
	return p.checkConfiguration(p.configNew)
}

// insertSettings adds the limits and approvals of servers to the planned configuration. If an entry under functions is in the way, a
// warning names it.
func (p *Plan) insertSettings(added []*clientServer) {
	d := openDocument(formatOf(p.config), []string{"functions"}, p.configNew)
	for _, srv := range added {
		for i, one := range srv.functionEntries() {
			if d.format == jsonFormat {
				one = d.render(one.Name, srv.settings[i].fields)
			}
			_, taken, err := d.dataWithout(d.text, one.Name)
			if err == nil && !taken {
				err = d.insert(one)
			}
			if taken || err != nil {
				p.warnings = append(p.warnings, fmt.Sprintf("left out, because %s cannot be added to functions: %s", one.Name,
					strings.TrimSpace(one.Text)))
			}
		}
	}
	p.configNew = d.bytes()
}

// clientCommand returns the client's command that adds onecall; nil: it has none, or none on the PATH. Windows scripts are ignored, because
// their arguments cannot be quoted reliably.
func (m *machine) clientCommand(c *Client, fields []field) []string {
	if c.add == nil || m.program == nil {
		return nil
	}
	program, err := m.program(c.add[0])
	if ext := strings.ToLower(filepath.Ext(program)); err != nil || ext == ".cmd" || ext == ".bat" {
		return nil
	}
	object := gjson.ParseBytes(objectField("", fields).value)
	command := []string{program}
	for _, word := range c.add[1:] {
		switch word {
		case "$ENTRY":
			command = append(command, object.Raw)
		case "$NAMED":
			command = append(command, string(objectField("", append([]field{value("name", onecallName)}, fields...)).value))
		case "$COMMAND":
			command = append(command, object.Get("command").String())
			for _, arg := range object.Get("args").Array() {
				command = append(command, arg.String())
			}
		default:
			command = append(command, word)
		}
	}
	return command
}

// Empty reports whether the plan changes nothing, as an installation does if onecall is already installed. A removal is never empty.
func (p *Plan) Empty() bool {
	return p.im != nil && p.configNew == nil && len(p.removed)+len(p.inserted) == 0
}

// Client returns the client whose files change.
func (p *Plan) Client() *Client { return p.client }
