//go:build !unix

package work

// FileLimit returns how many files a process may have open; 0: unknown.
func FileLimit() int { return 0 }
