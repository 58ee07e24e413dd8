package cli

import "os"

// hangups returns no signals: Windows has none for this. The configuration is reloaded when it changes.
func hangups() (chan os.Signal, func()) { return nil, func() {} }

func (*streams) terminalClosed() bool { return false }

func interruptSelf() {}
