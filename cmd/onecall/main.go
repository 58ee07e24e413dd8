// Command onecall runs chains of function calls, checks them, and shows the functions that they can call.
package main

import (
	"os"

	"github.com/onecall-mcp/onecall/internal/cli"
)

func main() {
	os.Exit(cli.Execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
