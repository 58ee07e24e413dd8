package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/textfile"
	"github.com/onecall-mcp/onecall/steps"
)

// maxClientFile limits a client's file, in bytes. It is large because Claude Code also stores other data in the file with its servers.
const maxClientFile = 16 << 20

// clientServer is a server read from a client's file or from onecall's configuration, and what becomes of it.
type clientServer struct {
	name       string
	file       *clientFile
	fields     []field
	settings   []functionSettings // of its functions
	comments   []string           // comments to write above the server in the configuration
	otherFiles []string           // labels of other files with the same server
	unset      []string           // environment variables that the server needs but that are not set: it is written as disabled
	skip       string             // why the server is not written; "": it is written

	original    string        // its name in the file; name may differ, to be unique
	isOnecall   bool          // the server is onecall itself
	disabled    bool          // the client does not start the server, which may be onecall itself
	configured  bool          // the server is already in the configuration
	ignored     string        // the last setting that onecall leaves out, and what is lost without that setting; "": none that matters
	duplicateOf *clientServer // an earlier server with the same settings; nil: none
}

// field is one key of a server with its value as JSON.
type field struct {
	key   string
	value json.RawMessage
}

// Import collects servers from the files of clients.
type Import struct {
	project string                      // the working directory
	out     string                      // the folder of the configuration to write
	lookup  func(string) (string, bool) // looks up an environment variable

	missing  []string // files that do not exist
	problems []string // messages about files that exist but cannot be used
	servers  []*clientServer
}

// read adds the servers of a file. If the file is missing or cannot be used, read records that for the report and returns the error.
func (im *Import) read(file clientFile) error {
	text, err := readClientFile(file.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		im.missing = append(im.missing, file.path)
		return err
	case err != nil:
		im.problems = append(im.problems, fmt.Sprintf("%s (%s): %v", file.path, file.client, textfile.Cause(err)))
		return err
	}
	for _, section := range file.sections {
		im.readSection(&file, gjson.ParseBytes(text), section)
	}
	return nil
}

// readSection adds the servers of a section.
func (im *Import) readSection(file *clientFile, root gjson.Result, section section) {
	for _, servers := range im.valuesAt(root, section.path) {
		im.add(file, servers, section)
	}
}

// readClientFile reads a client's file and converts it to JSON.
func readClientFile(path string) ([]byte, error) {
	text, err := textfile.ReadFound(path, maxClientFile)
	if err != nil {
		return nil, err
	}
	if len(text) > maxClientFile {
		return nil, fmt.Errorf("it has more than %d bytes", maxClientFile)
	}
	return formatOf(path).json(textfile.WithoutMark(text))
}

// valuesAt returns the values at a path of keys. There may be several: the key * matches every key that is a path of the project's folder.
func (im *Import) valuesAt(value gjson.Result, path []string) []gjson.Result {
	if len(path) == 0 {
		return []gjson.Result{value}
	}
	var all []gjson.Result
	for key, member := range ordered(value) {
		if key == path[0] || path[0] == "*" && sameFolder(key, im.project) {
			all = append(all, im.valuesAt(member, path[1:])...)
		}
	}
	return all
}

// ordered yields the members of an object in the order of the text. A duplicate key is yielded once, with its last value.
func ordered(object gjson.Result) func(yield func(string, gjson.Result) bool) {
	return func(yield func(string, gjson.Result) bool) {
		if !object.IsObject() {
			return
		}
		var keys []string
		last := map[string]gjson.Result{}
		object.ForEach(func(key, value gjson.Result) bool {
			if _, twice := last[key.String()]; !twice {
				keys = append(keys, key.String())
			}
			last[key.String()] = value
			return true
		})
		for _, key := range keys {
			if !yield(key, last[key]) {
				return
			}
		}
	}
}

func sameFolder(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	one, err := os.Stat(a)
	other, failed := os.Stat(b)
	return err == nil && failed == nil && os.SameFile(one, other)
}

// add adds the servers of an object.
func (im *Import) add(file *clientFile, servers gjson.Result, section section) {
	for name, server := range ordered(servers) {
		srv := &clientServer{name: name, original: name, file: file}
		im.servers = append(im.servers, srv)
		switch {
		case !server.IsObject():
			srv.skip = "it is not an object"
			continue
		case steps.FoldName(config.SourceName(name)) == "":
			srv.skip = "its name has no ASCII letters or digits"
			continue
		case server.Get("disabled").Bool() || server.Get("enabled").Type == gjson.False:
			srv.skip, srv.disabled = "it is disabled", true
			continue
		}
		fields, skip := members(server), ""
		if section.form != nil {
			fields, skip = section.form(server)
		}
		switch {
		case skip != "":
			srv.skip = skip
			continue
		case isOnecall(gjson.ParseBytes(objectField("", fields).value)):
			srv.skip, srv.isOnecall, srv.fields = "it is onecall itself", true, fields
			continue
		}
		im.importFields(srv, fields)
		if file.client != ownFile {
			srv.carrySettings(server, section)
		}
		im.validate(srv)
	}
}

// carriedKeys are keys of an entry that carrySettings reads.
var carriedKeys = []string{"timeout", "trust", "autoApprove", "alwaysAllow"}

// importFields adds the fields that onecall knows to the server, under onecall's keys. For each ignored field that matters, it adds a
// comment.
func (im *Import) importFields(srv *clientServer, fields []field) {
	for _, f := range fields {
		value := gjson.ParseBytes(f.value)
		key, lost := config.ServerKey(f.key)
		if slices.Contains(carriedKeys, f.key) && srv.file.client != ownFile {
			continue
		}
		if key == "" {
			if lost != "" {
				srv.ignored = f.key + " is left out: " + lost
				srv.comments = append(srv.comments, srv.ignored)
			}
			continue
		}
		if empty := value.Type == gjson.Null || value.IsArray() && len(value.Array()) == 0 || value.IsObject() && len(value.Map()) == 0; empty ||
			key == "disabled" || key == "enabled" {
			continue
		}
		if key == "args" && srv.file.folder == "" {
			srv.warnOfRelativePaths(value)
		}
		srv.fields = append(srv.fields, field{key, im.convertVariables(srv, key, value.Raw)})
	}
}

// warnOfRelativePaths adds a comment for each argument that is a relative path. In a file that belongs to no known project, such a path
// depends on the folder in which onecall is started.
func (srv *clientServer) warnOfRelativePaths(args gjson.Result) {
	for _, arg := range args.Array() {
		switch text := filepath.ToSlash(arg.String()); {
		case text == ".", text == "..", strings.HasPrefix(text, "./"), strings.HasPrefix(text, "../"):
			srv.comments = append(srv.comments, "its argument "+arg.String()+" is relative to the folder that onecall is started in")
		}
	}
}

var (
	// inputVariable matches ${input:ID}, for which the client asks the user.
	inputVariable = regexp.MustCompile(`\$\{input:([^}"\\]+)\}`)
	// notInName matches characters that become _ in the name of an environment variable.
	notInName = regexp.MustCompile(`[^A-Z0-9]+`)
)

// convertVariables replaces what only the client can expand. ${input:ID} becomes an environment variable. If the project's folder is known
// and does not hold the configuration, ${workspaceFolder} becomes that folder, and a relative cwd becomes absolute.
func (im *Import) convertVariables(srv *clientServer, key, value string) json.RawMessage {
	value = inputVariable.ReplaceAllStringFunc(value, func(input string) string {
		id := inputVariable.FindStringSubmatch(input)[1]
		name := strings.Trim(notInName.ReplaceAllString(strings.ToUpper(id), "_"), "_")
		if name == "" || name[0] <= '9' {
			name = "INPUT_" + name
		}
		srv.comments = append(srv.comments, srv.file.client+" asks for "+id+": onecall reads it from the variable "+name)
		return "${" + name + "}"
	})
	if srv.file.folder != "" && !sameFolder(srv.file.folder, im.out) {
		folder := gjson.AppendJSONString(nil, srv.file.folder)
		value = strings.ReplaceAll(value, "${workspaceFolder}", string(folder[1:len(folder)-1]))
	}
	if key == "cwd" { // relative to the client's project, not to the configuration
		if folder := gjson.Parse(value).String(); srv.file.folder != "" && !filepath.IsAbs(folder) && !strings.HasPrefix(folder, "${") &&
			!sameFolder(srv.file.folder, im.out) {
			return gjson.AppendJSONString(nil, filepath.Join(srv.file.folder, folder))
		}
	}
	return json.RawMessage(value)
}

// validate decodes the server as part of a configuration. A server with a fault is skipped, and one with missing variables is disabled.
func (im *Import) validate(srv *clientServer) {
	unset := map[string]bool{}
	lookup := func(name string) (string, bool) {
		value, ok := im.lookup(name)
		if !ok {
			unset[name] = true
			return "https://unset.invalid", true // a value that most fields accept, even one that must be a URL
		}
		return value, true
	}
	var b bytes.Buffer
	b.WriteString("mcpServers:\n")
	srv.write(&b, "x")
	_, faults := config.Parse(filepath.Join(im.out, "onecall.yaml"), b.Bytes(), lookup)
	srv.unset = slices.Sorted(maps.Keys(unset))
	if len(faults) > 0 {
		srv.skip = strings.TrimPrefix(faults[0].At, "/mcpServers/x/") + ": " + faults[0].Message
		if faults[0].At == "/mcpServers/x" {
			srv.skip = faults[0].Message
		}
	}
}

// assignNames gives each server that is written a unique name. Of servers with the same name and settings, only the first is written.
func (im *Import) assignNames() {
	taken := map[string]*clientServer{} // the server with a folded name; nil: the name belongs to something that no server equals
	for _, name := range config.Embedded {
		taken[steps.FoldName(name)] = nil
	}
	for _, srv := range im.servers {
		if name := steps.FoldName(config.SourceName(srv.name)); srv.configured {
			taken[name] = srv
			if srv.skip != "" {
				taken[name] = nil
			}
		}
		if srv.skip != "" || srv.configured {
			continue
		}
		original, base := srv.name, srv.name
		if fit := config.SourceName(base); len(fit) > config.MaxSourceName-8 { // leaves room for a number
			base = fit[:config.MaxSourceName-8]
		}
		for n := 2; ; n++ {
			other, clash := taken[steps.FoldName(config.SourceName(srv.name))]
			if !clash {
				break
			}
			if other != nil && other != srv && other.same(srv) {
				other.otherFiles = append(other.otherFiles, srv.file.label())
				if len(srv.settings) > 0 && !reflect.DeepEqual(srv.settings, other.settings) {
					other.leaveOut("the limits and approvals of "+srv.file.label(), "others are taken")
				}
				srv.duplicateOf = other
				srv.skip = "it is the same as the one in " + other.file.label()
				break
			}
			srv.name = fmt.Sprintf("%s-%d", base, n)
		}
		if srv.skip != "" {
			srv.name = original
			continue
		}
		if srv.name != original {
			srv.comments = append(srv.comments, "renamed from "+original+": that name is taken")
		}
		taken[steps.FoldName(config.SourceName(srv.name))] = srv
	}
}

func (file *clientFile) label() string { return file.client + ", " + file.path }

// same reports whether two servers have the same settings. The order of keys does not matter, and a missing type counts as the implied one.
func (srv *clientServer) same(other *clientServer) bool {
	values := func(s *clientServer) map[string]string {
		m := map[string]string{}
		for _, field := range s.fields {
			var value any
			if json.Unmarshal(field.value, &value) == nil {
				canonical, _ := json.Marshal(value) // never fails, as it was read from JSON
				m[field.key] = string(canonical)
			}
		}
		kind := "stdio"
		if _, remote := m["url"]; remote {
			kind = "http"
		}
		if written, ok := m["type"]; ok {
			kind = strings.Trim(written, `"`)
		}
		if transport := config.Transport(kind); transport != "" {
			kind = transport
		}
		m["type"] = kind
		return m
	}
	return reflect.DeepEqual(values(srv), values(other))
}
