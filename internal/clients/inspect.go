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

// FileState is what Inspect found in a client's file. Missing files have none.
type FileState struct {
	Client  *Client
	File    string
	Project bool     // the project's file: onecall init reads it but never writes it
	Problem string   // why the file cannot be used; "": it can
	Starts  []Start  // the entries that start onecall
	Others  []string // names of the other servers that the client starts itself
}

// Start is an entry that starts onecall.
type Start struct {
	Name          string // the name of the entry
	Command       string
	Serves        bool   // it runs the command serve
	Configuration string // the value of --config, or else of ONECALL_CONFIG; "": neither is set
}

// Inspect reads the files of all clients on this machine, including those of the project in the working directory.
func Inspect() ([]FileState, error) {
	m, err := thisMachine()
	if err != nil {
		return nil, err
	}
	if m.project, err = os.Getwd(); err != nil {
		return nil, fault.New(fault.BadRequest, "the working directory is not known: %v", textfile.Cause(err))
	}
	return m.inspect(), nil
}

func (m *machine) inspect() (all []FileState) {
	for _, file := range m.clientFiles() {
		if i := slices.IndexFunc(all, func(s FileState) bool { return s.File == file.path && s.Client.Title == file.client }); i >= 0 {
			all[i].Project = false // the project's folder is the user's folder, and this is the user's own file
			continue
		}
		// This reads only which servers the file has, whatever the values of their variables.
		im := &Import{project: m.project, out: m.project, lookup: func(string) (string, bool) { return "", false }}
		err := im.read(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		i := slices.IndexFunc(Table, func(c *Client) bool { return c.Title == file.client })
		seen := FileState{Client: Table[i], File: file.path, Project: file.folder != ""}
		if err != nil {
			seen.Problem = textfile.Cause(err).Error()
		}
		for _, srv := range im.servers {
			switch {
			case srv.isOnecall:
				seen.Starts = append(seen.Starts, startOf(srv))
			case (srv.skip == "" || len(srv.unset) > 0) && steps.FoldName(srv.name) != onecallName: // onecall may also be reached by URL
				seen.Others = append(seen.Others, srv.name)
			}
		}
		all = append(all, seen)
	}
	return all
}

// startOf returns what a client's entry that starts onecall says.
func startOf(srv *clientServer) Start {
	entry := gjson.ParseBytes(objectField("", srv.fields).value)
	s := Start{Name: srv.name, Command: entry.Get("command").String()}
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
