package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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

// maxClientFile bounds a client's file: Claude Code keeps more than its servers in one.
const maxClientFile = 64 << 20

// found is one server of a client's file.
type found struct {
	name   string
	file   *clientFile
	fields []field
	notes  []string // what a reader of the configuration should know
	also   []string // further places that hold the same
	unset  []string // variables that are not set: the server is written as disabled
	skip   string   // why it is not written, "" when it is

	original string // its name in the file
	itself   bool   // it is onecall
	present  bool   // it stands in the configuration already
	lost     string // which of its settings onecall does not carry out
	twin     *found // an earlier one that says the same
}

// field is one key of a server, with its value as JSON.
type field struct {
	key   string
	value json.RawMessage
}

// Import gathers servers from the files of clients.
type Import struct {
	project string // the working directory
	out     string // the folder of the file to write
	lookup  func(string) (string, bool)

	looked   []string // files that are not there
	problems []string // files that are there and cannot be used
	servers  []*found
}

// read adds the servers of a file. A file that is not there is no error.
func (im *Import) read(file clientFile) error {
	text, err := readClientFile(file.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		im.looked = append(im.looked, file.path)
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
func (im *Import) readSection(file *clientFile, text gjson.Result, section section) {
	for _, servers := range im.members(text, section.path) {
		im.add(file, servers, section.form)
	}
}

// readClientFile reads a client's file as JSON.
func readClientFile(path string) ([]byte, error) {
	text, err := textfile.Read(path, maxClientFile)
	if err != nil {
		return nil, err
	}
	if len(text) > maxClientFile {
		return nil, fmt.Errorf("it has more than %d bytes", maxClientFile)
	}
	return formatOf(path).json(textfile.WithoutMark(text))
}

// members are the values at a path of keys.
func (im *Import) members(value gjson.Result, path []string) []gjson.Result {
	if len(path) == 0 {
		return []gjson.Result{value}
	}
	var all []gjson.Result
	for key, member := range ordered(value) {
		if key == path[0] || path[0] == "*" && sameFolder(key, im.project) {
			all = append(all, im.members(member, path[1:])...)
		}
	}
	return all
}

// ordered gives the members of an object, of a key that stands twice the last.
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

// add adds the servers of one object.
func (im *Import) add(file *clientFile, servers gjson.Result, form form) {
	for name, server := range ordered(servers) {
		one := &found{name: name, original: name, file: file}
		im.servers = append(im.servers, one)
		switch {
		case !server.IsObject():
			one.skip = "it is not an object"
			continue
		case steps.FoldName(config.SourceName(name)) == "":
			one.skip = "its name has no letters or digits of ASCII"
			continue
		case server.Get("disabled").Bool() || server.Get("enabled").Type == gjson.False:
			one.skip = "it is disabled"
			continue
		}
		fields, skip := members(server), ""
		if form != nil {
			fields, skip = form(server)
		}
		switch {
		case skip != "":
			one.skip = skip
			continue
		case isOnecall(gjson.ParseBytes(objectField("", fields).value)):
			one.skip, one.itself, one.fields = "it is onecall itself", true, fields
			continue
		}
		im.fields(one, fields)
		im.try(one)
	}
}

// runners are the programs that run another one, with the words of which one must follow for it.
var runners = map[string][]string{
	"npx": nil, "pnpx": nil, "bunx": nil, "uvx": nil, "env": nil, "sudo": nil, "nohup": nil,
	"npm": {"exec", "x"}, "pnpm": {"dlx", "exec", "x"}, "yarn": {"dlx", "exec"}, "bun": {"x"}, "go": {"run", "tool"}, "pipx": {"run"}, "cmd": {"/c"},
}

// runnerFlags are the flags of runners that are followed by a value.
var runnerFlags = map[string]bool{"-p": true, "--package": true, "--from": true, "--registry": true, "-C": true, "--cache": true, "-u": true}

// isOnecall reports whether a server is onecall, which must not start itself: by its command, or by the package that a
// runner runs. Other arguments may name anything.
func isOnecall(server gjson.Result) bool {
	words := []string{server.Get("command").String()}
	for _, arg := range server.Get("args").Array() {
		words = append(words, arg.String())
	}
	for len(words) > 0 {
		program := baseName(words[0])
		if program == "onecall" {
			return true
		}
		follows, runs := runners[program]
		words = words[1:]
		if !runs {
			return false
		}
		if follows != nil {
			if len(words) == 0 || !slices.Contains(follows, strings.ToLower(words[0])) {
				return false
			}
			words = words[1:]
		}
		words = afterFlags(words)
	}
	return false
}

// afterFlags leaves out flags, and assignments of variables.
func afterFlags(words []string) []string {
	for len(words) > 0 {
		switch {
		case runnerFlags[words[0]]:
			words = words[min(2, len(words)):]
		case strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "="):
			words = words[1:]
		default:
			return words
		}
	}
	return nil
}

// baseName is the name of a program or package without its folder, version and ending.
func baseName(word string) string {
	parts := strings.FieldsFunc(strings.ToLower(word), func(c rune) bool { return c == '/' || c == '\\' })
	if len(parts) == 0 {
		return ""
	}
	base, _, _ := strings.Cut(parts[len(parts)-1], "@")
	for _, ending := range []string{".exe", ".cmd", ".bat"} {
		base = strings.TrimSuffix(base, ending)
	}
	return base
}

// fields takes over the keys that onecall knows, and notes those that have a meaning which is lost.
func (im *Import) fields(one *found, fields []field) {
	for _, written := range fields {
		value := gjson.ParseBytes(written.value)
		key, lost := config.ServerKey(written.key)
		if key == "" {
			if lost != "" {
				one.lost = written.key + " is left out: " + lost
				one.notes = append(one.notes, one.lost)
			}
			continue
		}
		if empty := value.Type == gjson.Null || value.IsArray() && len(value.Array()) == 0 || value.IsObject() && len(value.Map()) == 0; empty ||
			key == "disabled" || key == "enabled" {
			continue
		}
		one.fields = append(one.fields, field{key, im.rewritten(one, key, value.Raw)})
	}
}

var (
	inputForm = regexp.MustCompile(`\$\{input:([^}"\\]+)\}`)
	notInName = regexp.MustCompile(`[^A-Z0-9]+`)
)

// rewritten puts variables of the environment in the place of what only the client can fill in.
func (im *Import) rewritten(one *found, key, value string) json.RawMessage {
	value = inputForm.ReplaceAllStringFunc(value, func(form string) string {
		id := inputForm.FindStringSubmatch(form)[1]
		name := strings.Trim(notInName.ReplaceAllString(strings.ToUpper(id), "_"), "_")
		if name == "" || name[0] <= '9' {
			name = "INPUT_" + name
		}
		one.notes = append(one.notes, one.file.client+" asks for "+id+": onecall reads it from the variable "+name)
		return "${" + name + "}"
	})
	if one.file.folder != "" && !sameFolder(one.file.folder, im.out) {
		folder := strings.Trim(string(gjson.AppendJSONString(nil, one.file.folder)), `"`)
		value = strings.ReplaceAll(value, "${workspaceFolder}", folder)
	}
	if key == "cwd" { // relative to the client's project, not to the configuration
		if folder := gjson.Parse(value).String(); one.file.folder != "" && !filepath.IsAbs(folder) && !strings.HasPrefix(folder, "${") && !sameFolder(one.file.folder, im.out) {
			return gjson.AppendJSONString(nil, filepath.Join(one.file.folder, folder))
		}
	}
	return json.RawMessage(value)
}

// try reads the server as the configuration will be read: what is wrong makes it skipped, and variables that are not set
// make it disabled.
func (im *Import) try(one *found) {
	unset := map[string]bool{}
	lookup := func(name string) (string, bool) {
		value, ok := im.lookup(name)
		if !ok {
			unset[name] = true
			return "https://unset.invalid", true
		}
		return value, true
	}
	var b bytes.Buffer
	b.WriteString("mcpServers:\n")
	one.write(&b, "x")
	if _, faults := config.Parse(filepath.Join(im.out, "onecall.yaml"), b.Bytes(), lookup); len(faults) > 0 {
		one.skip = strings.TrimPrefix(faults[0].At, "/mcpServers/x/") + ": " + faults[0].Message
		if faults[0].At == "/mcpServers/x" {
			one.skip = faults[0].Message
		}
		return
	}
	for name := range unset {
		one.unset = append(one.unset, name)
	}
	slices.Sort(one.unset)
}

// settle gives each server that is written a name of its own: what is the same under the same name is written once.
func (im *Import) settle() {
	taken := map[string]*found{}
	for _, name := range config.Embedded {
		taken[steps.FoldName(name)] = nil
	}
	for _, one := range im.servers {
		if name := steps.FoldName(config.SourceName(one.name)); one.present {
			taken[name] = one
			if one.skip != "" {
				taken[name] = nil
			}
		}
		if one.skip != "" || one.present {
			continue
		}
		original, base := one.name, one.name
		if fit := config.SourceName(base); len(fit) > config.MaxSourceName-8 { // room for a number
			base = fit[:config.MaxSourceName-8]
		}
		for n := 2; ; n++ {
			other, clash := taken[steps.FoldName(config.SourceName(one.name))]
			if !clash {
				break
			}
			if other != nil && other != one && other.same(one) {
				other.also = append(other.also, one.file.label())
				one.twin = other
				one.skip = "it is the same as that of " + other.file.label()
				break
			}
			one.name = fmt.Sprintf("%s-%d", base, n)
		}
		if one.skip != "" {
			one.name = original
			continue
		}
		if one.name != original {
			one.notes = append(one.notes, "renamed from "+original+": that name is taken")
		}
		taken[steps.FoldName(config.SourceName(one.name))] = one
	}
}

func (file *clientFile) label() string { return file.client + ", " + file.path }

// same reports whether two servers say the same, whatever the order of their keys, and whether or not they name the type
// that follows from the others.
func (one *found) same(other *found) bool {
	values := func(f *found) map[string]string {
		m := map[string]string{}
		for _, field := range f.fields {
			var value any
			if json.Unmarshal(field.value, &value) == nil {
				canonical, _ := json.Marshal(value) // of what was read as JSON: never fails
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
		if meant := config.Transport(kind); meant != "" {
			kind = meant
		}
		m["type"] = kind
		return m
	}
	return reflect.DeepEqual(values(one), values(other))
}
