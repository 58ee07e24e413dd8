//go:build unix

package app

import (
	"net"
	"os"
	"syscall"
)

// drain closes a listener that no Accept waits on, and returns the connections of its backlog; nil if it was closed before or is not TCP.
func drain(l net.Listener) (list []net.Conn) {
	d, ok := l.(*net.TCPListener)
	if !ok {
		_ = l.Close()
		return nil
	}
	raw, err := d.SyscallConn()
	if err != nil {
		return nil // already closed
	}
	var accepted []int
	_ = raw.Control(func(listener uintptr) {
		syscall.ForkLock.RLock() // a program started meanwhile must not inherit the descriptors
		defer syscall.ForkLock.RUnlock()
		for {
			fd, _, err := syscall.Accept(int(listener)) // never blocks: Go's runtime made the listener non-blocking
			switch err {
			case nil:
				syscall.CloseOnExec(fd)
				accepted = append(accepted, fd)
			case syscall.EINTR, syscall.ECONNABORTED:
			default:
				_ = syscall.Shutdown(int(listener), syscall.SHUT_RDWR) // refuses new connections before Close
				return
			}
		}
	})
	_ = l.Close()
	for _, fd := range accepted {
		file := os.NewFile(uintptr(fd), "")
		if conn, err := net.FileConn(file); err == nil { // duplicates the descriptor
			list = append(list, conn)
		}
		_ = file.Close()
	}
	return list
}
