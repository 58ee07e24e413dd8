package cli

import "os"

// hangups returns no signal: there is none on Windows. The configuration is loaded again when it changes.
func hangups() (chan os.Signal, func()) { return nil, func() {} }

func (*streams) terminalGone() bool { return false }

func interruptSelf() {}
