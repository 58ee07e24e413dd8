package clients

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/textfile"
	"github.com/onecall-mcp/onecall/steps"
)

// Seen is what a file of a client says.
type Seen struct {
	Client  *Client
	File    string
	Project bool     // the file is the project's: onecall init reads it, and never writes it
	Problem string   // why the file cannot be used; "": it can
	Starts  []Start  // the entries that start onecall
	Beside  []string // names of the servers that the client starts itself
}

// Start is an entry that starts onecall.
type Start struct {
	Name          string // of the entry
	Command       string
	Serves        bool   // it runs the verb serve
	Configuration string // what it has for --config, or else for ONECALL_CONFIG; "": nothing
}

// Inspect reads the files of all clients on this machine, those of the project in the working directory among them.
func Inspect() ([]Seen, error) {
	m, err := thisMachine()
	if err != nil {
		return nil, err
	}
	if m.project, err = os.Getwd(); err != nil {
		return nil, fault.New(fault.BadRequest, "the working directory is not known: %v", textfile.Cause(err))
	}
	return m.inspect(), nil
}

func (m *machine) inspect() (all []Seen) {
	for _, file := range m.clientFiles() {
		if i := slices.IndexFunc(all, func(s Seen) bool { return s.File == file.path && s.Client.Title == file.client }); i >= 0 {
			all[i].Project = false // the project is the user's folder
			continue
		}
		im := &Import{project: m.project, out: m.project, lookup: func(string) (string, bool) { return "", true }}
		err := im.read(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		i := slices.IndexFunc(Table, func(c *Client) bool { return c.Title == file.client })
		seen := Seen{Client: Table[i], File: file.path, Project: file.folder != ""}
		if err != nil {
			seen.Problem = textfile.Cause(err).Error()
		}
		for _, one := range im.servers {
			switch {
			case one.itself:
				seen.Starts = append(seen.Starts, one.start())
			case one.skip == "" && steps.FoldName(one.name) != ownName: // onecall may be reached by its URL
				seen.Beside = append(seen.Beside, one.name)
			}
		}
		all = append(all, seen)
	}
	return all
}

// start reads an entry that is onecall.
func (one *found) start() Start {
	entry := gjson.ParseBytes(objectField("", one.fields).value)
	s := Start{Name: one.name, Command: entry.Get("command").String()}
	s.Configuration = entry.Get("env.ONECALL_CONFIG").String()
	args := entry.Get("args").Array()
	for i := range args {
		s.Serves = s.Serves || args[i].String() == "serve"
		if path, ok := strings.CutPrefix(args[i].String(), "--config="); ok {
			s.Configuration = path
		}
		if args[i].String() == "--config" && i+1 < len(args) {
			s.Configuration = args[i+1].String()
		}
	}
	return s
}
