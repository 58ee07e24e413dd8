package procgroup

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// starter runs functions that start children, on a thread that never ends: the kernel sends the death signal as soon as the thread
// that started the child ends.
var starter = sync.OnceValue(func() chan<- func() {
	starts := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range starts {
			start()
		}
	}()
	return starts
})

// startTied starts cmd so that it gets SIGTERM when onecall dies, even if it is killed (prctl(2), PR_SET_PDEATHSIG).
func startTied(cmd *exec.Cmd) error {
	cmd.SysProcAttr.Pdeathsig = syscall.SIGTERM
	done := make(chan error, 1)
	starter() <- func() { done <- cmd.Start() }
	return <-done
}
