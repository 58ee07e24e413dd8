package clients

import (
	"time"

	"github.com/tidwall/gjson"
)

// Client describes an MCP client: where its files are, how onecall is installed in it, and how it is documented.
type Client struct {
	ID    string // the client's name for --install
	Title string

	// locations are the user's files, the preferred one first. onecall is installed in one of them (machine.target).
	locations []fileLocation
	// project holds the client's files in a project's folder, which are read but never written.
	project []fileLocation
	// rules and projectRules are files with its rules for tools of servers, which are read only (Import.carryRules).
	rules, projectRules []fileLocation
	// servers is the location of the servers in its files.
	servers section
	// moreSections lists further locations of servers in its files.
	moreSections []section

	// entry makes onecall's entry from a command and its arguments; nil: the entry has only the fields command and args.
	entry func(command string, args []string) []field
	// add is the client's command that adds onecall to the user's servers; nil: its file is edited. $ENTRY stands for the entry as JSON,
	// $NAMED for the entry with its name, $COMMAND for the command with its arguments.
	add []string
}

// fileLocation is the location of a client's file.
type fileLocation struct {
	// folder is the folder of the file. {home} is the user's folder, {settings} the system's folder for settings, {xdg} ~/.config on
	// every system, {local} the local settings on Windows. A * matches any name.
	folder string
	// variable is an environment variable that overrides the folder; "": none.
	variable string
	file     string
	on       system
	// readOnly means that the file is read but never written: the client has moved its servers to another file, or is a preview version.
	readOnly bool
	// sections override the locations of the servers in the file.
	sections []section
}

// system is the operating system that a location is for; "": every one.
type system string

const (
	windows    system = "windows"
	notWindows system = "!windows"
)

// section is an object of servers in a client's file: the path of keys that leads to it, and the form of its entries. A key * stands for
// the project's folder. If form is nil, the entries have onecall's own keys.
type section struct {
	path []string
	form form

	unit         time.Duration // of the key timeout; 0: the client has no such key
	startsWithin bool          // timeout bounds the start, not each call
	// settings carries over what only this client has of limits and approvals; nil: nothing.
	settings func(srv *clientServer, server gjson.Result)
}

var (
	mcpServers   = section{path: []string{"mcpServers"}, unit: time.Millisecond}
	plainServers = section{path: []string{"mcpServers"}} // without limits
	// Gemini CLI and Cline assume SSE for a url without a type.
	geminiServers   = section{path: []string{"mcpServers"}, form: geminiForm, unit: time.Millisecond}
	clineServers    = section{path: []string{"mcpServers"}, form: sseForm, unit: time.Second}
	vscodeServers   = section{path: []string{"servers"}}
	projectServers  = section{path: []string{"projects", "*", "mcpServers"}, unit: time.Millisecond}
	settingsServers = section{path: []string{"mcp", "servers"}}
	dottedServers   = section{path: []string{"mcp.servers"}}
	codexServers    = section{path: []string{"mcp_servers"}, form: codexForm, settings: codexSettings}
	zedServers      = section{path: []string{"context_servers"}, form: zedForm, unit: time.Millisecond, settings: zedSettings}
	gooseServers    = section{path: []string{"extensions"}, form: gooseForm, unit: time.Second}
	opencodeServers = section{path: []string{"mcp"}, form: opencodeForm, unit: time.Millisecond, startsWithin: true}

	// anySections are tried for a file of an unknown program.
	anySections = []section{
		mcpServers, vscodeServers, settingsServers, dottedServers, projectServers, codexServers, zedServers, gooseServers, opencodeServers,
	}
)

// Table is the list of known clients.
var Table = []*Client{
	{
		ID: "claude-desktop", Title: "Claude Desktop", servers: plainServers,
		locations: []fileLocation{
			{folder: "{local}/Packages/Claude_*/LocalCache/Roaming/Claude", file: "claude_desktop_config.json", on: windows},
			{folder: "{settings}/Claude", file: "claude_desktop_config.json"},
		},
	},
	{
		ID: "claude-code", Title: "Claude Code", servers: mcpServers, moreSections: []section{projectServers},
		locations:    []fileLocation{{folder: "{home}", variable: "CLAUDE_CONFIG_DIR", file: ".claude.json"}},
		project:      []fileLocation{{file: ".mcp.json"}},
		rules:        []fileLocation{{folder: "{home}/.claude", variable: "CLAUDE_CONFIG_DIR", file: "settings.json"}},
		projectRules: []fileLocation{{folder: ".claude", file: "settings.json"}, {folder: ".claude", file: "settings.local.json"}},
		entry: func(command string, args []string) []field {
			return append(standardFields(command, args), value("alwaysLoad", true))
		},
		add: []string{"claude", "mcp", "add-json", "--scope", "user", "onecall", "$ENTRY"},
	},
	{
		ID: "cursor", Title: "Cursor", servers: plainServers,
		locations: []fileLocation{{folder: "{home}/.cursor", file: "mcp.json"}},
		project:   []fileLocation{{folder: ".cursor", file: "mcp.json"}},
	},
	{
		ID: "vscode", Title: "VS Code", servers: vscodeServers, moreSections: []section{mcpServers},
		locations: []fileLocation{
			{folder: "{settings}/Code/User", file: "mcp.json"},
			{folder: "{settings}/Code/User", file: "settings.json", readOnly: true, sections: []section{settingsServers, dottedServers}},
			{folder: "{settings}/Code - Insiders/User", file: "mcp.json", readOnly: true},
			{folder: "{settings}/Code - Insiders/User", file: "settings.json", readOnly: true, sections: []section{settingsServers, dottedServers}},
		},
		project: []fileLocation{
			{folder: ".vscode", file: "mcp.json"},
			{folder: ".vscode", file: "settings.json", sections: []section{settingsServers, dottedServers}},
		},
		entry: func(command string, args []string) []field {
			return append([]field{value("type", "stdio")}, standardFields(command, args)...)
		},
		add: []string{"code", "--add-mcp", "$NAMED"},
	},
	{
		ID: "windsurf", Title: "Windsurf", servers: plainServers,
		locations: []fileLocation{{folder: "{home}/.codeium/windsurf", file: "mcp_config.json"}},
	},
	{
		ID: "gemini", Title: "Gemini CLI", servers: geminiServers,
		locations: []fileLocation{{folder: "{home}/.gemini", file: "settings.json"}},
		project:   []fileLocation{{folder: ".gemini", file: "settings.json"}},
		add:       []string{"gemini", "mcp", "add", "--scope", "user", "onecall", "$COMMAND"},
	},
	{
		ID: "codex", Title: "Codex", servers: codexServers,
		locations: []fileLocation{{folder: "{home}/.codex", variable: "CODEX_HOME", file: "config.toml"}},
		project:   []fileLocation{{folder: ".codex", file: "config.toml"}},
		add:       []string{"codex", "mcp", "add", "onecall", "--", "$COMMAND"},
	},
	{
		ID: "cline", Title: "Cline", servers: clineServers,
		locations: []fileLocation{
			{folder: "{settings}/Code/User/globalStorage/saoudrizwan.claude-dev/settings", file: "cline_mcp_settings.json"},
			{folder: "{home}/.cline/data/settings", file: "cline_mcp_settings.json"},
		},
	},
	{
		ID: "zed", Title: "Zed", servers: zedServers,
		locations: []fileLocation{
			{folder: "{xdg}/zed", file: "settings.json", on: notWindows},
			{folder: "{settings}/Zed", file: "settings.json", on: windows},
		},
		project: []fileLocation{{folder: ".zed", file: "settings.json"}},
	},
	{
		ID: "goose", Title: "Goose", servers: gooseServers,
		locations: []fileLocation{
			{folder: "{xdg}/goose", file: "config.yaml", on: notWindows},
			{folder: "{settings}/Block/goose/config", file: "config.yaml", on: windows},
		},
		entry: func(command string, args []string) []field {
			return []field{value("enabled", true), value("type", "stdio"), value("name", "onecall"), value("description", "onecall"),
				value("cmd", command), value("args", args), value("envs", struct{}{}), value("timeout", 300)}
		},
	},
	{
		ID: "opencode", Title: "OpenCode", servers: opencodeServers,
		locations: []fileLocation{
			{folder: "{xdg}/opencode", file: "opencode.jsonc"},
			{folder: "{xdg}/opencode", file: "opencode.json"},
		},
		project: []fileLocation{{file: "opencode.jsonc"}, {file: "opencode.json"}},
		entry: func(command string, args []string) []field {
			return []field{value("type", "local"), value("command", append([]string{command}, args...)), value("enabled", true)}
		},
	},
	{
		ID: "copilot", Title: "Copilot CLI", servers: mcpServers,
		locations: []fileLocation{{folder: "{home}/.copilot", file: "mcp-config.json"}},
		entry: func(command string, args []string) []field {
			return append(append([]field{value("type", "local")}, standardFields(command, args)...), value("tools", []string{"*"}))
		},
		add: []string{"copilot", "mcp", "add", "onecall", "--", "$COMMAND"},
	},
}

// Find returns the client with an ID; nil: there is none.
func Find(id string) *Client {
	for _, c := range Table {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// IDs returns the IDs of all clients.
func IDs() (ids []string) {
	for _, c := range Table {
		ids = append(ids, c.ID)
	}
	return ids
}

// standardFields returns an entry in the form of most clients.
func standardFields(command string, args []string) []field {
	return []field{value("command", command), value("args", args)}
}

// fields returns onecall's entry in this client.
func (c *Client) fields(command string, args []string) []field {
	if c.entry == nil {
		return standardFields(command, args)
	}
	return c.entry(command, args)
}
