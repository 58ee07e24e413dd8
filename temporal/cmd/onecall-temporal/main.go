// Command onecall-temporal is onecall with an engine for durable runs and batches: a Temporal server, and workers.
package main

import (
	"os"

	"github.com/onecall-mcp/onecall/internal/cli"
	"github.com/onecall-mcp/onecall/temporal"
)

func main() {
	os.Exit(cli.ExecuteWith(temporal.Open, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
