//go:build unix && !linux

package mcp

import "os/exec"

// startTied starts cmd. If onecall is killed, the end of its stdin is all that tells the child.
func startTied(cmd *exec.Cmd) error { return cmd.Start() }
