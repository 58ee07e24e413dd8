//go:build !unix

package work

// FileLimit is how many files a process may have open. 0 if unknown.
func FileLimit() int { return 0 }
