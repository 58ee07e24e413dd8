//go:build unix

package commands_test

import "syscall"

const terminate = syscall.SIGTERM

// alive reports whether a process is there and is no zombie's remainder of its group.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }
