package clients

import (
	"fmt"
	"path"
	"strings"
)

// displayed are the systems as documents show them.
var displayed = []struct {
	name    string
	machine machine
}{
	{"Linux", machine{system: "linux", home: "~", getenv: func(string) string { return "" }}},
	{"macOS", machine{system: "darwin", home: "~", getenv: func(string) string { return "" }}},
	{"Windows", machine{system: "windows", home: "%USERPROFILE%", getenv: func(name string) string {
		if name == "APPDATA" || name == "LOCALAPPDATA" {
			return "%" + name + "%"
		}
		return ""
	}}},
}

// Index is the table of all clients, in Markdown.
func Index() string {
	var b strings.Builder
	b.WriteString("| client | `--install` | file on Linux | servers under | its own command |\n|---|---|---|---|---|\n")
	for _, c := range Table {
		own := ""
		if c.add != nil {
			own = "`" + strings.Join(c.add[:min(3, len(c.add)-1)], " ") + "`"
		}
		fmt.Fprintf(&b, "| [%s](%s.md) | `%s` | %s | `%s` | %s |\n", c.Title, c.ID, c.ID, c.files(&displayed[0].machine, false), strings.Join(c.servers.path, "."), own)
	}
	return b.String()
}

// Reference tells of a client's files and of onecall's entry in them, in Markdown.
func (c *Client) Reference() string {
	var b strings.Builder
	b.WriteString("| system | file |\n|---|---|\n")
	for i := range displayed {
		fmt.Fprintf(&b, "| %s | %s |\n", displayed[i].name, c.files(&displayed[i].machine, false))
	}
	for _, p := range c.places {
		if p.variable != "" {
			fmt.Fprintf(&b, "\nThe variable `%s` names another folder.\n", p.variable)
		}
	}
	if old := c.files(&displayed[0].machine, true); old != "" {
		fmt.Fprintf(&b, "\n`onecall init` also reads %s (on Linux).\n", old)
	}
	if len(c.project) > 0 {
		var names []string
		for _, p := range c.project {
			names = append(names, "`"+path.Join(p.folder, p.file)+"`")
		}
		fmt.Fprintf(&b, "\nOf a project, `onecall init` reads %s, and never writes there.\n", strings.Join(names, " and "))
	}
	file := c.places[len(c.places)-1].file
	for i := len(c.places) - 1; i >= 0 && c.places[i].old; i-- {
		file = c.places[0].file
	}
	format := formatOf(file)
	d := openDocument(format, c.servers.path, nil)
	_ = d.put(d.render(ownName, c.fields("/usr/local/bin/onecall", []string{"serve", "--config", "/home/me/.config/onecall/onecall.yaml"})))
	fmt.Fprintf(&b, "\nA file with nothing but onecall:\n\n```%s\n%s```\n", strings.ToLower(string(format)), d.bytes())
	if c.add != nil {
		fmt.Fprintf(&b, "\n`init --install` has `%s` add it where that is on the `PATH`.\n", strings.Join(c.add[:min(3, len(c.add)-1)], " "))
	}
	return b.String()
}

// files are the client's files on a machine: those that are written, or those that are only read.
func (c *Client) files(m *machine, old bool) string {
	var all []string
	for _, p := range c.places {
		if p.old != old || !m.has(p) {
			continue
		}
		file := m.path(p)
		if m.system == "windows" {
			file = strings.ReplaceAll(file, "/", `\`)
		}
		all = append(all, "`"+file+"`")
	}
	if old {
		return strings.Join(all, ", ")
	}
	return strings.Join(all, ", else ")
}
