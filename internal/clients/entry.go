package clients

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// EntryHelp says which entry of an MCP client's configuration starts onecall with the configuration at path. The command is an
// absolute path, because desktop clients have a different PATH than shells.
func EntryHelp(path string) []byte {
	command, installed := executablePath()
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	entry, _ := rawjson.Marshal(struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}{command, []string{"serve", "--config", path}}) // never fails for strings
	text := fmt.Appendf(nil,
		"\nIn your MCP client, replace these servers with this entry (onecall init --install CLIENT does that for you):\n\n    "+
			"{\"mcpServers\":{\"onecall\":%s}}\n", entry)
	if !installed {
		text = append(text,
			"\nonecall is not installed: this is a temporary build of go run. First install onecall on the PATH (go install ./cmd/onecall), and\n"+
				"write its path as the command.\n"...)
	}
	return text
}

// executablePath returns the path of the installed onecall, or else of the running program. If that is a temporary build of go run, or its
// path is not known, installed is false and path is only the name onecall.
func executablePath() (path string, installed bool) {
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
	if isGoRun(path) {
		return "onecall", false
	}
	return path, true
}

// isGoRun reports whether a program is a build of go run. Those are in a folder go-build… below the temporary folder, or in the build
// cache, which is called go-build.
func isGoRun(program string) bool {
	return slices.ContainsFunc(strings.Split(filepath.ToSlash(filepath.Dir(program)), "/"), func(folder string) bool {
		return strings.HasPrefix(folder, "go-build")
	})
}
