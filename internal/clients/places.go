package clients

import (
	"path/filepath"
)

// clientFile is a place where an MCP client keeps its servers.
type clientFile struct {
	client string
	path   string
	// keys are where in the file the servers may stand: each a path of keys. A key * is the project's folder.
	keys [][]string
	// folder is what ${workspaceFolder} means in the file: the project's folder; "" where that is not known.
	folder string
}

var (
	mcpServersKey = [][]string{{"mcpServers"}}
	claudeKeys    = [][]string{{"mcpServers"}, {"projects", "*", "mcpServers"}}
	serversKey    = [][]string{{"servers"}, {"mcpServers"}}
	settingsKeys  = [][]string{{"mcp", "servers"}, {"mcp.servers"}}
	// anyKeys are looked for in a file of which it is not known who wrote it.
	anyKeys = [][]string{{"mcpServers"}, {"servers"}, {"mcp", "servers"}, {"mcp.servers"}, {"projects", "*", "mcpServers"}}
)

// machine is what the known places depend on.
type machine struct {
	system  string // as runtime.GOOS has it
	home    string
	project string // the working directory
	getenv  func(string) string
}

// clientFiles are the known places, those of the project before those of the user: in the clients, too, the nearer wins.
func (m *machine) clientFiles() []clientFile {
	project := func(client string, keys [][]string, path ...string) clientFile {
		return clientFile{client, filepath.Join(append([]string{m.project}, path...)...), keys, m.project}
	}
	user := func(client string, keys [][]string, path ...string) clientFile {
		return clientFile{client, filepath.Join(path...), keys, ""}
	}
	settings := m.settings()
	claude := m.getenv("CLAUDE_CONFIG_DIR")
	if claude == "" {
		claude = m.home
	}
	files := []clientFile{
		project("Claude Code", mcpServersKey, ".mcp.json"),
		project("Cursor", mcpServersKey, ".cursor", "mcp.json"),
		project("VS Code", serversKey, ".vscode", "mcp.json"),
		project("VS Code", settingsKeys, ".vscode", "settings.json"),
		user("Claude Desktop", mcpServersKey, settings, "Claude", "claude_desktop_config.json"),
		user("Claude Code", claudeKeys, claude, ".claude.json"),
		user("Cursor", mcpServersKey, m.home, ".cursor", "mcp.json"),
	}
	for _, edition := range []string{"Code", "Code - Insiders"} {
		files = append(files, user("VS Code", serversKey, settings, edition, "User", "mcp.json"),
			user("VS Code", settingsKeys, settings, edition, "User", "settings.json"))
	}
	return append(files, user("Windsurf", mcpServersKey, m.home, ".codeium", "windsurf", "mcp_config.json"))
}

// settings is the folder in which programs of this system keep what the user sets.
func (m *machine) settings() string {
	switch m.system {
	case "darwin":
		return filepath.Join(m.home, "Library", "Application Support")
	case "windows":
		if folder := m.getenv("APPDATA"); folder != "" {
			return folder
		}
		return filepath.Join(m.home, "AppData", "Roaming")
	}
	if folder := m.getenv("XDG_CONFIG_HOME"); filepath.IsAbs(folder) {
		return folder
	}
	return filepath.Join(m.home, ".config")
}
