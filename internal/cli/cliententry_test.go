package cli_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// TestClientEntry starts onecall with the client entry in the documents, and with the one that init prints, and uses it as a client
// does.
func TestClientEntry(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	clitest.Write(t, folder, "servers.json", `{"mcpServers": {"absent": {"command": "no-such-program"}}}`)
	first := clitest.Command(t, folder, "init", "--yes", "--from", "servers.json")
	first.Env = append(first.Environ(), "PATH="+folder) // without an installed onecall
	printed, err := first.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	if !strings.Contains(string(printed), "go install ./cmd/onecall") {
		t.Errorf("the output does not say how to install onecall: %s", printed)
	}
	written := filepath.Join(folder, "onecall.yaml")
	entries := map[string]string{"init": string(printed)}
	for _, document := range []string{"README.md", "docs/mcp-server.md"} {
		text, err := os.ReadFile(filepath.Join("../..", document))
		if err != nil {
			t.Fatal(err)
		}
		entries[document] = strings.ReplaceAll(string(text), "/path/onecall.yaml", filepath.ToSlash(written))
	}
	for name, text := range entries {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			match := regexp.MustCompile(`\{"mcpServers": ?\{"onecall".*`).FindString(text)
			var client struct {
				MCPServers map[string]struct {
					Command string
					Args    []string
				}
			}
			if err := json.Unmarshal([]byte(match), &client); err != nil {
				t.Fatalf("the entry %q: %v", match, err)
			}
			entry := client.MCPServers["onecall"]
			if entry.Command != "onecall" { // also from init, because the test binary is in a temporary folder
				t.Errorf("the command is %s, want onecall", entry.Command)
			}
			if want := []string{"serve", "--config", written}; !slices.Equal(entry.Args, want) {
				t.Errorf("the arguments are %q, want %q", entry.Args, want)
			}
			useServer(t, clitest.Command(t, t.TempDir(), entry.Args...))
		})
	}
}

// useServer lists the tools of a server and runs a chain.
func useServer(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "client", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	if want := []string{"chain", "info", "search"}; !slices.Equal(names, want) {
		t.Errorf("the tools are %q, want %q", names, want)
	}
	result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "chain", Arguments: json.RawMessage(
		`{"steps":[{"fn":"expr.eval","args":{"expression":"[1, 2, 3]"}},{"fn":"expr.eval","args":{"expression":"sum(xs)",` +
			`"vars":{"xs":"$0"}}}],"lite":true}`)})
	if err != nil {
		t.Fatal(err)
	}
	text, ok := result.Content[0].(*sdk.TextContent)
	if !ok || text.Text != "6" || result.IsError || len(result.Content) != 1 {
		t.Errorf("the chain answers %+v, want 6", result)
	}
	if err := session.Close(); err != nil {
		t.Errorf("close of the session: %v", err)
	}
}
