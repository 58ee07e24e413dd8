package clients

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// Entry is what an MCP client needs in its configuration to start onecall with the configuration at path. Clients that are
// started from a desktop have another PATH than a shell: the command is a whole path.
func Entry(path string) []byte {
	command, installed := ownPath()
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	entry, _ := rawjson.Marshal(struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}{command, []string{"serve", "--config", path}}) // of strings: never fails
	text := fmt.Appendf(nil, "\nFor your MCP client, in the place of these servers (onecall init --install CLIENT writes it for you):\n\n    {\"mcpServers\":{\"onecall\":%s}}\n", entry)
	if !installed {
		text = append(text, "\nonecall is not installed: this one was built to be run once. Install it first (go install ./cmd/onecall), on the PATH, and write\n"+
			"the path that it has then as the command.\n"...)
	}
	return text
}

// ownPath is the path of the installed onecall, else of the program that runs. installed is false for what go run builds, in a
// temporary folder.
func ownPath() (path string, installed bool) {
	path, err := exec.LookPath("onecall")
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err == nil {
		return path, true
	}
	if path, err = os.Executable(); err != nil {
		return "onecall", false
	}
	below, err := filepath.Rel(os.TempDir(), path)
	if err == nil && filepath.IsLocal(below) {
		return "onecall", false
	}
	return path, true
}
