package cli

import "os"

// notifyHangups returns a nil channel: Windows has no such signal. The configuration is reloaded only when it changes.
func notifyHangups() (chan os.Signal, func()) { return nil, func() {} }

func (*streams) terminalClosed() bool { return false }

func interruptSelf() {}
