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

// Document is the configuration to write.
func (im *Import) Document() []byte {
	var b bytes.Buffer
	b.WriteString("# The configuration of onecall: `onecall schema config` prints all that it may hold.\n")
	written := slices.DeleteFunc(slices.Clone(im.servers), func(one *found) bool { return one.skip != "" })
	if len(written) == 0 {
		b.WriteString(exampleFile)
		return b.Bytes()
	}
	b.WriteString("mcpServers:\n")
	for _, one := range written {
		b.WriteString(one.entry().Text)
	}
	return b.Bytes()
}

// entry is the server as it stands in the configuration, with where it comes from.
func (one *found) entry() entry {
	var b bytes.Buffer
	for _, line := range append([]string{one.file.label()}, one.also...) {
		comment(&b, line)
	}
	for _, line := range one.notes {
		comment(&b, line)
	}
	one.write(&b, one.name)
	return entry{one.name, b.String()}
}

// exampleFile is what is written where no servers are found.
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

// comment writes a line of its own that YAML does not read.
func comment(b *bytes.Buffer, line string) {
	fmt.Fprintf(b, "  # %s\n", textfile.Printable(strings.Join(strings.Fields(line), " ")))
}

// write writes the server under a name. Values keep their spelling.
func (one *found) write(b *bytes.Buffer, name string) {
	fmt.Fprintf(b, "  %s:\n", plainText(name))
	if len(one.unset) > 0 {
		fmt.Fprintf(b, "    disabled: true # set %s, then remove this line\n", textfile.Printable(strings.Join(one.unset, ", ")))
	}
	for _, field := range one.fields {
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

// advice says of a secret in plain text how to keep it elsewhere.
func advice(key, name, value string) string {
	hidden := key == "env" && secret.Name(name) || key == "headers" && config.SecretHeader(name) || key == "oauth" && secret.Name(name)
	if !hidden || value == "" || strings.Contains(value, "${") {
		return ""
	}
	return " # a secret in plain text: better set a variable, and write ${NAME}"
}

// yamlValue is a value in one line of YAML.
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
	// plain is text that no version of YAML takes for anything else, but for the words of notPlain.
	plain    = regexp.MustCompile(`^([A-Za-z_/][A-Za-z0-9_./@~+=-]*|https?://[A-Za-z0-9_./@~+=:?&%-]*[A-Za-z0-9_/])$`)
	notPlain = regexp.MustCompile(`(?i)^(true|false|null|yes|no|on|off|y|n)$`)
)

// plainText is a text in YAML: without quotes where it is beyond doubt, else as JSON, which YAML reads too.
func plainText(text string) string {
	if plain.MatchString(text) && !notPlain.MatchString(text) {
		return text
	}
	return string(rawjson.AppendQuote(nil, text))
}

// WriteNew writes a file that must not be there yet: whole or not at all, for the user's eyes only.
func WriteNew(path string, text []byte) (err error) {
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text()+".tmp")
	defer os.Remove(temporary)
	if err = writeSynced(temporary, text); err != nil {
		return err
	}
	// A link never takes the place of a file, as a rename does.
	if err = os.Link(temporary, path); err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	if _, err := os.Lstat(path); err == nil { // a file system without links
		return fs.ErrExist
	}
	return os.Rename(temporary, path)
}
