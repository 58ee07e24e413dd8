package porttest

import (
	"os"
	"strconv"
	"syscall"
	"testing"
)

// reserve binds a socket without listening on it. The system then assigns its port to no other process, and refuses connections. A program
// that sets SO_REUSEADDR, as servers do, can still bind the port and listen there, because this socket has it too.
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
