//go:build !unix

package mcp

import (
	"os/exec"
	"time"
)

// group is a child. Here there are no process groups: what it has started ends when it sees its pipes closed.
type group struct{ cmd *exec.Cmd }

func startGroup(cmd *exec.Cmd) (group, error) { return group{cmd}, cmd.Start() }

func (g group) terminate()        { g.kill() }
func (g group) kill()             { _ = g.cmd.Process.Kill() }
func (g group) end(time.Duration) {}
