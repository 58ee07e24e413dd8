//go:build unix && !linux

package procgroup

import "os/exec"

// startTied starts cmd. Nothing ties the child to onecall: if onecall is killed, the child only sees its stdin closed.
func startTied(cmd *exec.Cmd) error { return cmd.Start() }
