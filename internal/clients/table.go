package clients

// Client is an MCP client: a row of the table from which its files are read, onecall is installed, and the documents are made.
type Client struct {
	ID    string // as --install takes it
	Title string

	// places are the user's files, the preferred one first; onecall is installed in one of them.
	places []place
	// project are its files below a project's folder. They are read, and never written.
	project []place
	// servers is where in its files the servers stand.
	servers section
	// also is where else they may stand.
	also []section

	// entry makes onecall's entry of a command and its arguments; nil: command and args.
	entry func(command string, args []string) []field
	// add is the client's own command that adds onecall to the user's servers; nil: its file is edited. $ENTRY stands for the entry as
	// JSON, $NAMED for that with its name, $COMMAND for the command with its arguments.
	add []string
}

// place is a file of a client.
type place struct {
	// folder is where the file is. {home} is the user's folder, {settings} that in which programs of the system keep their settings,
	// {xdg} ~/.config on every system, {local} the local settings of Windows. A * is any name.
	folder string
	// variable of the environment that moves the folder; "": none.
	variable string
	file     string
	on       system
	// old is a place that is read, and never written.
	old bool
	// sections are where the servers stand, if not where the client has them.
	sections []section
}

// system is where a place is used; "" is everywhere.
type system string

const (
	windows    system = "windows"
	notWindows system = "!windows"
)

// section is an object of servers in a client's file: the keys that lead to it, and the form of its entries. A key * is the project's
// folder.
type section struct {
	path []string
	form form
}

var (
	mcpServers = section{path: []string{"mcpServers"}}
	// sseServers are those of clients that take a url without a type for one of SSE.
	sseServers      = section{[]string{"mcpServers"}, sseForm}
	vscodeServers   = section{path: []string{"servers"}}
	projectServers  = section{path: []string{"projects", "*", "mcpServers"}}
	settingsServers = section{path: []string{"mcp", "servers"}}
	dottedServers   = section{path: []string{"mcp.servers"}}
	codexServers    = section{[]string{"mcp_servers"}, codexForm}
	zedServers      = section{[]string{"context_servers"}, zedForm}
	gooseServers    = section{[]string{"extensions"}, gooseForm}
	opencodeServers = section{[]string{"mcp"}, opencodeForm}

	// anySections are looked for in a file of which it is not known who wrote it.
	anySections = []section{
		mcpServers, vscodeServers, settingsServers, dottedServers, projectServers, codexServers, zedServers, gooseServers, opencodeServers,
	}
)

// Table are the known clients.
var Table = []*Client{
	{
		ID: "claude-desktop", Title: "Claude Desktop", servers: mcpServers,
		places: []place{
			{folder: "{local}/Packages/Claude_*/LocalCache/Roaming/Claude", file: "claude_desktop_config.json", on: windows},
			{folder: "{settings}/Claude", file: "claude_desktop_config.json"},
		},
	},
	{
		ID: "claude-code", Title: "Claude Code", servers: mcpServers, also: []section{projectServers},
		places:  []place{{folder: "{home}", variable: "CLAUDE_CONFIG_DIR", file: ".claude.json"}},
		project: []place{{file: ".mcp.json"}},
		entry: func(command string, args []string) []field {
			return append(standard(command, args), value("alwaysLoad", true))
		},
		add: []string{"claude", "mcp", "add-json", "--scope", "user", "onecall", "$ENTRY"},
	},
	{
		ID: "cursor", Title: "Cursor", servers: mcpServers,
		places:  []place{{folder: "{home}/.cursor", file: "mcp.json"}},
		project: []place{{folder: ".cursor", file: "mcp.json"}},
	},
	{
		ID: "vscode", Title: "VS Code", servers: vscodeServers, also: []section{mcpServers},
		places: []place{
			{folder: "{settings}/Code/User", file: "mcp.json"},
			{folder: "{settings}/Code/User", file: "settings.json", old: true, sections: []section{settingsServers, dottedServers}},
			{folder: "{settings}/Code - Insiders/User", file: "mcp.json", old: true},
			{folder: "{settings}/Code - Insiders/User", file: "settings.json", old: true, sections: []section{settingsServers, dottedServers}},
		},
		project: []place{
			{folder: ".vscode", file: "mcp.json"},
			{folder: ".vscode", file: "settings.json", sections: []section{settingsServers, dottedServers}},
		},
		entry: func(command string, args []string) []field {
			return append([]field{value("type", "stdio")}, standard(command, args)...)
		},
		add: []string{"code", "--add-mcp", "$NAMED"},
	},
	{
		ID: "windsurf", Title: "Windsurf", servers: mcpServers,
		places: []place{{folder: "{home}/.codeium/windsurf", file: "mcp_config.json"}},
	},
	{
		ID: "gemini", Title: "Gemini CLI", servers: sseServers,
		places:  []place{{folder: "{home}/.gemini", file: "settings.json"}},
		project: []place{{folder: ".gemini", file: "settings.json"}},
		add:     []string{"gemini", "mcp", "add", "--scope", "user", "onecall", "$COMMAND"},
	},
	{
		ID: "codex", Title: "Codex", servers: codexServers,
		places:  []place{{folder: "{home}/.codex", variable: "CODEX_HOME", file: "config.toml"}},
		project: []place{{folder: ".codex", file: "config.toml"}},
		add:     []string{"codex", "mcp", "add", "onecall", "--", "$COMMAND"},
	},
	{
		ID: "cline", Title: "Cline", servers: sseServers,
		places: []place{
			{folder: "{settings}/Code/User/globalStorage/saoudrizwan.claude-dev/settings", file: "cline_mcp_settings.json"},
			{folder: "{home}/.cline/data/settings", file: "cline_mcp_settings.json"},
		},
	},
	{
		ID: "zed", Title: "Zed", servers: zedServers,
		places: []place{
			{folder: "{xdg}/zed", file: "settings.json", on: notWindows},
			{folder: "{settings}/Zed", file: "settings.json", on: windows},
		},
		project: []place{{folder: ".zed", file: "settings.json"}},
	},
	{
		ID: "goose", Title: "Goose", servers: gooseServers,
		places: []place{
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
		places: []place{
			{folder: "{xdg}/opencode", file: "opencode.jsonc"},
			{folder: "{xdg}/opencode", file: "opencode.json"},
		},
		project: []place{{file: "opencode.jsonc"}, {file: "opencode.json"}},
		entry: func(command string, args []string) []field {
			return []field{value("type", "local"), value("command", append([]string{command}, args...)), value("enabled", true)}
		},
	},
	{
		ID: "copilot", Title: "Copilot CLI", servers: mcpServers,
		places: []place{{folder: "{home}/.copilot", file: "mcp-config.json"}},
		entry: func(command string, args []string) []field {
			return append(append([]field{value("type", "local")}, standard(command, args)...), value("tools", []string{"*"}))
		},
		add: []string{"copilot", "mcp", "add", "onecall", "--", "$COMMAND"},
	},
}

// Find returns the client of an ID, nil if there is none.
func Find(id string) *Client {
	for _, c := range Table {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// IDs are those of all clients.
func IDs() (ids []string) {
	for _, c := range Table {
		ids = append(ids, c.ID)
	}
	return ids
}

// standard is an entry in the form of most clients.
func standard(command string, args []string) []field {
	return []field{value("command", command), value("args", args)}
}

// fields is onecall's entry in this client.
func (c *Client) fields(command string, args []string) []field {
	if c.entry == nil {
		return standard(command, args)
	}
	return c.entry(command, args)
}
