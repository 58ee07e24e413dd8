//go:build unix

package work

import "syscall"

// FileLimit returns how many files a process may have open; 0: unknown. That is the hard limit, to which Go has raised the soft one.
func FileLimit() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0
	}
	return int(min(l.Max, 1<<30))
}
