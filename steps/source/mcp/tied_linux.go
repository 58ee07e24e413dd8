package mcp

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// starts takes functions that start children. They run on one thread that lives as long as onecall
// does: the kernel sends the signal when the thread that started the child ends, and Go may end any other thread.
var starts = sync.OnceValue(func() chan<- func() {
	all := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range all {
			start()
		}
	}()
	return all
})

// startTied starts cmd so that it gets SIGTERM when onecall dies, also when onecall is killed (prctl(2), PR_SET_PDEATHSIG).
func startTied(cmd *exec.Cmd) error {
	cmd.SysProcAttr.Pdeathsig = syscall.SIGTERM
	done := make(chan error, 1)
	starts() <- func() { done <- cmd.Start() }
	return <-done
}
