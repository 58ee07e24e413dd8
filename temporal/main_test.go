package temporal_test

import (
	"os"
	"testing"

	"github.com/onecall-mcp/onecall/internal/cli"
	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/temporal"
)

func TestMain(m *testing.M) {
	if os.Getenv(clitest.AsCommand) != "" {
		os.Exit(cli.ExecuteWith(temporal.Open, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}
