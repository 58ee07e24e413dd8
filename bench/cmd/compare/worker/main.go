// Worker is the comparison's other process. Measured code runs in it, so that the measured memory, files and time are its own.
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
