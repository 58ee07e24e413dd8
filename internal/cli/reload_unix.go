//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

// notifyHangups returns a channel of the signals that reload the configuration, and a function that stops them. Signals that arrive before
// the last one was received count as one.
func notifyHangups() (chan os.Signal, func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	return signals, func() { signal.Stop(signals) }
}

// terminalClosed reports whether the terminal that started the command is gone. A hangup signal then means that no client is left.
func (s *streams) terminalClosed() bool {
	return s.errTerminal && !term.IsTerminal(int(os.Stderr.Fd()))
}

// interruptSelf ends the command as a service manager does.
func interruptSelf() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGTERM) // a process may signal itself
}
