//go:build !linux

package commands

import "os"

// set does nothing: this system cannot bound another process.
func (l *limits) set(int) error { return nil }

// usedUp reports false: no program is ended for its processor time.
func usedUp(*os.ProcessState) bool { return false }
