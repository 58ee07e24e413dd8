package clients

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// documentedSystems are the operating systems for which the documentation shows the paths of files.
var documentedSystems = []struct {
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

// Index returns a table of all clients, in Markdown.
func Index() string {
	var b strings.Builder
	b.WriteString("| client | `--install` | file on Linux | servers under | its own command |\n|---|---|---|---|---|\n")
	for _, c := range Table {
		command := ""
		if c.add != nil {
			command = "`" + strings.Join(c.add[:min(3, len(c.add)-1)], " ") + "`"
		}
		fmt.Fprintf(&b, "| [%s](%s.md) | `%s` | %s | `%s` | %s |\n", c.Title, c.ID, c.ID, c.files(&documentedSystems[0].machine, false),
			strings.Join(c.servers.path, "."), command)
	}
	return b.String()
}

// Reference describes a client's files and onecall's entry in them, in Markdown.
func (c *Client) Reference() string {
	var b strings.Builder
	b.WriteString("| system | file |\n|---|---|\n")
	for i := range documentedSystems {
		fmt.Fprintf(&b, "| %s | %s |\n", documentedSystems[i].name, c.files(&documentedSystems[i].machine, false))
	}
	for _, location := range c.locations {
		if location.variable != "" {
			fmt.Fprintf(&b, "\nThe variable `%s` sets another folder.\n", location.variable)
		}
	}
	if also := c.files(&documentedSystems[0].machine, true); also != "" {
		fmt.Fprintf(&b, "\n`onecall init` also reads %s (on Linux).\n", also)
	}
	if len(c.project) > 0 {
		var names []string
		for _, location := range c.project {
			names = append(names, "`"+path.Join(location.folder, location.file)+"`")
		}
		fmt.Fprintf(&b, "\nIn a project, `onecall init` reads %s, and never writes there.\n", strings.Join(names, " and "))
	}
	file := c.locations[0].file
	for _, location := range slices.Backward(c.locations) {
		if !location.readOnly {
			file = location.file
			break
		}
	}
	format := formatOf(file)
	d := openDocument(format, c.servers.path, nil)
	_ = d.insert(d.render(onecallName,
		c.fields("/usr/local/bin/onecall", []string{"serve", "--config", "/home/me/.config/onecall/onecall.yaml"})))
	fmt.Fprintf(&b, "\nA file with only onecall in it:\n\n```%s\n%s```\n", strings.ToLower(string(format)), d.bytes())
	if c.add != nil {
		fmt.Fprintf(&b, "\n`init --install` uses `%s` if that program is on the `PATH`.\n", strings.Join(c.add[:min(3, len(c.add)-1)], " "))
	}
	return b.String()
}

// files lists the client's files on a machine in Markdown: those that are written, or those that are only read.
func (c *Client) files(m *machine, readOnly bool) string {
	var all []string
	for _, location := range c.locations {
		if location.readOnly != readOnly || !m.has(location) {
			continue
		}
		file := m.path(location)
		if m.system == "windows" {
			file = strings.ReplaceAll(file, "/", `\`)
		}
		all = append(all, "`"+file+"`")
	}
	if readOnly {
		return strings.Join(all, ", ")
	}
	return strings.Join(all, ", else ")
}
