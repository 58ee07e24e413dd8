//go:build !unix

package commands_test

import "os"

var terminate = os.Interrupt
