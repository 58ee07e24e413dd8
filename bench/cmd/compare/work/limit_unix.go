//go:build unix

package work

import "syscall"

// FileLimit is how many files a process may have open; Go has raised the soft limit to the hard one. 0 if unknown.
func FileLimit() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0
	}
	return int(min(l.Max, 1<<30))
}
