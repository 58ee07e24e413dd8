// Worker is the comparison's other process: what is measured runs in it, so that the memory, files and time seen are its own.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/work"
)

func main() {
	if err := work.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
