package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

// TestLadderOfAClient checks that the calls of one request count for the next one of the same stdio client, on each surface.
func TestLadderOfAClient(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	clitest.Write(t, folder, "notes.txt", "a needle in the hay\n")
	clitest.Write(t, folder, "onecall.yaml", "surface: hybrid\nautodispatch: true\nladder: {mode: enforce, subject: path, rungs: "+
		"[fs.grep, fs.list, fs.cat]}\n")
	cmd := clitest.Command(t, folder, "serve")
	cmd.Dir = folder
	client, err := sdk.NewClient(&sdk.Implementation{Name: "client", Version: "1"}, nil).Connect(t.Context(),
		&sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	call := func(tool, args string) (text string, failed bool) {
		t.Helper()
		result, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
		if err != nil {
			t.Fatal(err)
		}
		return result.Content[0].(*sdk.TextContent).Text, result.IsError
	}
	cat := map[string]string{"chain": `{"steps":[{"fn":"fs.cat","args":{"path":"notes.txt"}}]}`, "fs_cat": `{"path":"notes.txt"}`}
	for tool, args := range cat {
		if text, failed := call(tool, args); !failed || !strings.Contains(text, "denied") || !strings.Contains(text, "call fs.grep first") {
			t.Errorf("%s before fs.grep: want denied, got %s", tool, text)
		}
	}
	if text, failed := call("chain", `{"steps":[{"fn":"fs.grep","args":{"pattern":"needle"}}]}`); failed {
		t.Fatalf("chain failed: %s", text)
	}
	for tool, args := range cat {
		if text, failed := call(tool, args); failed || !strings.Contains(text, "a needle in the hay") {
			t.Errorf("%s after fs.grep: got %s, want the needle in the hay", tool, text)
		}
	}
}
