package clients

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// Document returns the configuration to write: the servers that are not skipped, or only comments with an example if there are none.
func (im *Import) Document() []byte {
	var b bytes.Buffer
	b.WriteString("# The configuration of onecall: `onecall schema config` prints all that it may hold.\n")
	written := slices.DeleteFunc(slices.Clone(im.servers), func(srv *clientServer) bool { return srv.skip != "" })
	if len(written) == 0 {
		b.WriteString(exampleFile)
		return b.Bytes()
	}
	b.WriteString("mcpServers:\n")
	for _, srv := range written {
		b.WriteString(srv.entry().Text)
	}
	header := "functions:\n"
	for _, srv := range written {
		for _, one := range srv.functionEntries() {
			b.WriteString(header + one.Text)
			header = ""
		}
	}
	return b.Bytes()
}

// entry returns the server as an entry of the configuration, with a comment on its origin.
func (srv *clientServer) entry() entry {
	var b bytes.Buffer
	for _, line := range append([]string{srv.file.label()}, srv.otherFiles...) {
		writeComment(&b, line)
	}
	for _, line := range srv.comments {
		writeComment(&b, line)
	}
	srv.write(&b, srv.name)
	return entry{srv.name, b.String()}
}

// exampleFile is written if no servers are found.
const exampleFile = `# mcpServers:
#   files:
#     command: npx
#     args: ["-y", "@modelcontextprotocol/server-filesystem", "."]
#   remote:
#     url: https://mcp.example.com/mcp
#     headers:
#       Authorization: Bearer ${MCP_TOKEN}
# openapi:
#   petstore:
#     spec: ./petstore.yaml
# http:
#   allow: [api.example.com]
`

// writeComment writes a YAML comment on a line of its own, indented as an entry of mcpServers.
func writeComment(b *bytes.Buffer, line string) {
	fmt.Fprintf(b, "  # %s\n", textfile.Printable(strings.Join(strings.Fields(line), " ")))
}

// write writes the server under a name. Values are unchanged.
func (srv *clientServer) write(b *bytes.Buffer, name string) {
	fmt.Fprintf(b, "  %s:\n", plainText(name))
	if len(srv.unset) > 0 {
		fmt.Fprintf(b, "    disabled: true # set %s, then remove this line\n", textfile.Printable(strings.Join(srv.unset, ", ")))
	}
	for _, field := range srv.fields {
		value := gjson.ParseBytes(field.value)
		if !value.IsObject() {
			fmt.Fprintf(b, "    %s: %s\n", field.key, yamlValue(value))
			continue
		}
		fmt.Fprintf(b, "    %s:\n", field.key)
		for key, member := range ordered(value) {
			fmt.Fprintf(b, "      %s: %s%s\n", plainText(key), yamlValue(member), advice(field.key, key, member.String()))
		}
	}
}

// advice returns a comment that says how to keep a plain-text secret elsewhere; "": the value is not such a secret.
func advice(key, name, value string) string {
	hidden := key == "env" && secret.Name(name) || key == "headers" && config.SecretHeader(name) || key == "oauth" && secret.Name(name)
	if !hidden || value == "" || strings.Contains(value, "${") {
		return ""
	}
	return " # a secret in plain text: better set a variable, and write ${NAME}"
}

// yamlValue returns a value as one line of YAML.
func yamlValue(value gjson.Result) string {
	if value.Type == gjson.String {
		return plainText(value.String())
	}
	if !value.IsArray() {
		var b bytes.Buffer
		if err := json.Compact(&b, []byte(value.Raw)); err != nil {
			return "null"
		}
		return b.String()
	}
	var items []string
	for _, item := range value.Array() {
		if item.Type == gjson.String {
			items = append(items, string(gjson.AppendJSONString(nil, item.String())))
		} else {
			items = append(items, yamlValue(item))
		}
	}
	return "[" + strings.Join(items, ", ") + "]"
}

var (
	// plain matches text that every version of YAML reads as a string, except for the words of notPlain.
	plain    = regexp.MustCompile(`^([A-Za-z_/][A-Za-z0-9_./@~+=-]*|https?://[A-Za-z0-9_./@~+=:?&%-]*[A-Za-z0-9_/])$`)
	notPlain = regexp.MustCompile(`(?i)^(true|false|null|yes|no|on|off|y|n)$`)
)

// plainText returns a text as YAML: without quotes if that is unambiguous, else as JSON, which is also YAML.
func plainText(text string) string {
	if plain.MatchString(text) && !notPlain.MatchString(text) {
		return text
	}
	return string(rawjson.AppendQuote(nil, text))
}

// WriteNew creates a file, atomically and for this user only. If the file exists, the error is fs.ErrExist.
func WriteNew(path string, text []byte) (err error) {
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text()+".tmp")
	defer os.Remove(temporary)
	if err = writeSynced(temporary, text); err != nil {
		return err
	}
	// Unlike a rename, a link never replaces an existing file.
	if err = os.Link(temporary, path); err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	// The file system may have no links. Checking and renaming instead is not atomic.
	if _, err := os.Lstat(path); err == nil {
		return fs.ErrExist
	}
	return os.Rename(temporary, path)
}
