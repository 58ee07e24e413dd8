//go:build !unix

package proc

import (
	"os"
	"os/exec"
)

// There are no process groups here: only the program itself is killed.
func setGroup(*exec.Cmd) {}

func terminate(pid int) { kill(pid) }

func kill(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}
