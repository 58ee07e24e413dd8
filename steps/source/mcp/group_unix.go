//go:build unix

package mcp

import (
	"os/exec"
	"syscall"
	"time"
)

// group is a child with all it has started and that has not left its process group.
type group struct{ id int }

// startGroup starts cmd as the leader of a process group of its own.
func startGroup(cmd *exec.Cmd) (group, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := startTied(cmd); err != nil {
		return group{}, err
	}
	return group{cmd.Process.Pid}, nil
}

func (g group) terminate() { _ = syscall.Kill(-g.id, syscall.SIGTERM) }
func (g group) kill()      { _ = syscall.Kill(-g.id, syscall.SIGKILL) }

// groupPoll is how often it is looked whether a group is gone.
const groupPoll = 5 * time.Millisecond

// end ends what is left of the group after its leader.
func (g group) end(grace time.Duration) {
	if g.goneWithin(0) {
		return
	}
	g.terminate()
	if !g.goneWithin(grace) {
		g.kill()
		g.goneWithin(grace)
	}
}

// goneWithin waits until no process of the group is left.
func (g group) goneWithin(d time.Duration) bool {
	for late := time.Now().Add(d); ; time.Sleep(groupPoll) {
		if syscall.Kill(-g.id, 0) == syscall.ESRCH {
			return true
		}
		if !time.Now().Before(late) {
			return false
		}
	}
}
