//go:build unix && !linux

package mcp

import "os/exec"

// startTied starts cmd. Only the guard and the end of its stdin tell it that onecall has died.
func startTied(cmd *exec.Cmd, _ bool) error { return cmd.Start() }
