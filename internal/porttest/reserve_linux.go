package porttest

import (
	"os"
	"strconv"
	"syscall"
	"testing"
)

// reserve binds a socket and does not listen on it. The system gives its port to nobody, and refuses connections. Since SO_REUSEADDR is
// set, a program that sets it too, as servers do, can bind the same port and listen there.
func reserve(tb testing.TB) (port string, err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", os.NewSyscallError("socket", err)
	}
	tb.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return "", os.NewSyscallError("setsockopt", err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return "", os.NewSyscallError("bind", err)
	}
	address, err := syscall.Getsockname(fd)
	if err != nil {
		return "", os.NewSyscallError("getsockname", err)
	}
	return strconv.Itoa(address.(*syscall.SockaddrInet4).Port), nil
}
