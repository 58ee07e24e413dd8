//go:build !unix

package mcp

import (
	"os/exec"
	"time"
)

// processGroup is a child process. This system has no process groups: other processes end when they see their pipes closed.
type processGroup struct{ cmd *exec.Cmd }

func startGroup(cmd *exec.Cmd) (processGroup, error) { return processGroup{cmd}, cmd.Start() }

func (g processGroup) terminate()        { g.kill() }
func (g processGroup) kill()             { _ = g.cmd.Process.Kill() }
func (g processGroup) end(time.Duration) {}
