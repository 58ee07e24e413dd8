package files

import (
	"bytes"
	native "encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// entry is an entry of a folder as the system lists it: with a type, which most file systems tell, and without another look.
type entry struct {
	root *os.Root
	name string
	mode fs.FileMode // only the type
}

// Name implements fs.DirEntry.
func (e *entry) Name() string { return e.name }

// IsDir implements fs.DirEntry.
func (e *entry) IsDir() bool { return e.mode.IsDir() }

// Type implements fs.DirEntry.
func (e *entry) Type() fs.FileMode { return e.mode }

// Info implements fs.DirEntry.
func (e *entry) Info() (fs.FileInfo, error) { return e.root.Lstat(e.name) }

// direntBytes is how much of a folder the system lists at a time.
const direntBytes = 32 << 10

// Where the parts of a record of getdents64(2) are.
const direntLength, direntType, direntName = 16, 18, 19

// readEntries calls add with each entry of a folder, until add fails. os.File.ReadDir, of a file that an os.Root has opened, would look at
// each entry by a system call of its own.
func readEntries(root *os.Root, d *os.File, add func(fs.DirEntry) error) error {
	conn, err := d.SyscallConn()
	if err != nil {
		return err
	}
	buf := make([]byte, direntBytes)
	for {
		var n int
		var readErr error
		err := conn.Control(func(fd uintptr) {
			for {
				if n, readErr = syscall.ReadDirent(int(fd), buf); readErr != syscall.EINTR {
					return
				}
			}
		})
		if err = errors.Join(err, readErr); err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
		for rest := buf[:n]; len(rest) > 0; {
			length := int(native.NativeEndian.Uint16(rest[direntLength:]))
			if length <= direntName || length > len(rest) {
				return io.ErrUnexpectedEOF
			}
			name, _, _ := bytes.Cut(rest[direntName:length], []byte{0})
			kind := rest[direntType]
			rest = rest[length:]
			if string(name) == "." || string(name) == ".." {
				continue
			}
			e := &entry{root: root, name: string(name)}
			if !e.setType(kind) {
				continue
			}
			if err := add(e); err != nil {
				return err
			}
		}
	}
}

// setType sets the type that the system gave, or asks for it. It returns false if the entry is gone.
func (e *entry) setType(kind byte) bool {
	switch kind {
	case syscall.DT_REG:
	case syscall.DT_DIR:
		e.mode = fs.ModeDir
	case syscall.DT_LNK:
		e.mode = fs.ModeSymlink
	case syscall.DT_UNKNOWN:
		info, err := e.Info()
		if err != nil {
			e.mode = fs.ModeIrregular
			return !errors.Is(err, fs.ErrNotExist)
		}
		e.mode = info.Mode().Type()
	default:
		e.mode = fs.ModeIrregular // a FIFO, socket or device: "other"
	}
	return true
}
