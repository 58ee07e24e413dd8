package commands

import (
	"cmp"
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// set bounds a process that was just started and was not waited for. What the process starts inherits the bounds. Between its start and the
// bounds lie some microseconds, in which it could start others without them.
func (l *limits) set(pid int) error {
	seconds := uint64(math.Ceil(l.cpu.Seconds()))
	return cmp.Or(
		lower(pid, unix.RLIMIT_DATA, uint64(l.memory), uint64(l.memory)),
		lower(pid, unix.RLIMIT_CPU, seconds, seconds+1)) // SIGXCPU, and a second later SIGKILL
}

// usedUp reports whether a program was ended because it had no processor time left. One that ignores the signal is killed a
// second later.
func usedUp(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGXCPU
}

// lower sets a limit of a process, unless a lower one holds.
func lower(pid, resource int, soft, hard uint64) error {
	var now unix.Rlimit
	if err := unix.Prlimit(pid, resource, nil, &now); err != nil {
		return err
	}
	return unix.Prlimit(pid, resource, &unix.Rlimit{Cur: min(soft, now.Cur), Max: min(hard, now.Max)}, nil)
}
