//go:build unix

package mcp

import (
	"os/exec"
	"syscall"
	"time"
)

// processGroup is a child process and all processes that it started in its process group.
type processGroup struct{ id int }

// startGroup starts cmd as the leader of a new process group.
func startGroup(cmd *exec.Cmd) (processGroup, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := startTied(cmd); err != nil {
		return processGroup{}, err
	}
	return processGroup{cmd.Process.Pid}, nil
}

func (g processGroup) terminate() { _ = syscall.Kill(-g.id, syscall.SIGTERM) }
func (g processGroup) kill()      { _ = syscall.Kill(-g.id, syscall.SIGKILL) }

// groupPoll is the polling interval for the end of a group.
const groupPoll = 5 * time.Millisecond

// end ends the remaining processes of the group after its leader.
func (g processGroup) end(grace time.Duration) {
	if g.hasEndedWithin(0) {
		return
	}
	g.terminate()
	if !g.hasEndedWithin(grace) {
		g.kill()
		g.hasEndedWithin(grace)
	}
}

// hasEndedWithin waits up to d until no process of the group is left.
func (g processGroup) hasEndedWithin(d time.Duration) bool {
	for late := time.Now().Add(d); ; time.Sleep(groupPoll) {
		if syscall.Kill(-g.id, 0) == syscall.ESRCH {
			return true
		}
		if !time.Now().Before(late) {
			return false
		}
	}
}
