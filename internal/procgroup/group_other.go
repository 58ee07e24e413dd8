//go:build !unix

package procgroup

import (
	"os/exec"
	"time"
)

// Group is a child process. This system has no process groups: other processes end when they see their pipes closed.
type Group struct{ cmd *exec.Cmd }

// Start starts cmd.
func Start(cmd *exec.Cmd) (Group, error) { return Group{cmd}, cmd.Start() }

// Terminate kills the process.
func (g Group) Terminate() { g.Kill() }

// Kill kills the process.
func (g Group) Kill() { _ = g.cmd.Process.Kill() }

// End does nothing: only the leader is known.
func (g Group) End(time.Duration) {}
