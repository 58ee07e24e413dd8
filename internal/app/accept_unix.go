//go:build unix

package app

import (
	"net"
	"os"
	"syscall"
)

// closed closes a listener that nobody waits at, and gives the connections that it has made and nobody has accepted yet.
func closed(l net.Listener) (list []net.Conn) {
	d, ok := l.(*net.TCPListener)
	if !ok {
		_ = l.Close()
		return nil
	}
	raw, err := d.SyscallConn()
	if err != nil {
		return nil // it is closed
	}
	var accepted []int
	_ = raw.Control(func(listener uintptr) {
		syscall.ForkLock.RLock() // no program that starts meanwhile has these
		defer syscall.ForkLock.RUnlock()
		for {
			fd, _, err := syscall.Accept(int(listener)) // which does not block: the listener is of Go's runtime
			switch err {
			case nil:
				syscall.CloseOnExec(fd)
				accepted = append(accepted, fd)
			case syscall.EINTR, syscall.ECONNABORTED:
			default:
				_ = syscall.Shutdown(int(listener), syscall.SHUT_RDWR) // at once: who is connected in between is cut off
				return
			}
		}
	})
	_ = l.Close()
	for _, fd := range accepted {
		file := os.NewFile(uintptr(fd), "")
		if conn, err := net.FileConn(file); err == nil { // of its own descriptor
			list = append(list, conn)
		}
		_ = file.Close()
	}
	return list
}
