//go:build unix

package procgroup

import (
	"os/exec"
	"syscall"
	"time"
)

// Group is a child process and all processes that it started in its process group. A process that left the group (setsid) is not in it.
type Group struct{ id int }

// Start starts cmd as the leader of a new process group. On Linux, the leader gets SIGTERM when onecall dies.
func Start(cmd *exec.Cmd) (Group, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := startTied(cmd); err != nil {
		return Group{}, err
	}
	return Group{cmd.Process.Pid}, nil
}

// Terminate sends SIGTERM to all processes of the group.
func (g Group) Terminate() { _ = syscall.Kill(-g.id, syscall.SIGTERM) }

// Kill kills all processes of the group.
func (g Group) Kill() { _ = syscall.Kill(-g.id, syscall.SIGKILL) }

// groupPoll is the polling interval for the end of a group.
const groupPoll = 5 * time.Millisecond

// End ends the remaining processes of the group after its leader. They have grace to end after SIGTERM.
func (g Group) End(grace time.Duration) {
	if g.hasEndedWithin(0) {
		return
	}
	g.Terminate()
	if !g.hasEndedWithin(grace) {
		g.Kill()
		g.hasEndedWithin(grace)
	}
}

// hasEndedWithin waits up to d until no process of the group is left.
func (g Group) hasEndedWithin(d time.Duration) bool {
	for late := time.Now().Add(d); ; time.Sleep(groupPoll) {
		if syscall.Kill(-g.id, 0) == syscall.ESRCH {
			return true
		}
		if !time.Now().Before(late) {
			return false
		}
	}
}
