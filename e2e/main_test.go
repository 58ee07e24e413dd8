//go:build e2e && unix

// Package e2e tests the whole program in its own processes: with real servers and services, by the commands in the documents, under load,
// with failures, and over a long time. CONTRIBUTING.md lists what it needs.
package e2e

import (
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/onecall-mcp/onecall/internal/cli"
	"github.com/onecall-mcp/onecall/internal/cli/clitest"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == mailServer {
		os.Exit(serveMail())
	}
	if os.Getenv(clitest.AsCommand) != "" {
		os.Exit(cli.Execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	// These tests mostly wait for other processes, so more of them run in parallel than there are processors.
	if err := flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))); err != nil { // unless -parallel is set
		panic(err)
	}
	os.Exit(m.Run())
}
