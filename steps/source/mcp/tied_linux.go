package mcp

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// startTied starts cmd so that the kernel signals it when onecall dies (prctl(2), PR_SET_PDEATHSIG): kindly where the
// guard sees to the rest, for good where there is no guard.
func startTied(cmd *exec.Cmd, guarded bool) error {
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if guarded {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGTERM
	}
	return onLastingThread(cmd.Start)
}

type starting struct {
	start func() error
	done  chan error
}

// lastingThread runs starts on a thread that lives as long as onecall does: the signal is tied to the thread that has
// started the child, and Go may end any other.
var lastingThread = sync.OnceValue(func() chan<- starting {
	starts := make(chan starting)
	go func() {
		runtime.LockOSThread()
		for s := range starts {
			s.done <- s.start()
		}
	}()
	return starts
})

func onLastingThread(start func() error) error {
	s := starting{start, make(chan error, 1)}
	lastingThread() <- s
	return <-s.done
}
