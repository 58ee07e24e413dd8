//go:build !linux

package commands

import "os"

// workingPath returns the path of an open folder, which must not be changed until the program is started.
func workingPath(_ *os.File, path string) string { return path }
